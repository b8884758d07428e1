/* Right for this host, and for many that come after it. */
#define TEST_MINOR_MAX 90u
#define TEST_ON_CREATE \
  if (args->host->abi_minor != TSR_ABI_MINOR) return TSR_E_ABI
#include "plugin.h"
