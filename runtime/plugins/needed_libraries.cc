// Folders that the plugin's own header names are searched by ld.so before those of the system, so who may write there
// decides what runs. Libraries that it finds elsewhere are the system's, which the host itself runs with.
//
//     plugin -- RUNPATH: $ORIGIN/lib -- NEEDED: libdep.so.1 -> lib/libdep.so.1 -- RUNPATH ... (of the library)
//
// A folder and a library are checked as the plugin's own file is (plugin_file.cc). One that is missing is checked, too:
// a user who can make it can put a library there.

#include "plugins/needed_libraries.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/concat.h"
#include "config/usage_error.h"
#include "plugins/plugin_file.h"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;

/// The file that is loaded under that name already; empty if there is none.
std::string loaded_file(const std::string& name) {
  // RTLD_NOLOAD: asks, and runs nothing of it.
  void* const handle = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (!handle) return "";
  link_map* map = nullptr;
  const std::string path = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
  ::dlclose(handle);
  return path;
}

const std::set<std::string>& libraries_of_program() {
  static const std::set<std::string> paths = [] {
    std::set<std::string> loaded;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* all) {
          static_cast<std::set<std::string>*>(all)->insert(info->dlpi_name);
          return 0;
        },
        &loaded);
    return loaded;
  }();
  return paths;
}

