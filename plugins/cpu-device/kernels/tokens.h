// Ids that are data: tokens, and labels of classes.
#pragma once

#include <cstdint>

namespace tessera::cpu {

/// What ids are, and what they are ids of, for messages.
struct IdKind {
  const char* name;
  const char* set;
};
inline constexpr IdKind kToken{"token", "vocabulary"}, kTarget{"target", "vocabulary"}, kLabel{"label", "classes"};

/// Throws INVALID_ARGUMENT with position and value of the first id outside of [0, limit).
void check_ids(const int32_t* ids, uint64_t num_ids, uint64_t limit, const IdKind& kind);
/// Also takes TSR_NO_TARGET.
void check_targets(const int32_t* ids, uint64_t num_ids, uint64_t limit, const IdKind& kind);

}  // namespace tessera::cpu
