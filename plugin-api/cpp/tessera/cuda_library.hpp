// SPDX-License-Identifier: Apache-2.0
// CUDA's libraries, found and opened when they are used: a plugin that needs cuBLASLt, cuDNN or NCCL does not link it,
// and so loads and describes itself on every machine.
//
//     const tessera::CudaLibrary library("libcublasLt.so.13");
//     const auto create = library.function<decltype(&cublasLtCreate)>("cublasLtCreate");
//
// So one plugin file serves machines with and without a GPU: `tessera plan --device cuda` works on a laptop, and what
// is missing is reported by name at the moment it is needed, with the places that were searched and what to install.
// The price is that every function is looked up by a string, which decltype(&symbol) ties to the declaration in the
// header.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/cuda_library_folders.hpp"
#include "tessera/error.hpp"

namespace tessera {

/// An open library, for the life of the process: it is never closed, since its threads and handles may outlive us.
/// A second object of the same name is the same library.
class CudaLibrary {
 public:
  /// Opens the library `name`, its soname with the major version of the headers we were compiled with
  /// ("libcublasLt.so.13"): by name, as the linker finds it (LD_LIBRARY_PATH, ldconfig), then in each of
  /// cuda_library_folders(). What it opens by name itself is made ready: libraries of `companions` ("libnvrtc.so.13")
  /// are opened first if they can be found, and from a folder also the further parts of the library in it
  /// (libcudnn_graph.so.9 of libcudnn.so.9). Throws UNAVAILABLE, saying where was searched. [any-thread]
  explicit CudaLibrary(const std::string& name, std::initializer_list<const char*> companions = {}) : name_(name) {
    const std::vector<std::string> folders = cuda_library_folders();
    for (const char* companion : companions) {
      std::string ignored_path, ignored_failure;
      open(companion, folders, ignored_path, ignored_failure);
    }
    std::string failure;
    handle_ = open(name, folders, path_, failure);
    if (!handle_) throw Error(TSR_E_UNAVAILABLE, not_found(folders, failure));
  }

  /// The function `symbol`, as a pointer of type F. Throws UNAVAILABLE when the library lacks it: an older minor.
  template <class F>
  F function(const char* symbol) const {
    static_assert(std::is_pointer_v<F> && std::is_function_v<std::remove_pointer_t<F>>);
    if (void* address = dlsym(handle_, symbol)) return reinterpret_cast<F>(address);
    throw Error(TSR_E_UNAVAILABLE, path_ + " has no " + symbol + "; install a newer " + name_);
  }

  /// As of dlopen, for code that looks up functions itself.
  void* handle() const noexcept { return handle_; }
  const std::string& name() const noexcept { return name_; }
  /// The file, or the name alone where the linker found it.
  const std::string& path() const noexcept { return path_; }

 private:
  static constexpr int kMode = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;

  // `failure`: why a file that is there could not be opened, of the first such.
  static void* open(const std::string& name, const std::vector<std::string>& folders, std::string& path,
                    std::string& failure) {
    path = name;
    if (void* handle = dlopen(name.c_str(), kMode)) return handle;
    if (const std::string error = dlerror(); !error.starts_with(name + ": cannot open")) failure = error;
    for (const std::string& folder : folders) {
      path.assign(folder).append("/").append(name);
      if (access(path.c_str(), R_OK) != 0) continue;
      if (void* handle = dlopen(path.c_str(), kMode)) {
        open_parts(folder, name);
        return handle;
      }
      if (failure.empty()) failure = dlerror();
    }
    return nullptr;
  }

  // The linker uses a library that is open already for any later request of its soname. The parts depend on one another
  // in an order of their own, so those that failed are tried again.
  static void open_parts(const std::string& folder, const std::string& name) {
    const std::string stem = name.substr(0, name.find('.'));
    const std::vector<std::string> parts = cuda_folders::matches(folder + "/" + stem + "[-_]*.so.*");
    for (int attempt = 0; attempt < 2; ++attempt)
      for (const std::string& part : parts)
        dlopen(part.c_str(), kMode);
  }

  std::string not_found(const std::vector<std::string>& folders, const std::string& failure) const {
    if (!failure.empty()) return name_ + " cannot be opened: " + failure;
    std::string listed;
    size_t num_listed = 0;
    for (; num_listed < folders.size() && listed.size() < 160; ++num_listed)
      listed += (num_listed == 0 ? "" : ", ") + folders[num_listed];
    if (num_listed < folders.size()) listed += " and " + std::to_string(folders.size() - num_listed) + " more";
    return name_ + " was not found, neither by name (LD_LIBRARY_PATH, ldconfig) nor in " + listed +
           " ($CUDA_HOME, $CUDA_PATH, /usr/local/cuda and pip's nvidia/*/lib); install it, or set CUDA_HOME";
  }

  std::string name_;
  std::string path_;
  void* handle_ = nullptr;
};

}  // namespace tessera
