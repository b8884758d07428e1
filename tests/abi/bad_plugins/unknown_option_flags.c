/* A flag of an option that has no name. */
#define TEST_OPTION_FLAGS (TSR_OPTION_PER_RANK | 0x40u)
#include "plugin.h"
