// Standard input, output and error of a command.
#pragma once

#include <array>
#include <iostream>
#include <streambuf>
#include <string>

namespace tessera::host {

/// Opens those that are closed on /dev/null, so that no file of ours gets their numbers. What is written to a standard
/// output that was closed fails.
void open_standard_files();

/// Takes the place of std::cout's buffer while it lives, and keeps the reason when something could not be written.
class StandardOutput : public std::streambuf {
 public:
  StandardOutput() : before_(std::cout.rdbuf(this)) { setp(buffer_.data(), buffer_.data() + buffer_.size()); }
  ~StandardOutput() override { std::cout.rdbuf(before_); }

  /// Writes what is left. Why not all that was printed has been written, or empty.
  std::string finish();

 private:
  int_type overflow(int_type next) override;
  int sync() override;

  std::array<char, 65536> buffer_;
  std::streambuf* before_;
  int error_ = 0;  // errno of the first write that failed; nothing is written after it
};

}  // namespace tessera::host
