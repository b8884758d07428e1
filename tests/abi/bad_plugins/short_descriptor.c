#define TEST_DESCRIPTOR_SIZE 40
#include "plugin.h"
