#include "plugin.h"
TSR_EXPORT int another_function(void);
int another_function(void) {
  return 1;
}
