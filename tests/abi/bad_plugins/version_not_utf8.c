#define TEST_VERSION TEST_STR("1.\xff\xfe")
#include "plugin.h"
