/* A mask of what the ABI reserves. */
#define TEST_SPLITS (TSR_SPLITS_BATCH | TSR_SPLITS_SEQUENCE)
#include "plugin.h"
