/* The default is outside the range. */
#define TEST_DEFAULT "4096"
#include "plugin.h"
