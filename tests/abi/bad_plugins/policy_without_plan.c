#define TEST_OFFLOAD
#define TEST_PLAN NULL
#include "plugin.h"
