// Opens output files without destroying anything (decision 0023). Files are compared by device and inode, not by name,
// so a link to the training data is recognized; a file is ours if it begins like our output. The check runs twice:
// before the start, without opening anything for writing, so that a wrong path fails before an hour of planning, and
// again when the file is opened. A file that is replaced stays until the new one is whole (decision 0058).

#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/concat.h"
#include "base/read_only_file.h"
#include "base/terminal.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;

std::string name_of(const Output& output) {
  return is_standard_output(output.path) ? output.flag + " (standard output)" : output.flag + " " + output.path;
}

bool is_same(const fs::path& path, const struct stat& file) {
  struct stat other {};
  return ::stat(path.c_str(), &other) == 0 && other.st_dev == file.st_dev && other.st_ino == file.st_ino;
}

/// Whether `input` is this file, or a folder that has it, perhaps through a link.
bool reads(const JobInput& input, const struct stat& file) {
  std::error_code error;
  if (!fs::is_directory(input.path, error)) return is_same(input.path, file);
  // A folder of data is read recursively, and may link to the output.
  const auto options = fs::directory_options::skip_permission_denied;
  for (auto it = fs::recursive_directory_iterator(input.path, options, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error))
    if (is_same(it->path(), file)) return true;
  return false;
}

/// Empty where the current folder is gone, from which a relative path starts.
fs::path absolute_path(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return error ? fs::path() : absolute;
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  // Made absolute first: weakly_canonical leaves a relative path relative when none of it exists.
  const fs::path inner = fs::weakly_canonical(absolute_path(path), error);
  const fs::path outer = fs::weakly_canonical(absolute_path(folder), error);
  return !outer.empty() && std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

bool is_ours(const Output& output) {
  return output.is_ours(beginning_of(output.path, Output::kJudgedBytes));
}

std::string refusal_of_old_file(const Output& output, const struct stat& file) {
  // An empty file holds nothing that could be lost.
  const bool ours = file.st_size == 0 || is_ours(output);
  for (const JobInput& input : output.inputs)
    if ((input.takes_all || !ours || file.st_size == 0) && reads(input, file))
      return concat("is a file that the job reads for ", input.flag, " (", input.path, "); give another file");
  if (!ours && !output.overwrite)
    return "exists and was not written by tessera; give another file, or --overwrite to replace it";
  return "";
}

/// Whether `folder` is `made`, which is not there yet.
bool will_be_made(const fs::path& folder, const std::string& made) {
  std::error_code unknown;
  return !made.empty() && !fs::exists(made, unknown) &&
         (folder / "").lexically_normal() == (absolute_path(made) / "").lexically_normal();
}

std::string refusal_of_new_file(const Output& output) {
  struct stat link {};
  if (::lstat(output.path.c_str(), &link) == 0)
    return "is a link to a file that does not exist; remove the link, or give another file";
  const fs::path parent = absolute_path(output.path).parent_path();
  std::error_code unknown;
  if (parent.empty()) return "cannot be written: the current folder is gone; change to one that exists";
  if (!will_be_made(parent, output.made_folder) && ::faccessat(AT_FDCWD, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return concat("cannot be written: its folder ", parent.string(), ": ", std::strerror(errno));
  for (const JobInput& input : output.inputs)
    if (input.takes_all && fs::is_directory(input.path, unknown) && lies_in(output.path, input.path))
      return concat("is in the folder that the job reads for ", input.flag, " (", input.path,
                    ") and would be read with it; give a file elsewhere");
  for (const JobInput& input : output.inputs)
    if (input.would_read && input.would_read(output.path))
      return concat("has a name that the next run would read for ", input.flag, " (", input.path,
                    "); give another name, or a file elsewhere");
  return "";
}

/// The end of the sentence.
std::string why_not(const Output& output) {
  struct stat file {};
  if (::stat(output.path.c_str(), &file) != 0)
    return errno == ENOENT ? refusal_of_new_file(output) : concat("cannot be written: ", std::strerror(errno));
  if (S_ISDIR(file.st_mode)) return "is a folder; give a file in it";
  if (S_ISBLK(file.st_mode) || S_ISSOCK(file.st_mode)) return "is a disk or a socket; give a file";
  if (S_ISREG(file.st_mode))
    if (const std::string refusal = refusal_of_old_file(output, file); !refusal.empty()) return refusal;
  if (::faccessat(AT_FDCWD, output.path.c_str(), W_OK, AT_EACCESS) != 0)
    return concat("cannot be written: ", std::strerror(errno));
  return "";
}

/// Whether a file ends without a newline; false for an empty one.
bool is_cut(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in || in.tellg() <= 0) return false;
  in.seekg(-1, std::ios::end);
  return in.get() != '\n';
}

/// The end of the sentence about a file that the system does not open.
std::string why_not_open(const std::string& path, int error) {
  std::error_code unknown;
  if (error == ENXIO && fs::is_fifo(path, unknown))
    return "is a FIFO without a reader; start the reader first, or give a file";
  if (error == ENXIO)
    return "cannot be written: this process has no terminal, or the device does not exist; give a file, or - for "
           "standard output";
  return concat("cannot be written: ", std::strerror(error));
}

/// Where a file can be made that then takes the name of this one: its folder, if it is or may become a plain file.
/// Empty: it is written in its place, as are a FIFO, a terminal, what a descriptor of some process has open, and a file
/// beside which this user may make none or whose name leaves no room for more letters.
std::string path_to_replace(const std::string& path) {
  constexpr size_t kMoreLetters = sizeof ".2147483647.partial";
  std::error_code error;
  fs::path real = fs::absolute(path, error);
  if (real.parent_path() == "/dev" || lies_in(real.parent_path(), "/proc")) return "";
  struct stat file {};
  const bool is_new = ::stat(path.c_str(), &file) != 0;
  if (!is_new && !S_ISREG(file.st_mode)) return "";
  if (!is_new) real = fs::canonical(path, error);  // a link stays one
  const bool may_make_one = ::faccessat(AT_FDCWD, real.parent_path().c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0;
  return !error && may_make_one && real.filename().string().size() + kMoreLetters <= NAME_MAX ? real.string() : "";
}

/// Beside `path`, with the permissions of that file, if there is one.
std::unique_ptr<PartialFile> make_partial(const std::string& path) {
  auto partial = std::make_unique<PartialFile>(path, concat(path, ".", ::getpid(), ".partial"));
  struct stat old {};
  if (::stat(path.c_str(), &old) == 0) static_cast<void>(::fchmod(partial->descriptor(), old.st_mode & 07777));
  return partial;
}

int open_output(const Output& output, bool append) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (append ? O_APPEND : O_TRUNC);
  const int descriptor = ::open(output.path.c_str(), flags, 0666);
  if (descriptor < 0) throw Error(TSR_E_UNAVAILABLE, concat(name_of(output), " ", why_not_open(output.path, errno)));
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);  // it was for open only
  return descriptor;
}

}  // namespace

