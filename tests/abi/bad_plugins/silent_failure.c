/* Fails without a message. */
#define TEST_STATUS TSR_E_INTERNAL
#include "plugin.h"
