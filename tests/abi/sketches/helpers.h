/* What the examples of models.h use. */
#ifndef TESSERA_HELPERS_H
#define TESSERA_HELPERS_H
#include <stdio.h>
#include <string.h>
#include "models.h"
#define TSR_STR(text) (((tsr_str){(text), sizeof(text) - 1}))
static inline int tsr_str_is(tsr_str s, const char* text) {
  return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}
static inline tsr_status tsr_fail(tsr_error* err, tsr_status status, const char* domain, const char* message) {
  err->code = status, err->rank = -1;
  snprintf(err->domain, sizeof err->domain, "%s", domain);
  snprintf(err->message, sizeof err->message, "%s", message);
  return status;
}
static inline tsr_status tsr_shake_hands(tsr_handshake* io, tsr_error* err, const char* domain) {
  io->plugin_minor_min = io->plugin_minor_max = TSR_ABI_MINOR, io->plugin_abi_major = TSR_ABI_MAJOR;
  if (io->magic == TSR_MAGIC && io->abi_major == TSR_ABI_MAJOR && io->pointer_bits == 64 &&
      io->host_minor_min <= TSR_ABI_MINOR && io->host_minor_max >= TSR_ABI_MINOR)
    return TSR_OK;
  return tsr_fail(err, TSR_E_ABI, domain, "built for another ABI");
}
/* Position of a slot among those given to prepare; -1: it was left out. */
static inline int tsr_slot_at(const tsr_slot_spec* slots, uint64_t n, uint32_t role, uint32_t index) {
  for (uint64_t i = 0; i < n; ++i)
    if (slots[i].slot == TSR_SLOT(role, index)) return (int)i;
  return -1;
}
/* The plugin's entry: one table, one interface. */
#define TSR_PLUGIN(NAME, KIND, ID, INTERFACE, TABLE)                                                           \
  static const tsr_descriptor tsr_own_descriptor = {sizeof(tsr_descriptor),                                    \
                                                    0,                                                         \
                                                    {NAME, sizeof(NAME) - 1},                                  \
                                                    {KIND, sizeof(KIND) - 1},                                  \
                                                    {ID, sizeof(ID) - 1},                                      \
                                                    {"1", 1},                                                  \
                                                    {"", 0},                                                   \
                                                    {"", 0},                                                   \
                                                    NULL,                                                      \
                                                    0};                                                        \
  static const void* tsr_own_interface(tsr_str id) {                                                           \
    return tsr_str_is(id, INTERFACE) ? &(TABLE) : NULL;                                                        \
  }                                                                                                            \
  static const tsr_factory tsr_own_factory = {sizeof(tsr_factory), 0, &tsr_own_descriptor, tsr_own_interface}; \
  TSR_EXPORT tsr_status tsr_plugin_query_v1(tsr_handshake* io, const tsr_host* host, const tsr_factory** f,    \
                                            tsr_error* err) {                                                  \
    (void)host;                                                                                                \
    *f = &tsr_own_factory;                                                                                     \
    return tsr_shake_hands(io, err, NAME);                                                                     \
  }
#endif
