/* The command soma: a process that is alone. */
#include "job.h"

int main(int argc, char **argv) { return soma_main(argc, argv, NULL); }
