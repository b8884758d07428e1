/* Returns OK and leaves its answer out. */
#define TEST_ON_QUERY io->plugin_minor_max = UINT32_MAX
#include "plugin.h"
