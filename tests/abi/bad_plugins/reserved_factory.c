#define TEST_FACTORY_RESERVED 5
#include "plugin.h"
