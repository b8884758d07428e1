#define TEST_NO_INTERFACE
#include "plugin.h"
