/* The command soma-ccom: collectives timed in a simulated world (ccom.lua). */
#include "job.h"

int main(int argc, char **argv) { return soma_part_main(argc, argv, "ccom"); }