bool is_standard_output(std::string_view path) {
  return path == "-" || path == "/dev/stdout";
}

std::string refusal_of_folder(const std::string& flag, const std::string& path, const std::vector<JobInput>& inputs) {
  std::error_code not_there;
  if (fs::exists(path, not_there) && !fs::is_directory(path, not_there))
    return concat(flag, " ", path, " is not a folder; give one, or a name that nothing has yet");
  if (fs::is_symlink(path, not_there) && !fs::exists(path, not_there))
    return concat(flag, " ", path, " is a link to ", fs::read_symlink(path, not_there).string(),
                  ", which is not there; make that folder, or give another name");
  for (const JobInput& input : inputs)
    if (input.takes_all && fs::is_directory(input.path, not_there) && lies_in(path, input.path))
      return concat(flag, " ", path, " is in the folder that the job reads for ", input.flag, " (", input.path,
                    "); give another folder");
  return "";
}

std::string refusal_of(const Output& output) {
  if (is_standard_output(output.path)) return "";
  if (output.path.empty()) return concat(output.flag, " is empty; give a file");
  const std::string why = why_not(output);
  return why.empty() ? "" : concat(name_of(output), " ", why);
}

/// Does it; what it throws names this output too.
template <class Work>
auto OutputFile::named(Work&& work) const {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), concat(name_, " cannot be written: ", error.what()));
  }
}

OutputFile::OutputFile(const Output& output) : name_(name_of(output)) {
  if (is_standard_output(output.path)) {
    descriptor_ = STDOUT_FILENO;
    return;
  }
  if (const std::string refusal = refusal_of(output); !refusal.empty()) throw Error(TSR_E_INVALID_ARGUMENT, refusal);
  std::error_code none;
  const bool is_file = fs::is_regular_file(output.path, none);
  const bool append = output.old == Output::Old::append && !(output.overwrite && is_file && !is_ours(output));
  ends_in_half_line_ = append && is_file && is_cut(output.path);
  const std::string replaced = output.old == Output::Old::replace ? path_to_replace(output.path) : "";
  if (!replaced.empty()) partial_ = named([&] { return make_partial(replaced); });
  descriptor_ = partial_ ? partial_->descriptor() : open_output(output, append);
}

OutputFile::~OutputFile() {
  if (!partial_ && descriptor_ > STDERR_FILENO) ::close(descriptor_);
}

void OutputFile::fail() const {
  const int error = errno;
  throw Error(TSR_E_UNAVAILABLE,
              concat(name_, " cannot be written: ", error == EBADF ? "it is closed" : std::strerror(error)));
}

void OutputFile::write(std::string_view bytes) {
  const WithoutSigpipe without;
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor_, bytes.data(), bytes.size());
    if (done < 0 && errno != EINTR) fail();
    if (done > 0) bytes.remove_prefix(static_cast<size_t>(done));
  }
}

void OutputFile::commit() {
  if (partial_) named([&] { partial_->commit(); });
}

void write_output(const Output& output, std::initializer_list<std::string_view> parts) {
  OutputFile file(output);
  for (const std::string_view part : parts)
    file.write(part);
  file.commit();
}

}  // namespace tessera::host
