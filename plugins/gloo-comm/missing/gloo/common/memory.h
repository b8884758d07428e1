// Debian's libgloo-dev installs headers that include this one, but not this one. gloo's own, where it is installed, is
// found first. Here is what the layout of gloo's classes needs: which pointer each of its references holds.
#pragma once

#include <memory>

namespace gloo {

template <typename T>
class NonOwningPtr final {
  std::shared_ptr<T> ptr_;
};

template <typename T>
class WeakNonOwningPtr final {
  std::weak_ptr<T> ptr_;
};

}  // namespace gloo
