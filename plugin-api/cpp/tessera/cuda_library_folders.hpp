// SPDX-License-Identifier: Apache-2.0
// Where CUDA's libraries lie on a machine on which the linker's search does not find them. Machines with PyTorch often
// have no CUDA toolkit, only cuBLASLt, cuDNN and NCCL as pip installed them.
#pragma once

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {
namespace cuda_folders {

/// The paths that match a pattern of the shell, sorted.
inline std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return paths;
}

inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

inline void add(std::vector<std::string>& all, const std::string& one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

/// <prefix>/bin/python3 belongs to the installation <prefix>; if it is a link, as in a virtual environment, it also
/// belongs to that of the file it leads to.
inline void add_prefixes_of(const std::filesystem::path& python, std::vector<std::string>& prefixes) {
  if (::access(python.c_str(), X_OK) != 0) return;
  std::error_code error;
  add(prefixes, python.parent_path().parent_path().string());
  const std::filesystem::path target = std::filesystem::canonical(python, error);
  if (!error) add(prefixes, target.parent_path().parent_path().string());
}

/// The installations of Python, nearest first: the active virtual environment, those of every python3 on PATH, the
/// user's own, the system's.
inline std::vector<std::string> python_prefixes() {
  std::vector<std::string> prefixes;
  if (const std::string active = environment("VIRTUAL_ENV"); !active.empty()) add(prefixes, active);
  const std::string path = environment("PATH");
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    if (end > begin) add_prefixes_of(path.substr(begin, end - begin) + "/python3", prefixes);
    begin = end + 1;
  }
  if (const std::string home = environment("HOME"); !home.empty()) add(prefixes, home + "/.local");
  add(prefixes, "/usr/local");
  add(prefixes, "/usr");
  return prefixes;
}

}  // namespace cuda_folders

/// The folders in which CUDA's libraries may lie, in the order in which they are to be searched: lib64 and lib of
/// $CUDA_HOME, of $CUDA_PATH and of /usr/local/cuda, and those that exist of the folders nvidia/*/lib into which pip
/// installs them (nvidia/cu13/lib, nvidia/cudnn/lib, nvidia/nccl/lib). Absolute paths, none twice. [any-thread]
inline std::vector<std::string> cuda_library_folders() {
  using namespace cuda_folders;
  std::vector<std::string> folders;
  for (const std::string& home : {environment("CUDA_HOME"), environment("CUDA_PATH"), std::string("/usr/local/cuda")})
    for (const char* lib : {"/lib64", "/lib"})
      if (home.starts_with('/')) add(folders, home + lib);
  for (const std::string& prefix : python_prefixes())
    for (const char* packages :
         {"/lib/python3*/site-packages", "/lib64/python3*/site-packages", "/lib/python3*/dist-packages"})
      for (const std::string& folder : matches(prefix + packages + "/nvidia/*/lib"))
        if (folder.starts_with('/')) add(folders, folder);
  return folders;
}

}  // namespace tessera
