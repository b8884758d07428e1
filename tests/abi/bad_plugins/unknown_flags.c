/* A flag of a strategy that has no name. */
#define TEST_FLAGS (TSR_STRATEGY_SHARDS_HOMES | 0x80000000u)
#include "plugin.h"
