#define TEST_SECOND_OPTION "--steps"
#include "plugin.h"
