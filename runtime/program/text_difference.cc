#include "program/text_difference.h"

#include <algorithm>

#include "base/concat.h"
#include "program/program_text.h"

namespace tessera::host {

std::string text_of(std::span<const Program* const> programs) {
  std::string text;
  for (const Program* program : programs)
    text += print_program(*program, false);
  return text;
}

std::string TextDifference::text(std::string_view where_a, std::string_view where_b) const {
  return concat("line ", line, " is \"", a, "\" ", where_a, " and \"", b, "\" ", where_b);
}

TextDifference first_difference(std::string_view a, std::string_view b) {
  for (size_t line = 1;; ++line) {
    const auto of_a = a.substr(0, a.find('\n')), of_b = b.substr(0, b.find('\n'));
    if (of_a != of_b || (a.empty() && b.empty())) return {line, std::string(of_a), std::string(of_b)};
    a.remove_prefix(std::min(a.size(), of_a.size() + 1));
    b.remove_prefix(std::min(b.size(), of_b.size() + 1));
  }
}

}  // namespace tessera::host
