#define TEST_DESCRIPTOR_RESERVED 3
#include "plugin.h"
