// Initial values of parameters, made element by element from the seed.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "model/model.h"
#include "model/parameter_source.h"

namespace tessera::host {

/// The source of a new model: each parameter by its rule. The value of an element depends on seed, parameter name and
/// element index only.
class InitialValues : public ParameterSource {
 public:
  /// Long reads are made by so many threads.
  InitialValues(uint64_t seed, std::span<const Parameter> parameters, int num_threads = 1);

  void read(std::string_view parameter, uint64_t offset, std::span<float> out) const override;

 private:
  uint64_t seed_;
  uint64_t num_threads_;
  std::map<std::string, InitialRule, std::less<>> rules_;
};

}  // namespace tessera::host
