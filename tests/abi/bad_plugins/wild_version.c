#define TEST_VERSION \
  { (const char*)(size_t)64, 5 }
#include "plugin.h"
