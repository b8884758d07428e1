#define TEST_NAME "../etc"
#include "plugin.h"
