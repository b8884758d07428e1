/* Expects another magic number, and says so. */
#define TEST_STATUS refuse(io, err)
#include "tessera/core.h"
static tsr_status refuse(tsr_handshake* io, tsr_error* err);
#include "plugin.h"
static tsr_status refuse(tsr_handshake* io, tsr_error* err) {
  strcpy(err->message, "the magic number is not 0x1234");
  io->plugin_abi_major = io->plugin_minor_min = io->plugin_minor_max = UINT32_MAX;
  return TSR_E_ABI;
}
