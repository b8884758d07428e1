#define TEST_SPARE 1
#include "plugin.h"
