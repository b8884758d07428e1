/* A plugin of the repository with faults in front of its functions: TESSERA_TEST_FAULT names the function. TEST_INNER
 * is the file that does the work, TEST_NAME the name of this one; TEST_IS_DEVICE tells a device from a communicator. */
#include "faults.h"

#include <dlfcn.h>

#include "tessera/communicator.h"
#include "tessera/device.h"

static tsr_status fail(tsr_error* err) {
  err->code = TSR_E_UNAVAILABLE;
  err->rank = -1;
  strcpy(err->domain, "hostile");
  strcpy(err->message, "the cable is unplugged");
  return TSR_E_UNAVAILABLE;
}
/* Work that never ends, on its stream. */
static tsr_status never_end(void* user, tsr_error* err) {
  (void)user, (void)err;
  faults_hang();
  return TSR_OK;
}

#ifdef TEST_IS_DEVICE
#include "wrapped_device.h"
#else
#include "wrapped_comm.h"
#endif

static Table table;
static tsr_descriptor descriptor;

static const void* get_interface(tsr_str id) {
  if (is_fault("interface", "any")) return &table;
  return id.len == sizeof(TEST_INTERFACE) - 1 && memcmp(id.ptr, TEST_INTERFACE, id.len) == 0 ? &table : NULL;
}
static const tsr_factory factory = {sizeof(tsr_factory), 0, &descriptor, get_interface};

TSR_EXPORT tsr_status tsr_plugin_query_v1(tsr_handshake* io, const tsr_host* host, const tsr_factory** result,
                                          tsr_error* err) {
  void* const file = dlopen(TEST_INNER, RTLD_NOW | RTLD_LOCAL);
  const tsr_plugin_query_fn query = file ? (tsr_plugin_query_fn)dlsym(file, TSR_ENTRY_SYMBOL) : NULL;
  if (!query) return TSR_E_NOT_FOUND;
  const tsr_factory* of_inner = NULL;
  const tsr_status status = query(io, host, &of_inner, err);
  if (status != TSR_OK) return status;
  const tsr_str id = {TEST_INTERFACE, sizeof(TEST_INTERFACE) - 1};
  inner = *(const Table*)of_inner->get_interface(id);
  table = wrapped(inner);
  descriptor = *of_inner->descriptor;
  descriptor.name.ptr = TEST_NAME;
  descriptor.name.len = sizeof(TEST_NAME) - 1;
  *result = &factory;
  return TSR_OK;
}
