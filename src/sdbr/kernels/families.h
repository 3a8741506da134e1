/* The families that exist once per dtype. */
#include "elementwise.h"
