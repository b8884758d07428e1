// Flags in words: what a help, a manual page or a completion needs of them.
#pragma once

#include <string>

namespace tessera::host {

struct FlagText {
  std::string group;          ///< its heading
  std::string name;           ///< without dashes
  std::string value;          ///< what is written for the value, such as N or auto|off; empty: a switch
  std::string help;           ///< without the default
  std::string default_value;  ///< empty: there is none to show
  bool is_required = false;
  bool is_repeatable = false;
};

}  // namespace tessera::host
