#define TEST_OPTIONS (const tsr_option*)(size_t)64
#include "plugin.h"
