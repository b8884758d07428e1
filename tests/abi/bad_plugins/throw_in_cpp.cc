// What plugins in C have no way to do.
#include <locale>
#include <stdexcept>
#include <thread>

extern "C" void throw_in_cpp() {
  throw std::runtime_error("thrown where nothing catches it");
}

extern "C" void throw_on_a_thread() {
  std::thread(throw_in_cpp).join();
}

extern "C" void change_locale_in_cpp() {
  struct Points : std::numpunct<char> {
    char do_decimal_point() const override { return 44; }
  };
  std::locale::global(std::locale(std::locale(), new Points));
}
