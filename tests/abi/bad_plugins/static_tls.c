/* A good plugin with more thread-local storage of the initial kind than is left when a program has started. */
#include "plugin.h"
static __thread volatile char large[1 << 20] __attribute__((tls_model("initial-exec")));
__attribute__((constructor)) static void use(void) {
  large[0] = 1;
}
