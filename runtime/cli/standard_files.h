// Standard input, output and error of a command.
#pragma once

#include <array>
#include <iostream>
#include <streambuf>
#include <string>

namespace tessera::host {

/// Opens those that are closed on /dev/null, so that no other file gets their descriptors. Writing to a standard output
/// that was closed still fails.
void open_standard_files();

/// Begins the sentence about output that could not be written.
inline constexpr const char* kCannotWrite = "cannot write to standard output: ";

/// Replaces the buffer of std::cout during its lifetime, and keeps the reason of the first write that failed.
class StandardOutput : public std::streambuf {
 public:
  StandardOutput() : before_(std::cout.rdbuf(this)) { setp(buffer_.data(), buffer_.data() + buffer_.size()); }
  ~StandardOutput() override { std::cout.rdbuf(before_); }

  /// Writes what is left. Returns why some output could not be written; empty if all was.
  std::string finish();
  /// The same, for a caller that reports it: the end of the program then does not say it again.
  std::string take_error();
  bool is_reported() const { return is_reported_; }

 private:
  int_type overflow(int_type next) override;
  int sync() override;

  std::array<char, 65536> buffer_;
  std::streambuf* before_;
  int error_ = 0;  // errno of the first write that failed; later output is dropped
  bool is_reported_ = false;
};

/// Throws UNAVAILABLE if standard output could not be written: a rank reports that to its job as any other failure.
void require_written_output();

}  // namespace tessera::host
