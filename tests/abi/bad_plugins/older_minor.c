#define TEST_MINOR_MIN 3u
#define TEST_MINOR_MAX 9u
#include "plugin.h"
