/* SPDX-License-Identifier: Apache-2.0 */
/* What most plugins in C write first: strings, errors, the entry, and a look around in a program. Not part of the ABI:
 * everything here is compiled into the plugin, so it may change with any version of these headers. */
#ifndef TESSERA_HELPERS_H
#define TESSERA_HELPERS_H

#include <string.h>
#include <tessera/core.h>
#include <tessera/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An initializer of a tsr_str from a literal. */
#define TSR_STR(literal) \
  { literal, sizeof(literal) - 1 }

/* An initializer of a tsr_action that has neither segment, micro-batch, group, peer nor strategy yet. Of C++, only
 * C++20 has initializers of named fields, and compilers warn of the others. */
#ifdef __cplusplus
static inline tsr_action tsr_action_init(void) {
  tsr_action action = tsr_action();
  action.segment = action.micro_batch = action.group = action.peer = action.strategy = -1;
  return action;
}
#define TSR_ACTION_INIT tsr_action_init()
#else
#define TSR_ACTION_INIT \
  { .segment = -1, .micro_batch = -1, .group = -1, .peer = -1, .strategy = -1 }
#endif

/* Whether a string of the host is this text. [any-thread] */
static inline int tsr_equals(tsr_str s, const char* text) {
  return s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

/* The value of an option, as given to create; NULL for a name that the descriptor does not declare. */
static inline const tsr_option_value* tsr_find_option(const tsr_option_value* values, uint64_t num_values,
                                                      const char* name) {
  for (uint64_t i = 0; i < num_values; ++i)
    if (tsr_equals(values[i].name, name)) return &values[i];
  return NULL;
}

/* Copies what fits of a text, and its end. Neither strncat, of which gcc warns where it may cut, nor strnlen, which C11
 * does not have. [any-thread] */
static inline void tsr_copy_text(char* to, size_t num_bytes, const char* text) {
  const char* const end = (const char*)memchr(text, 0, num_bytes - 1);
  const size_t length = end != NULL ? (size_t)(end - text) : num_bytes - 1;
  memcpy(to, text, length);
  to[length] = 0;
}

/* Fills `err`, which may be NULL, and returns `code`. `domain` is the plugin's name; `sentence` says what is wrong,
 * where, and what to do. Both are cut to what fits. [any-thread] */
static inline tsr_status tsr_fail(tsr_error* err, tsr_status code, const char* domain, const char* sentence) {
  if (err == NULL) return code;
  memset(err, 0, sizeof *err);
  err->code = code;
  err->rank = -1;
  tsr_copy_text(err->domain, sizeof err->domain, domain);
  tsr_copy_text(err->message, sizeof err->message, sentence);
  return code;
}

/* Answers the host's handshake for a plugin that needs TSR_TARGET_MINOR. TSR_E_ABI: the host does not have it, or has
 * other pointers. */
static inline tsr_status tsr_shake_hands(tsr_handshake* io, const char* domain, tsr_error* err) {
  if (io->magic != TSR_MAGIC) return tsr_fail(err, TSR_E_ABI, domain, "the handshake has a wrong magic number");
  io->plugin_abi_major = TSR_ABI_MAJOR;
  io->plugin_minor_min = TSR_TARGET_MINOR;
  io->plugin_minor_max = TSR_ABI_MINOR;
  if (io->abi_major == TSR_ABI_MAJOR && io->pointer_bits == 8 * sizeof(void*) && io->host_minor_min <= TSR_ABI_MINOR &&
      io->host_minor_max >= TSR_TARGET_MINOR)
    return TSR_OK;
  return tsr_fail(
      err, TSR_E_ABI, domain,
      "this plugin and the host have no version of the ABI in common; build it with the host's headers, or with "
      "a TSR_TARGET_MINOR that the host has");
}

/* Defines the entry of a plugin with one interface, and what it returns:
 *     TSR_DEFINE_PLUGIN("name", kDescriptor, TSR_STRATEGY_INTERFACE, kInterface) */
#define TSR_DEFINE_PLUGIN(domain, descriptor_, interface_id, interface_)                                          \
  static const void* tsr_get_interface(tsr_str id) TSR_NOEXCEPT {                                                 \
    return tsr_equals(id, interface_id) ? &(interface_) : NULL;                                                   \
  }                                                                                                               \
  static tsr_factory tsr_plugin_factory;                                                                          \
  TSR_EXPORT tsr_status tsr_plugin_query_v1(tsr_handshake* io, const tsr_host* host, const tsr_factory** factory, \
                                            tsr_error* err) TSR_NOEXCEPT {                                        \
    (void)host;                                                                                                   \
    const tsr_status status = tsr_shake_hands(io, domain, err);                                                   \
    if (status != TSR_OK) return status;                                                                          \
    tsr_plugin_factory.struct_size = sizeof tsr_plugin_factory;                                                   \
    tsr_plugin_factory.descriptor = &(descriptor_);                                                               \
    tsr_plugin_factory.get_interface = tsr_get_interface;                                                         \
    *factory = &tsr_plugin_factory;                                                                               \
    return status;                                                                                                \
  }

/* The binding of a slot; NULL if the action has none. */
static inline const tsr_binding* tsr_find_binding(const tsr_action* action, uint32_t slot) {
  for (uint64_t i = 0; i < action->num_bindings; ++i)
    if (action->bindings[i].slot == slot) return &action->bindings[i];
  return NULL;
}

/* The role of a home with that number; NULL if it has none: a frozen parameter has no gradient. */
static inline const tsr_home_role* tsr_find_role(const tsr_home* home, uint32_t number) {
  for (uint32_t i = 0; i < home->num_roles; ++i)
    if (home->roles[i].number == number) return &home->roles[i];
  return NULL;
}

/* The buffer of an id; NULL if the program has none. Linear in their number. */
static inline const tsr_buffer* tsr_find_buffer(const tsr_program_view* view, uint64_t id) {
  for (uint64_t i = 0; i < view->num_buffers; ++i)
    if (view->buffers[i].id == id) return &view->buffers[i];
  return NULL;
}

/* Whether two bindings have an element in common. */
static inline int tsr_overlap(const tsr_binding* a, const tsr_binding* b) {
  return a->buffer == b->buffer && a->offset < b->offset + b->num_elements && b->offset < a->offset + a->num_elements;
}

/* The id of the last action that writes or adds to the range; 0 if none does, which insert() takes as the end of the
 * list. Linear in the number of actions. */
static inline uint64_t tsr_last_writer(const tsr_program_view* view, const tsr_binding* range) {
  for (uint64_t i = view->num_actions; i-- > 0;) {
    const tsr_action* action = &view->actions[i];
    for (uint64_t b = 0; b < action->num_bindings; ++b)
      if (action->bindings[b].mode != TSR_MODE_READ && tsr_overlap(&action->bindings[b], range)) return action->id;
  }
  return 0;
}

#ifdef __cplusplus
}
#endif
#endif
