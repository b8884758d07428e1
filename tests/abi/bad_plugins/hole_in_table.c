#define TEST_LOWER NULL
#include "plugin.h"
