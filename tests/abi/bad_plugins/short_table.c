#define TEST_TABLE_SIZE 40
#include "plugin.h"
