#include "data/dataset.h"

#include "base/concat.h"

namespace tessera::host {

const std::string& Dataset::fingerprint() const {
  std::call_once(hashed_, [this] {
    const auto [items, number] = size();
    fingerprint_ = concat(number, " ", items, ", sha256 ", content_hash().substr(0, 16));
  });
  return fingerprint_;
}

}  // namespace tessera::host
