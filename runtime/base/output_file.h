// Files that a command writes for its user. It never overwrites what the job reads, and without --overwrite nothing
// that Tessera did not write.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/durable_file.h"

namespace tessera::host {

/// What a job reads: a file, or a folder with all its contents.
struct JobInput {
  std::string flag;  ///< "--data"
  std::string path;
  bool takes_all = false;  ///< every file in the folder is read, so none may be added
  /// Whether the next run would read a new file at `path`; empty: only if takes_all.
  std::function<bool(const std::string& path)> would_read = {};
};

/// A file to write, and what it may replace.
struct Output {
  enum class Old { append, replace };

  std::string flag;                                     ///< "--metrics"
  std::string path;                                     ///< "-" and /dev/stdout: standard output
  Old old = Old::replace;                               ///< what happens to an existing file that is_ours
  std::function<bool(std::string_view begin)> is_ours;  ///< decides by the first bytes, at most kJudgedBytes
  bool overwrite = false;                               ///< also replace a file that is not ours
  std::vector<JobInput> inputs = {};                    ///< never written, whatever `overwrite` says
  std::string made_folder = {};                         ///< one that is there by the time the file is opened
  static constexpr size_t kJudgedBytes = 512;
};

/// "-" or /dev/stdout.
bool is_standard_output(std::string_view path);

/// Why the output may not or cannot be written, as a sentence; empty if it can. Opens nothing for writing and creates
/// nothing.
std::string refusal_of(const Output& output);

/// The same of a folder in which files are made.
std::string refusal_of_folder(const std::string& flag, const std::string& path, const std::vector<JobInput>& inputs);

/// An open output. One that replaces a file is written beside it, into `path`.PID.partial, so that the old one stays
/// until the new one is whole. [control-thread]
class OutputFile {
 public:
  /// Opens it. Never waits: a FIFO without a reader is an error. Throws INVALID_ARGUMENT with refusal_of(), UNAVAILABLE
  /// with the system's reason.
  explicit OutputFile(const Output& output);
  /// Removes what was not committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes all bytes, with a single write(2) if the system takes them at once. Throws UNAVAILABLE.
  void write(std::string_view bytes);
  /// All is written: the file takes its name. Nothing to do for one that is appended to. Throws UNAVAILABLE.
  void commit();
  /// The existing file ends within a line: its writer was stopped there.
  bool ends_in_half_line() const { return ends_in_half_line_; }

 private:
  [[noreturn]] void fail() const;
  template <class Work>
  auto named(Work&& work) const;

  std::string name_;                      // "--metrics m.jsonl"
  std::unique_ptr<PartialFile> partial_;  // none where the file is written in its place
  int descriptor_ = -1;
  bool ends_in_half_line_ = false;
};

/// Replaces an output by these bytes, all or nothing where it is a file. Throws what OutputFile throws.
void write_output(const Output& output, std::initializer_list<std::string_view> parts);

}  // namespace tessera::host
