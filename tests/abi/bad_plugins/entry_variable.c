/* Data by the name of the entry. */
#define TEST_NO_ENTRY
#include "plugin.h"
TSR_EXPORT const int entry_as_data __asm__("tsr_plugin_query_v1");
const int entry_as_data = 1;
