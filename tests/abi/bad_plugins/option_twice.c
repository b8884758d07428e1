#define TEST_SECOND_OPTION "ratio"
#include "plugin.h"
