// --freeze. A pattern that matches nothing is an error: it is nearly always a misspelt name, and the run would train
// what it was told to keep. Units are laid out anew, since trainable parameters come first in a unit.

#include "model/freeze.h"

#include <fnmatch.h>

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// The first parameters and the last one: enough to see how they are named.
std::string some_names(const Model& model) {
  constexpr size_t kShown = 6;
  std::string names;
  for (size_t p = 0; p + 1 < model.parameters.size() && p < kShown; ++p)
    names += model.parameters[p].name + ", ";
  return names + "..., " + model.parameters.back().name;
}

}  // namespace

void freeze_parameters(Model& model, std::span<const std::string> patterns) {
  for (const std::string& pattern : patterns) {
    bool matches = false;
    for (Parameter& parameter : model.parameters)
      if (fnmatch(pattern.c_str(), parameter.name.c_str(), 0) == 0) {
        parameter.trainable = false;
        matches = true;
      }
    if (!matches)
      throw Error(TSR_E_INVALID_ARGUMENT, "'" + pattern + "' matches no parameter; there are " + some_names(model));
  }
  if (std::ranges::none_of(model.parameters, &Parameter::trainable))
    throw Error(TSR_E_INVALID_ARGUMENT, "no parameter is left to be trained");
  lay_out_units(model);
}

void freeze_all(Model& model) {
  for (Parameter& parameter : model.parameters)
    parameter.trainable = false;
  lay_out_units(model);
}

}  // namespace tessera::host
