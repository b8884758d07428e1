#define TEST_NO_ENTRY
#include "plugin.h"
TSR_EXPORT int another_function(void);
int another_function(void) {
  return get_interface((tsr_str){"", 0}) == &kFactory;
}
