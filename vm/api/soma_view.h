#include "../../isa/view.h" /* which `make install` puts here */
