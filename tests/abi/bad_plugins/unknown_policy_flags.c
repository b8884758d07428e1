/* A flag of an offload policy that has no name. */
#define TEST_OFFLOAD
#define TEST_FLAGS 8u
#include "plugin.h"
