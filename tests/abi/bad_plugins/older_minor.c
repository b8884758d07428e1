#define TEST_MINOR_MIN 3u
#define TEST_MINOR_MAX 8u
#include "plugin.h"
