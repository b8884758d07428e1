/* A good plugin with a library of its own. */
#include "plugin.h"
const char* brought(void);
__attribute__((constructor)) static void use(void) {
  (void)brought();
}