/// A file in memory, to look into a library of any size.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status {};
    if (fd >= 0 && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      num_bytes_ = static_cast<size_t>(status.st_size);
      data_ = ::mmap(nullptr, num_bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0) ::close(fd);
  }
  ~MappedFile() {
    if (data_ != MAP_FAILED) ::munmap(data_, num_bytes_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const char> bytes() const {
    return data_ == MAP_FAILED ? std::span<const char>() : std::span(static_cast<const char*>(data_), num_bytes_);
  }

 private:
  void* data_ = MAP_FAILED;
  size_t num_bytes_ = 0;
};

class LibraryCheck {
 public:
  explicit LibraryCheck(const fs::path& plugin) : plugin_(plugin), trusted_(trusted_users()) {}

  void check(const fs::path& object, const SharedObject& facts) {
    std::vector<fs::path> folders;
    for (const std::string& folder : facts.folders)
      folders.push_back(checked_folder(object, folder));
    for (const std::string& name : facts.needed) {
      if (name.find_first_of("/$") != name.npos)  // the linker replaces $ORIGIN by a folder
        throw UsageError(concat(needs(object), "the library ", name,
                                " by a path; give the library a soname, and link it by that name"));
      const auto holds = [&](const fs::path& folder) {
        std::error_code error;
        return !folder.empty() && fs::exists(folder / name, error);
      };
      // In the order of the RUNPATH, as ld.so looks; what is in none of these folders is the system's.
      const auto found = std::ranges::find_if(folders, holds);
      if (found != folders.end()) check_library(fs::canonical(*found / name), name);
    }
  }

  std::vector<std::string> warnings;

 private:
  std::string needs(const fs::path& object) const {
    return object == plugin_ ? "needs " : concat("needs, by its library ", object.string(), ", ");
  }

  /// The folder, or an empty path for one that is missing and that no other user can make.
  fs::path checked_folder(const fs::path& object, const std::string& written) {
    if (written.empty())
      throw UsageError(
          concat(needs(object),
                 "libraries from the current folder: its RUNPATH has an empty entry; link it "
                 "without the stray colon (CMake adds one to what will be installed, unless the target has "
                 "BUILD_WITH_INSTALL_RPATH)"));
    std::string text = written;
    for (const char* origin : {"${ORIGIN}", "$ORIGIN"})
      if (text.starts_with(origin)) text.replace(0, std::string_view(origin).size(), object.parent_path().string());
    const fs::path folder = fs::path(text).lexically_normal();
    if (!folder.is_absolute())
      throw UsageError(concat(needs(object), "libraries from the folder '", written,
                              "' of its RUNPATH, which depends on the current folder; link it with an absolute one, or "
                              "with one that begins with $ORIGIN"));
    if (text.find('$') != text.npos) return {};  // $LIB and $PLATFORM: of the system
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error) return check_missing(object, folder), fs::path();
    check_folder(real);
    return real;
  }

  void check_folder(const fs::path& folder) {
    if (!seen_.insert(folder).second) return;
    const FolderWriters writers = writers_of(folder, trusted_);
    if (writers.may_anybody)
      throw UsageError(concat("needs libraries from ", folder.string(), ", and any user may write the folder ",
                              writers.folder.string(), "; run chmod o-w on it"));
    if (!writers.who.empty())
      note(concat("needs libraries from ", folder.string(), ", and the folder ", writers.folder.string(), " ",
                  writers.who));
  }

  /// A folder that is not there is harmless unless another user can make it.
  void check_missing(const fs::path& object, const fs::path& folder) {
    fs::path there = folder;
    std::error_code error;
    while (!fs::exists(there, error) && there != there.root_path())
      there = there.parent_path();
    struct stat status {};
    if (::stat(there.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) != 0)
      throw UsageError(concat(needs(object), "libraries from ", folder.string(), ", which is not there and which any ",
                              "user may make in ", there.string(), "; take it from its RUNPATH"));
  }

  void check_library(const fs::path& file, const std::string& name) {
    // Libraries may need one another in a cycle.
    if (!seen_.insert(file).second) return;
    check_folder(file.parent_path());
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) return;  // dlopen will say so
    if ((status.st_mode & S_IWOTH) != 0)
      throw UsageError(
          concat("needs the library ", file.string(), ", which may be written by anybody; run chmod o-w on it"));
    if (const std::string who = who_else_may_write(status, trusted_); !who.empty())
      note(concat("needs the library ", file.string(), ", which ", who));
    const std::string loaded = loaded_file(name);
    std::error_code error;
    // ld.so loads a soname once: the second file of that name would not be opened at all.
    if (!loaded.empty() && !fs::equivalent(loaded, file, error))
      warnings.push_back(concat(
          "the plugin ", plugin_.string(), " brings its own ", name, " (", file.string(), "), but that of ", loaded,
          " is loaded already and runs instead; link it statically, or ", "give it a soname of its own"));
    const SharedObject facts = inspected(file);
    if (facts.has_executable_stack)
      warnings.push_back(concat("the plugin ", plugin_.string(), " needs the library ", file.string(),
                                ", which makes the stack of the process executable; link it with -z noexecstack"));
    check(file, facts);
  }

  static SharedObject inspected(const fs::path& file) {
    const MappedFile mapped(file);
    try {
      return inspect_needs(mapped.bytes());
    } catch (const UsageError& error) {
      throw UsageError(concat("needs the library ", file.string(), ", which ", error.what()));
    }
  }

  /// What root refuses, and others are warned of.
  void note(const std::string& what) {
    if (trusted_.self == 0) throw UsageError(concat(what, "; root does not run code that other users may change"));
    warnings.push_back(concat("the plugin ", plugin_.string(), " ", what));
  }

  const fs::path plugin_;
  const TrustedUsers trusted_;
  std::set<fs::path> seen_;
};

}  // namespace

std::vector<std::string> check_libraries(const fs::path& path, const SharedObject& plugin) {
  LibraryCheck check(path);
  check.check(path, plugin);
  return check.warnings;
}

void note_libraries_of_program() {
  libraries_of_program();
}

std::string libraries_text(const SharedObject& plugin) {
  std::string text;
  for (const std::string& name : plugin.needed) {
    const std::string path = loaded_file(name);
    if (path.empty() || libraries_of_program().contains(path)) continue;
    std::error_code error;
    const auto num_bytes = fs::file_size(path, error);
    text += concat(" ", name, " ", error ? 0 : num_bytes);
  }
  return text;
}

}  // namespace tessera::host
