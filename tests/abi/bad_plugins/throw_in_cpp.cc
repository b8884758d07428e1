// An exception for plugins in C, which have no way to throw one.
#include <stdexcept>
#include <thread>

extern "C" void throw_in_cpp() {
  throw std::runtime_error("thrown where nothing catches it");
}

extern "C" void throw_on_a_thread() {
  std::thread(throw_in_cpp).join();
}
