// The NCCL calls of each collective. NCCL has no all_to_all with counts, no uneven gather and scatter, and no barrier:
//
//     REDUCE_SCATTER  even: ncclReduceScatter      uneven: a group of n ncclReduce, one for each owner
//     ALL_GATHER      even: ncclAllGather          uneven: a group of n ncclBroadcast, one for each owner
//     ALL_TO_ALL      a group of n sends and n receives
//     BARRIER         an ncclAllReduce of 4 bytes
//
// Between ncclGroupStart and ncclGroupEnd NCCL collects the calls and launches them as a whole. All ranks omit the same
// calls (empty slices), since counts are equal on all ranks. AVG is ncclAvg: each operand times 1/n, rounded, then
// summed; exact where n is a power of two. A group of one sums: NCCL 2.28.9 left the last element of its average of
// 4,099 float64 unwritten.
#include "nccl-comm/enqueue.h"

namespace tessera::nccl_comm {
namespace {

ncclDataType_t nccl_dtype(tsr_dtype dtype) {
  switch (dtype) {
    case TSR_I8:
      return ncclInt8;
    case TSR_U8:
      return ncclUint8;
    case TSR_I32:
      return ncclInt32;
    case TSR_U32:
      return ncclUint32;
    case TSR_I64:
      return ncclInt64;
    case TSR_F16:
      return ncclFloat16;
    case TSR_BF16:
      return ncclBfloat16;
    case TSR_F64:
      return ncclFloat64;
    default:
      return ncclFloat32;
  }
}

ncclRedOp_t nccl_reduce(uint32_t reduce, int num_ranks) {
  switch (reduce) {
    case TSR_REDUCE_AVG:
      return num_ranks == 1 ? ncclSum : ncclAvg;
    case TSR_REDUCE_MIN:
      return ncclMin;
    case TSR_REDUCE_MAX:
      return ncclMax;
    default:
      return ncclSum;
  }
}

// All ranks have the same counts, so all of them take the same branch.
bool is_even(const std::vector<uint64_t>& offsets) {
  for (size_t i = 1; i < offsets.size(); ++i)
    if (offsets[i] - offsets[i - 1] != offsets[1]) return false;
  return true;
}

/// The calls of one collective, between group_start and group_end, and their first error; "in progress" is not an
/// error.
class Calls {
 public:
  Calls(const Target& target, const Collective& collective)
      : t_(target),
        c_(collective),
        dtype_(nccl_dtype(collective.dtype)),
        reduce_(nccl_reduce(collective.reduce, target.num_ranks)) {}

  ncclResult_t make();

 private:
  void note(ncclResult_t result) {
    if (result != ncclSuccess && result != ncclInProgress && result_ == ncclSuccess) result_ = result;
  }
  const std::byte* send_at(uint64_t element) const { return c_.send + element * c_.element_bytes(); }
  std::byte* recv_at(uint64_t element) const { return c_.recv + element * c_.element_bytes(); }

  template <class F>
  void group(F&& calls) {
    note(t_.nccl.group_start());
    calls();
    note(t_.nccl.group_end());  // also after an error: the group is the thread's
  }
  void reduce_to(int root, const void* send, void* recv, uint64_t num_elements) {
    void* const result = root == t_.rank ? recv : nullptr;
    note(t_.nccl.reduce(send, result, num_elements, dtype_, reduce_, root, t_.comm, t_.stream));
  }
  void broadcast_from(int root, const void* send, void* recv, uint64_t num_elements) {
    const void* const source = root == t_.rank ? send : recv;
    note(t_.nccl.broadcast(source, recv, num_elements, dtype_, root, t_.comm, t_.stream));
  }
  void message(const Transfer& m) {
    if (m.num_elements == 0) return;
    const ncclDataType_t dtype = nccl_dtype(m.dtype);
    if (m.is_receive)
      note(t_.nccl.recv(m.data, m.num_elements, dtype, m.peer, t_.comm, t_.stream));
    else
      note(t_.nccl.send(m.data, m.num_elements, dtype, m.peer, t_.comm, t_.stream));
  }

  void reduce_scatter();
  void all_gather();
  void all_to_all();
  const Target& t_;
  const Collective& c_;
  const ncclDataType_t dtype_;
  const ncclRedOp_t reduce_;
  ncclResult_t result_ = ncclSuccess;
};

void Calls::reduce_scatter() {
  if (is_even(c_.offsets)) {
    note(t_.nccl.reduce_scatter(c_.send, c_.recv, c_.offsets[1], dtype_, reduce_, t_.comm, t_.stream));
    return;
  }
  for (int owner = 0; owner < t_.num_ranks; ++owner)
    if (const uint64_t num_elements = c_.slice_elements(owner))
      reduce_to(owner, send_at(c_.slice_begin(owner)), c_.recv, num_elements);
}

void Calls::all_gather() {
  if (is_even(c_.offsets)) {
    note(t_.nccl.all_gather(c_.send, c_.recv, c_.offsets[1], dtype_, t_.comm, t_.stream));
    return;
  }
  for (int owner = 0; owner < t_.num_ranks; ++owner)
    if (const uint64_t num_elements = c_.slice_elements(owner))
      broadcast_from(owner, c_.send, recv_at(c_.slice_begin(owner)), num_elements);
}

void Calls::all_to_all() {
  for (int peer = 0; peer < t_.num_ranks; ++peer) {
    const size_t p = static_cast<size_t>(peer);
    std::byte* const sent = const_cast<std::byte*>(send_at(c_.slice_begin(peer)));
    message({sent, c_.slice_elements(peer), c_.dtype, peer, false, 0});
    const uint64_t num_received = c_.recv_offsets[p + 1] - c_.recv_offsets[p];
    message({recv_at(c_.recv_offsets[p]), num_received, c_.dtype, peer, true, 0});
  }
}

ncclResult_t Calls::make() {
  group([&] {
    switch (c_.kind) {
      case TSR_COLL_ALL_REDUCE:
        return note(t_.nccl.all_reduce(c_.send, c_.recv, c_.num_elements, dtype_, reduce_, t_.comm, t_.stream));
      case TSR_COLL_REDUCE_SCATTER:
        return reduce_scatter();
      case TSR_COLL_ALL_GATHER:
        return all_gather();
      case TSR_COLL_BROADCAST:
        return broadcast_from(c_.peer, c_.send, c_.recv, c_.num_elements);
      case TSR_COLL_REDUCE:
        return reduce_to(c_.peer, c_.send, c_.recv, c_.num_elements);
      case TSR_COLL_ALL_TO_ALL:
        return all_to_all();
      case TSR_COLL_BARRIER:
        return note(t_.nccl.all_reduce(t_.scratch, t_.scratch, 1, ncclInt32, ncclSum, t_.comm, t_.stream));
      default:
        for (const Transfer& transfer : c_.transfers)
          message(transfer);
    }
  });
  return result_;
}

}  // namespace

ncclResult_t enqueue(const Target& target, const Collective& collective) {
  return Calls(target, collective).make();
}

}  // namespace tessera::nccl_comm
