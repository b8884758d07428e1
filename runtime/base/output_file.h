// Files that a command writes for its user. Nothing is destroyed: not what the job reads, and without --overwrite
// nothing that Tessera did not write.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::host {

/// What a job reads: a file, or a folder with all that lies in it.
struct JobInput {
  std::string flag;  ///< "--data"
  std::string path;
  bool takes_all = false;  ///< of a folder: whatever is put into it is read too, so nothing may be added
  /// Whether a file that is put there would be read by the next run; empty: none would, but for takes_all.
  std::function<bool(const std::string& path)> would_read = {};
};

/// What is to be written, and when it may.
struct Output {
  enum class Old { append, replace };

  std::string flag;                                     ///< "--metrics"
  std::string path;                                     ///< "-" and /dev/stdout: standard output
  Old old = Old::replace;                               ///< what becomes of an older file of ours
  std::function<bool(std::string_view begin)> is_ours;  ///< judges a file by its first bytes, at most kJudgedBytes
  bool overwrite = false;                               ///< replace also a file that is not ours
  std::vector<JobInput> inputs = {};                    ///< never written, whatever `overwrite` says
  static constexpr size_t kJudgedBytes = 512;
};

/// "-" or /dev/stdout.
bool is_standard_output(std::string_view path);

/// Why the output cannot be written, as a sentence; empty when nothing speaks against it. Opens nothing for writing and
/// creates nothing.
std::string refusal_of(const Output& output);

/// An output that is open. [control-thread]
class OutputFile {
 public:
  /// Opens it, appending or emptying it. Never waits: a FIFO without a reader is an error. Throws INVALID_ARGUMENT with
  /// the refusal, UNAVAILABLE with the system's reason.
  explicit OutputFile(const Output& output);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes all bytes, with one call of the system where it takes them. Throws UNAVAILABLE.
  void write(std::string_view bytes);
  /// An older file ends within a line: the one who wrote it was stopped there.
  bool ends_in_half_line() const { return ends_in_half_line_; }

 private:
  [[noreturn]] void fail() const;

  std::string name_;  // "--metrics m.jsonl"
  int descriptor_ = -1;
  bool ends_in_half_line_ = false;
};

}  // namespace tessera::host
