// Where the texts of two programs that should be equal differ.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "program/program.h"

namespace tessera::host {

/// The texts of a rank's programs, one after another: equal for ranks that run the same programs.
std::string text_of(std::span<const Program* const> programs);

/// The first line that differs; empty where a text has ended.
struct TextDifference {
  size_t line;  ///< from 1
  std::string a, b;

  /// `line 58 is "..." here and "..." there`.
  std::string text(std::string_view where_a, std::string_view where_b) const;
};

/// Of two texts that differ.
TextDifference first_difference(std::string_view a, std::string_view b);

}  // namespace tessera::host
