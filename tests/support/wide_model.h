// Two layers of GPT-2's width, heads and vocabulary: large enough for the sizes at which code begins to work in pieces.
#pragma once

#include <string>

#include "support/temp_folder.h"

namespace tessera::testing {

/// A copy of tests/golden/gpt2-wide with its weights and tokens, which are made by a formula: 215 MB, gone with this.
class WideModel {
 public:
  WideModel();
  std::string folder() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

}  // namespace tessera::testing
