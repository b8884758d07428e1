#define TEST_MINOR_MIN 12u
#define TEST_MINOR_MAX 13u
#include "plugin.h"
