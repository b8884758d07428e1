/* What the sentinels of a minor are written in. A wrong one does not compile. */
#ifndef TESSERA_TESTS_SENTINELS_H
#define TESSERA_TESTS_SENTINELS_H

#include <tessera/communicator.h>
#include <tessera/core.h>
#include <tessera/device.h>
#include <tessera/device_timestamps.h>
#include <tessera/offload.h>
#include <tessera/program.h>
#include <tessera/strategy.h>

#ifdef __cplusplus
constexpr bool same_text(const char* a, const char* b) {
  return *a == *b && (*a == '\0' || same_text(a + 1, b + 1));
}
#define CHECK(is_right, what) static_assert(is_right, what)
#define TEXT(name, text) CHECK(same_text(name, text), #name " has another text")
#else
#define CHECK(is_right, what) _Static_assert(is_right, what)
#define TEXT(name, text) CHECK(sizeof(name) == sizeof(text), #name " has a text of another length")
#endif

#define SIZE(type, num_bytes) CHECK(sizeof(type) == (num_bytes), #type " has another size")
#define FIELD(type, field, offset, num_bytes)                                          \
  CHECK(offsetof(type, field) == (offset) && sizeof(((type*)0)->field) == (num_bytes), \
        #type "." #field " has another offset or size")
#define VALUE(name, value) CHECK((name) == (value), #name " has another value")

#endif
