// NCCL, loaded when it is first needed.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "tessera/cuda_library.hpp"

namespace tessera::nccl_comm {

/// "2.28.9" of 22809, NCCL's code for it.
std::string version_text(int version);

/// The functions of NCCL that are used, resolved when the first communicator is made. Each is as in nccl.h.
struct Library {
  /// Opens libnccl.so.2. Throws UNAVAILABLE when there is none, or one that is older than 2.28.9. [any-thread]
  static std::shared_ptr<const Library> open();

  /// NCCL's text for a result, with its last error message.
  std::string text(ncclResult_t result) const;
  /// An Error that says "<what> failed: <text>".
  Error error(ncclResult_t result, const std::string& what) const;

  const CudaLibrary file{"libnccl.so.2"};
#define TESSERA_NCCL(member, symbol) decltype(&symbol) const member = file.function<decltype(&symbol)>(#symbol)
  TESSERA_NCCL(get_version, ncclGetVersion);
  TESSERA_NCCL(get_error_string, ncclGetErrorString);
  TESSERA_NCCL(get_last_error, ncclGetLastError);
  TESSERA_NCCL(get_unique_id, ncclGetUniqueId);
  TESSERA_NCCL(comm_init_rank_config, ncclCommInitRankConfig);
  TESSERA_NCCL(comm_get_async_error, ncclCommGetAsyncError);
  TESSERA_NCCL(comm_finalize, ncclCommFinalize);
  TESSERA_NCCL(comm_destroy, ncclCommDestroy);
  TESSERA_NCCL(comm_abort, ncclCommAbort);
  TESSERA_NCCL(group_start, ncclGroupStart);
  TESSERA_NCCL(group_end, ncclGroupEnd);
  TESSERA_NCCL(all_reduce, ncclAllReduce);
  TESSERA_NCCL(reduce_scatter, ncclReduceScatter);
  TESSERA_NCCL(all_gather, ncclAllGather);
  TESSERA_NCCL(broadcast, ncclBroadcast);
  TESSERA_NCCL(reduce, ncclReduce);
  TESSERA_NCCL(send, ncclSend);
  TESSERA_NCCL(recv, ncclRecv);
#undef TESSERA_NCCL
};

}  // namespace tessera::nccl_comm
