#define TEST_FACTORY (const tsr_factory*)(size_t)64
#include "plugin.h"
