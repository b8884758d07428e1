/* Says communicator and has a table for strategies only. */
#define TEST_KIND TSR_KIND_COMMUNICATOR
#include "plugin.h"
