#define TEST_TABLE_SIZE 1000000
#include "plugin.h"
