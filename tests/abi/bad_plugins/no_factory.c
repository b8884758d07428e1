#define TEST_FACTORY NULL
#include "plugin.h"
