#define TEST_TABLE (const void*)(size_t)64
#include "plugin.h"
