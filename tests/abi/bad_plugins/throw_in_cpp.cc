// An exception for plugins in C, which have no way to throw one.
#include <stdexcept>

extern "C" void throw_in_cpp() {
  throw std::runtime_error("thrown where nothing catches it");
}
