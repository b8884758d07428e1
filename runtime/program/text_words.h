// The words of a program's text: names, numbers, slots. What prints a text uses them, and what reads it in tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"
#include "tessera/error.hpp"

namespace tessera::host {

struct TextName {
  uint32_t number;
  std::string_view text;
};

inline constexpr TextName kPurposeNames[] = {
    {TSR_PURPOSE_INIT, "init"}, {TSR_PURPOSE_STEP, "step"}, {TSR_PURPOSE_EVAL, "eval"}};
inline constexpr TextName kReduceEveryNames[] = {{TSR_EVERY_STEP, "step"}, {TSR_EVERY_MICRO_BATCH, "micro-batch"}};
inline constexpr TextName kOptimizerNames[] = {{TSR_OP_ADAMW, "adamw"}, {TSR_OP_SGD, "sgd"}};
inline constexpr TextName kReduceNames[] = {
    {TSR_REDUCE_SUM, "sum"}, {TSR_REDUCE_AVG, "avg"}, {TSR_REDUCE_MIN, "min"}, {TSR_REDUCE_MAX, "max"}};
inline constexpr TextName kModeNames[] = {{TSR_MODE_READ, "r"}, {TSR_MODE_WRITE, "w"}, {TSR_MODE_ADD, "a"}};

inline constexpr TextName kOnChangeNames[] = {
    {TSR_ON_CHANGE_RESET, "reset"}, {TSR_ON_CHANGE_KEEP, "keep"}, {TSR_ON_CHANGE_REFUSE, "refuse"}};

/// By TSR_ROLE_*; role 0 does not exist.
inline constexpr std::string_view kSlotRoles[] = {"",  "p", "g", "i",   "o",   "di", "do",
                                                  "s", "c", "w", "src", "dst", "x",  "st"};

inline constexpr std::string_view kStrategyOfBuffer = "strategy=";
inline constexpr std::string_view kStateOfBuffer = "state=";  ///< version and on_change: "state=1:keep"
inline constexpr std::string_view kPersistentWord = "persistent";
inline constexpr std::string_view kHostWord = "host";
inline constexpr std::string_view kFileWord = "file";
inline constexpr std::string_view kPredicatedWord = "predicated";

template <size_t N>
std::string_view text_of(const TextName (&names)[N], uint32_t number, const char* what) {
  const auto found = std::ranges::find(names, number, &TextName::number);
  if (found == std::end(names))
    throw Error(TSR_E_INVALID_ARGUMENT, std::string(what) + " " + std::to_string(number) + " does not exist");
  return found->text;
}

/// The name of Action::peer in the text.
inline std::string_view peer_key(uint32_t kind) {
  return kind == TSR_ACTION_BROADCAST || kind == TSR_ACTION_REDUCE ? "root" : "peer";
}

/// Letters, digits and ". _ - / : + @": written without quotes, also as part of a longer word.
bool is_plain_word(std::string_view text);
/// Words with single blanks between them, none of which could be taken for a mark.
bool is_plain_buffer_name(std::string_view name);
/// In quotes, with \" \\ \n for what needs escaping.
std::string quote(std::string_view text);
std::string quoted_unless_plain(std::string_view text);
/// A segment's name where a mode or a mark could be expected too.
std::string segment_word(std::string_view name);
/// The shortest text that reads back to the same number.
std::string number_text(double number);

/// Slots as the segments of a model call them: "p:c_attn.weight", "do:x.1", "s:0", "src", "src:1", "x:clip", "st:m".
/// A parameter's name omits its unit, a value's the block of the segment ("h.0" of "h.0.qkv"). A name that is not
/// plain, or not the only one of its kind in the segment, is replaced by the index.
class SlotNames {
 public:
  using Names = std::vector<std::string>;  ///< by index; "" where the index is the name

  explicit SlotNames(const Model& model);

  /// `segment` -1: the action has none. Throws INVALID_ARGUMENT for a role that does not exist.
  std::string name(int segment, uint32_t slot) const;
  /// The names of a role's slots; empty where all of them are indices.
  const Names& names(int segment, uint32_t role) const;

 private:
  struct SegmentNames {
    Names parameters, inputs, outputs;
  };
  std::vector<SegmentNames> segments_;
};

}  // namespace tessera::host
