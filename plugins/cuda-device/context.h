// What the kernels of one open device share: its properties, its libraries, and where they report wrong data.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "tessera/core.h"
#include "tessera/error.hpp"

namespace tessera::cuda {

class CublasLt;
class Cudnn;

/// An error in the data, which only a kernel can find. It is written into host memory, and the first one fails the
/// device's streams (ErrorTracker): the thread that raises num_found from 0 writes it, `code` last.
struct Fault {
  int code;  // 0 or kFault*
  int value;
  long long position;
  long long limit;
  unsigned num_found = 0;
};
inline constexpr int kFaultToken = 1;   // input token `value` at `position` is not in [0, limit)
inline constexpr int kFaultTarget = 2;  // target `value` at `position` is not in [0, limit)
inline constexpr int kFaultLabel = 3;   // label `value` of a class at `position` is not in [0, limit)
inline constexpr int kFaultStep = 4;    // an optimizer ran at step count `value`

/// Memory on the device that its owner filled in prepare: tables of constants.
class DeviceTable {
 public:
  DeviceTable() = default;
  explicit DeviceTable(std::span<const std::byte> bytes);  // copies; waits for the copy
  template <class T>
  const T* as() const {
    return static_cast<const T*>(pointer_.get());
  }

 private:
  struct Free {
    void operator()(void* pointer) const noexcept;
  };
  std::unique_ptr<void, Free> pointer_;
};

/// What computes attention in 16 bits: cuDNN where it can; our kernels alone; cuDNN alone, refusing what it cannot.
enum class AttentionChoice { automatic, plain, cudnn };

/// Logits and gradients of scores are computed in parts of at most this many bytes, which are scratch. Larger parts are
/// no faster.
inline constexpr int64_t kMaxPartBytes = int64_t{512} << 20;

/// One per open device. [control-thread], but for the accessors.
class Context {
 public:
  struct Options {
    bool allow_tf32 = false;       ///< float32 products in TF32
    bool is_deterministic = true;  ///< the same bits in every run
    AttentionChoice attention = AttentionChoice::automatic;
    int64_t part_bytes = kMaxPartBytes;  ///< parts of ops are this large, or smaller
  };

  /// Device `index` of the machine, which is made current. Throws UNAVAILABLE when it cannot be used, UNSUPPORTED for
  /// one older than our kernels.
  Context(int index, Options options, const tsr_host* host);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int index() const { return index_; }
  const Options& options() const { return options_; }
  /// 10 * major + minor: 90 on Hopper.
  int compute_capability() const { return 10 * properties_.major + properties_.minor; }
  const cudaDeviceProp& properties() const { return properties_; }
  /// Host memory that kernels may write.
  Fault* fault() const { return fault_; }
  const tsr_host* host() const { return host_; }
  /// The libraries, found and loaded at first use; UNAVAILABLE with the places that were searched.
  CublasLt& cublaslt();
  /// Null, with one warning in the log, when cuDNN was not found or this was built without its front end. Throws
  /// UNAVAILABLE instead if the options demand cuDNN.
  Cudnn* cudnn();
  /// Writes a warning to the log, unless it has written it before.
  void warn_once(const std::string& line) {
    if (host_ && warnings_.insert(line).second) host_->log(host_->ctx, TSR_LOG_WARNING, str(line));
  }
  /// Makes this device the calling thread's: CUDA's calls go to the thread's device. [any-thread]
  void make_current() const;
  /// The same in destructors: an error is ignored.
  void try_make_current() const noexcept;

 private:
  const int index_;
  const Options options_;
  const tsr_host* const host_;
  cudaDeviceProp properties_{};
  Fault* fault_ = nullptr;
  // Shared, so that their types need to be complete only where they are made: cublaslt.cc and cudnn.cc, which also
  // define the two functions above.
  std::shared_ptr<CublasLt> cublaslt_;
  std::shared_ptr<Cudnn> cudnn_;
  bool searched_cudnn_ = false;
  std::set<std::string> warnings_;
};

}  // namespace tessera::cuda
