#define TEST_MAJOR 7u
#define TEST_STATUS TSR_E_ABI
#include "plugin.h"
