#define TEST_MINOR_MIN 13u
#define TEST_MINOR_MAX 14u
#include "plugin.h"
