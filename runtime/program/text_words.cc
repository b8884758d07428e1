// Slots have the model's names without the prefix that the segment's name implies: `p:mlp.c_fc.weight` in h.0.fc_gelu
// is h.0.mlp.c_fc.weight. A name that occurs twice in a segment, is a number or needs quotes is replaced by its index,
// so that every text reads back to one slot.

#include "program/text_words.h"

#include <charconv>

namespace tessera::host {
namespace {

using Names = SlotNames::Names;

const Names kScalars = {"squares", "loss", "clip", "step", "lr", "loss_scale", "correct"};
const Names kStates = {"m", "v"};
const Names kNoNames;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_number(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string without_prefix(const std::string& name, std::string_view prefix) {
  const bool has = name.size() > prefix.size() + 1 && name.starts_with(prefix) && name[prefix.size()] == '.';
  return has ? name.substr(prefix.size() + 1) : name;
}

// Leaves only names that mean one index.
Names unambiguous(const Names& names) {
  Names result = names;
  for (std::string& name : result)
    if (!is_plain_word(name) || is_number(name) || std::ranges::count(names, name) > 1) name.clear();
  return result;
}

}  // namespace

/// Its first character is not a sign: "+4:8" is the range of a binding.
bool is_plain_word(std::string_view text) {
  constexpr std::string_view kOthers = "._-/:+@";
  return !text.empty() && (is_letter_or_digit(text[0]) || text[0] == '_') && std::ranges::all_of(text, [&](char c) {
    return is_letter_or_digit(c) || kOthers.find(c) != std::string_view::npos;
  });
}

/// "h.0", "features mb=0". A reader takes the words before the first mark ("persistent", "host") as the name.
bool is_plain_buffer_name(std::string_view name) {
  for (size_t begin = 0;;) {
    const size_t end = std::min(name.find(' ', begin), name.size());
    const std::string_view word = name.substr(begin, end - begin), key = word.substr(0, word.find('='));
    if (!is_plain_word(key) || word == kPersistentWord || word == kHostWord || word == kFileWord ||
        word.starts_with(kStrategyOfBuffer) || word.starts_with(kStateOfBuffer))
      return false;
    if (key.size() != word.size() && !is_plain_word(word.substr(key.size() + 1))) return false;
    if (end == name.size()) return true;
    begin = end + 1;
  }
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result + '"';
}

std::string quoted_unless_plain(std::string_view text) {
  return is_plain_word(text) ? std::string(text) : quote(text);
}

/// After the kind of an action a lone "r" would be the mode of its first binding.
std::string segment_word(std::string_view name) {
  const bool is_mark = name == "r" || name == "w" || name == "a" || name == kPredicatedWord;
  return is_mark ? quote(name) : quoted_unless_plain(name);
}

std::string number_text(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

SlotNames::SlotNames(const Model& model) {
  for (const Segment& segment : model.segments) {
    SegmentNames names;
    const size_t dot = segment.name.rfind('.');
    const std::string block = dot == std::string::npos ? "" : segment.name.substr(0, dot);
    for (const int index : segment.parameters) {
      const Parameter& parameter = model.parameters[index];
      names.parameters.push_back(without_prefix(parameter.name, model.units[parameter.unit].name));
    }
    for (const int index : segment.inputs)
      names.inputs.push_back(without_prefix(model.values[index].name, block));
    for (const int index : segment.outputs)
      names.outputs.push_back(without_prefix(model.values[index].name, block));
    segments_.push_back({unambiguous(names.parameters), unambiguous(names.inputs), unambiguous(names.outputs)});
  }
}

const Names& SlotNames::names(int segment, uint32_t role) const {
  if (role == TSR_ROLE_SCALAR) return kScalars;
  if (role == TSR_ROLE_STATE) return kStates;
  if (segment < 0) return kNoNames;
  const SegmentNames& of = segments_.at(static_cast<size_t>(segment));
  if (role == TSR_ROLE_PARAMETER || role == TSR_ROLE_GRADIENT) return of.parameters;
  if (role == TSR_ROLE_INPUT || role == TSR_ROLE_INPUT_GRADIENT) return of.inputs;
  if (role == TSR_ROLE_OUTPUT || role == TSR_ROLE_OUTPUT_GRADIENT) return of.outputs;
  return kNoNames;
}

std::string SlotNames::name(int segment, uint32_t slot) const {
  const uint32_t role = TSR_SLOT_ROLE(slot), index = TSR_SLOT_INDEX(slot);
  if (role == 0 || role >= std::size(kSlotRoles))
    throw Error(TSR_E_INVALID_ARGUMENT, "slot " + std::to_string(slot) + " has no role");
  const std::string text(kSlotRoles[role]);
  if (index == 0 && (role == TSR_ROLE_SOURCE || role == TSR_ROLE_DESTINATION)) return text;
  const Names& known = names(segment, role);
  return text + ":" + (index < known.size() && !known[index].empty() ? known[index] : std::to_string(index));
}

}  // namespace tessera::host
