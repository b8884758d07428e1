// Names of slots are those of the model without the prefix that the segment says already: `p:mlp.c_fc.weight` in
// h.0.fc_gelu is h.0.mlp.c_fc.weight. A name that occurs twice in a segment, is a number or needs quotes is replaced by
// its index, so that every text reads back to one slot.

#include "program/text_words.h"

#include <algorithm>

namespace tessera::host {
namespace {

using Names = std::vector<std::string>;

constexpr std::string_view kRoles[] = {"", "p", "g", "i", "o", "di", "do", "s", "c", "w", "src", "dst", "x", "st"};
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

std::string names_text(std::string_view role, const Names& names) {
  std::string result;
  for (size_t i = 0; i < names.size(); ++i)
    result += (i ? ", " : "") + std::string(role) + ":" + (names[i].empty() ? std::to_string(i) : names[i]);
  return result.empty() ? std::string(role) + ":<index>" : result;
}

}  // namespace

bool is_plain_word(std::string_view text) {
  constexpr std::string_view kOthers = "._-/:+@";
  return !text.empty() && (is_letter_or_digit(text[0]) || text[0] == '_') && std::ranges::all_of(text, [&](char c) {
    return is_letter_or_digit(c) || kOthers.find(c) != std::string_view::npos;
  });
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result + '"';
}

std::string unquoted(std::string_view word) {
  if (!word.starts_with('"')) return std::string(word);
  std::string result;
  for (size_t i = 1; i < word.size(); ++i) {
    if (word[i] == '"' && i + 1 == word.size()) return result;
    if (word[i] == '"') break;
    if (word[i] == '\\' && ++i < word.size() && word[i] == 'n')
      result += '\n';
    else if (i < word.size())
      result += word[i];
  }
  throw Error(TSR_E_INVALID_ARGUMENT, "the quotes of " + std::string(word) + " do not end where the word ends");
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  bool in_word = false, in_quotes = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool is_blank = line[i] == ' ' && !in_quotes;
    if (!is_blank && !in_word) begin = i;
    if (is_blank && in_word) words.push_back(line.substr(begin, i - begin));
    in_word = !is_blank;
    if (in_quotes && line[i] == '\\')
      ++i;
    else if (line[i] == '"')
      in_quotes = !in_quotes;
  }
  if (in_word) words.push_back(line.substr(begin));
  return words;
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
  if (role == 0 || role >= std::size(kRoles))
    throw Error(TSR_E_INVALID_ARGUMENT, "slot " + std::to_string(slot) + " has no role");
  const std::string text(kRoles[role]);
  if (index == 0 && (role == TSR_ROLE_SOURCE || role == TSR_ROLE_DESTINATION)) return text;
  const Names& known = names(segment, role);
  return text + ":" + (index < known.size() && !known[index].empty() ? known[index] : std::to_string(index));
}

uint32_t SlotNames::slot(int segment, std::string_view name) const {
  const size_t colon = name.find(':');
  const std::string_view role_text = name.substr(0, colon);
  const auto role = static_cast<uint32_t>(std::ranges::find(kRoles, role_text) - std::begin(kRoles));
  if (role_text.empty() || role == std::size(kRoles))
    throw Error(TSR_E_INVALID_ARGUMENT, "'" + std::string(name) +
                                            "' is no slot: expected one of p: g: i: o: di: do: s: "
                                            "c: w: src dst x: st:");
  if (colon == std::string_view::npos && (role == TSR_ROLE_SOURCE || role == TSR_ROLE_DESTINATION))
    return TSR_SLOT(role, 0);
  const std::string_view of_role = colon == std::string_view::npos ? "" : name.substr(colon + 1);
  const Names& known = names(segment, role);
  const auto found = std::ranges::find(known, of_role);
  if (!of_role.empty() && found != known.end()) return TSR_SLOT(role, found - known.begin());
  if (of_role.empty() || !is_number(of_role) || of_role.size() > 5 || number_from<uint32_t>(of_role, "index") > 0xffff)
    throw Error(TSR_E_INVALID_ARGUMENT,
                "'" + std::string(name) + "' is no slot of the action: expected " + names_text(role_text, known));
  return TSR_SLOT(role, number_from<uint32_t>(of_role, "index"));
}

}  // namespace tessera::host
