#define TEST_OFFLOAD
#define TEST_TABLE_SIZE 24
#include "plugin.h"
