#define TEST_MINOR_MIN 13u
#define TEST_MINOR_MAX 12u
#include "plugin.h"
