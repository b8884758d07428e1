/* What the examples of models.h use beside tessera/helpers.h. */
#ifndef TESSERA_SKETCHES_HELPERS_H
#define TESSERA_SKETCHES_HELPERS_H

#include <stdio.h>
#include <tessera/helpers.h>

#include "models.h"

/* Position of a slot among those given to prepare; -1: it was left out. */
static inline int slot_at(const tsr_slot_spec* slots, uint64_t n, uint32_t role, uint32_t index) {
  for (uint64_t i = 0; i < n; ++i)
    if (slots[i].slot == TSR_SLOT(role, index)) return (int)i;
  return -1;
}

/* The plugin's entry: one table of one interface. */
#define PLUGIN(NAME, KIND, ID, INTERFACE, TABLE)                                    \
  static const tsr_descriptor kDescriptor = {.struct_size = sizeof(tsr_descriptor), \
                                             .name = TSR_STR(NAME),                 \
                                             .kind = TSR_STR(KIND),                 \
                                             .id = TSR_STR(ID),                     \
                                             .version = TSR_STR("1")};              \
  TSR_DEFINE_PLUGIN(NAME, kDescriptor, INTERFACE, TABLE)

#endif
