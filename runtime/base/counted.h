// Numbers with their nouns, for people.
#pragma once

#include <string>
#include <string_view>

#include "base/concat.h"

namespace tessera::host {

/// 1, "rank" -> "1 rank"; 3, "rank" -> "3 ranks"; 2, "class" -> "2 classes". For nouns with this plural.
template <class Integer>
std::string counted(Integer count, std::string_view noun) {
  return concat(count, " ", noun, count == 1 ? "" : noun.ends_with('s') ? "es" : "s");
}

}  // namespace tessera::host
