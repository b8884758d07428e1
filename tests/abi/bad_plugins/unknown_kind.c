#define TEST_KIND "painter"
#include "plugin.h"
