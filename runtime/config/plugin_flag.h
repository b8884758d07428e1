// A flag that belongs to a plugin. The first pass over the command line sets it aside; the second, in plugins/, checks
// it.
#pragma once

#include <string>

namespace tessera::host {

/// `--<name>=<value>`, where the name holds a dot: "ddp.bucket-mb" or, for one axis, "dp.ddp.bucket-mb".
struct PluginFlag {
  std::string name;
  std::string value;      ///< "true" when none was given, which only a boolean option accepts
  bool has_value = true;  ///< a value was given
  std::string file = {};  ///< that has it; empty: the command line
};

}  // namespace tessera::host
