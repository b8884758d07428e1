#define TEST_ID ""
#include "plugin.h"
