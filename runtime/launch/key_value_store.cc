// What all implementations refuse, with the same sentences: a job fails alike with ranks as threads and as processes.

#include "launch/key_value_store.h"

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {

void check_key(std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyBytes)
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("a key of the key-value store has ", key.size(), " bytes; give it 1 to ", kMaxKeyBytes));
}

void check_value(std::string_view key, std::string_view value) {
  if (value.size() > kMaxValueBytes)
    throw Error(TSR_E_INVALID_ARGUMENT, concat("the value for key '", key, "' has ", value.size(),
                                               " bytes; the key-value store takes at most ", kMaxValueBytes));
}

void throw_missing(std::string_view key, int64_t timeout_ms) {
  throw Error(TSR_E_DEADLINE, concat("no rank set '", key, "' in the key-value store within ", timeout_ms, " ms"));
}

}  // namespace tessera::host
