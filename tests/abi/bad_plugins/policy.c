/* An offload policy from which the others differ in one respect. */
#define TEST_OFFLOAD
#include "plugin.h"
