// SPDX-License-Identifier: Apache-2.0
// A communicator plugin in C++: a virtual class becomes the function table of the ABI, exceptions become statuses.
//
//     struct Plugin {
//       static constexpr const char* kName = "local-comm";  // begins its errors; --comm local finds local-comm.so
//       static constexpr tsr_str kStreamKinds[] = {tessera::literal("cpu.queue")};  // optional: describe is checked
//       static void caps(std::string_view stream_kind, tsr_comm_caps& caps);
//       static uint64_t describe(const tsr_collective& collective, int num_ranks);  // bytes of workspace
//       static std::unique_ptr<tessera::Communicator> create(const tsr_comm_create_args& args);
//       static const void* get_extension(std::string_view id) noexcept;  // may be left out: no optional tables
//     };
//     constexpr auto kTable = tessera::communicator_table<Plugin>();
//
// A communicator that enqueues on the device's own streams (NCCL) derives from Communicator. One that works on the
// host's threads derives from QueuedCommunicator (queued_communicator.hpp) and has two functions to write.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include "tessera/collective.hpp"
#include "tessera/extension.hpp"

namespace tessera {

template <class Plugin>
class CommunicatorTable;

/// One member of one group. Functions throw tessera::Error; the table turns it into a status. Threads and states are
/// those of tsr_communicator_interface.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// Of a collective that caps() lists; the table has refused others.
  virtual void submit(const tsr_collective& collective) = 0;
  /// Throws the first error of any work.
  virtual void check_async() = 0;
  virtual void abort() noexcept = 0;
  /// abort(), beside `first` of the same plugin, which is cut before this one: for those that a thread of their own
  /// ends later.
  virtual void abort_after(Communicator& /*first*/) noexcept { abort(); }

 private:
  template <class Plugin>
  friend class CommunicatorTable;

  // Set by the table's create.
  std::string where_;     // Member::where()
  tsr_comm_caps caps_{};  // on the streams of its device
};

/// The member that takes part in create, from the ABI's arguments. INVALID_ARGUMENT when they contradict one another.
inline Member make_member(std::string_view plugin, const tsr_comm_create_args& args) {
  Member member{std::string(plugin), to_string(args.name), args.rank, args.size, {}, args.timeout_ms};
  const std::string where = "[" + member.plugin + "] " + member.name + ": ";
  if (args.is_local > 1)
    throw Error(TSR_E_INVALID_ARGUMENT, where + "is_local is " + std::to_string(args.is_local) + ", neither 1 nor 0");
  if (args.size < 1 || args.rank < 0 || args.rank >= args.size)
    throw Error(TSR_E_INVALID_ARGUMENT,
                where + "rank " + std::to_string(args.rank) + " of " + std::to_string(args.size) + " is out of range");
  if (args.timeout_ms <= 0) throw Error(TSR_E_INVALID_ARGUMENT, where + "timeout_ms must be positive");
  if (!args.host || !args.device_interface)
    throw Error(TSR_E_INVALID_ARGUMENT, where + "create needs a host and a device interface");
  for (int rank = 0; rank < args.size; ++rank)
    member.world_ranks.push_back(args.world_ranks ? args.world_ranks[rank] : rank);
  return member;
}

/// Whether `caps` list a collective.
inline bool is_claimed(const tsr_comm_caps& caps, const tsr_collective& c) {
  const auto has = [](uint64_t mask, uint32_t number) { return number < 64 && (mask >> number & 1) != 0; };
  const std::span<const tsr_dtype> dtypes(caps.dtypes, caps.num_dtypes);
  return has(caps.collectives, c.kind) && (!is_reduction(c.kind) || has(caps.reduces, c.reduce)) &&
         (c.kind == TSR_COLL_BARRIER || std::ranges::count(dtypes, c.dtype) > 0);
}

/// Whether the ABI has such a collective, by kind, reduction and dtype.
inline bool is_known(const tsr_collective& c) {
  const auto is_within = [](uint32_t number, uint32_t first, uint32_t last) {
    return number >= first && number <= last;
  };
  return is_within(c.kind, TSR_COLL_ALL_REDUCE, TSR_COLL_BARRIER) &&
         (!is_reduction(c.kind) || is_within(c.reduce, TSR_REDUCE_SUM, TSR_REDUCE_MAX)) &&
         (c.kind == TSR_COLL_BARRIER || std::ranges::count(kAllDtypes, c.dtype) > 0);
}

/// Throws UNSUPPORTED for a collective that a plugin claims on none of its kinds of streams.
template <class Plugin>
void require_claimed(const tsr_collective& c) {
  for (const tsr_str kind : Plugin::kStreamKinds) {
    tsr_comm_caps caps{};
    Plugin::caps(view(kind), caps);
    if (is_claimed(caps, c)) return;
  }
  throw Error(TSR_E_UNSUPPORTED, "[" + std::string(Plugin::kName) + "] describe: collective " + std::to_string(c.kind) +
                                     " with reduction " + std::to_string(c.reduce) + " of dtype " +
                                     dtype_name(c.dtype) + " is not among its caps");
}

/// The functions of the table. A tsr_comm is a Communicator under another name: `*comm` belongs to the host, which ends
/// it with destroy(). Nothing is thrown past here: guard() turns what is thrown into a status and a tsr_error.
template <class Plugin>
class CommunicatorTable {
  static Communicator& of(tsr_comm* comm) { return *reinterpret_cast<Communicator*>(comm); }
  static tsr_comm* handle(std::unique_ptr<Communicator> comm) { return reinterpret_cast<tsr_comm*>(comm.release()); }
  /// UNSUPPORTED for what caps() does not list. What is wrong in itself the communicator refuses, as INVALID_ARGUMENT.
  static void refuse_unclaimed(const Communicator& comm, const tsr_collective& c) {
    if (!TSR_HAS(&c, tsr_collective, label) || !is_known(c) || is_claimed(comm.caps_, c)) return;
    throw Error(TSR_E_UNSUPPORTED, comm.where_ + ": " + collective_name(c.kind) + " #" + std::to_string(c.sequence) +
                                       " (" + to_string(c.label) + ") with reduction " + reduce_name(c.reduce) +
                                       " of dtype " + dtype_name(c.dtype) + " is not among its caps");
  }

 public:
  static tsr_status caps(tsr_str stream_kind, tsr_comm_caps* caps, tsr_error* err) noexcept {
    return guard(err, Plugin::kName, [&] {
      tsr_comm_caps ours{};  // filled in full, then truncated to the host's struct, which may be older and shorter
      Plugin::caps(view(stream_kind), ours);
      const uint32_t num_bytes = std::min<uint32_t>(caps->struct_size, sizeof ours);
      ours.struct_size = caps->struct_size;
      std::memcpy(static_cast<void*>(caps), &ours, num_bytes);
    });
  }
  static tsr_status describe(const tsr_collective* collective, int32_t num_ranks, uint64_t* workspace_bytes,
                             tsr_error* err) noexcept {
    return guard(err, Plugin::kName, [&] {
      if (!TSR_HAS(collective, tsr_collective, label))
        throw Error(TSR_E_INVALID_ARGUMENT, "describe: struct_size of the collective is too small");
      if (num_ranks < 1)
        throw Error(TSR_E_INVALID_ARGUMENT, "[" + std::string(Plugin::kName) + "] describe: num_ranks is " +
                                                std::to_string(num_ranks) + "; a group has at least one rank");
      if constexpr (requires { Plugin::kStreamKinds; }) require_claimed<Plugin>(*collective);
      *workspace_bytes = Plugin::describe(*collective, num_ranks);
    });
  }
  static tsr_status create(const tsr_comm_create_args* args, tsr_comm** comm, tsr_error* err) noexcept {
    return guard(err, Plugin::kName, [&] {
      if (!TSR_HAS(args, tsr_comm_create_args, cancel))
        throw Error(TSR_E_INVALID_ARGUMENT, "[" + std::string(Plugin::kName) + "] create: struct_size is too small");
      std::unique_ptr<Communicator> made = Plugin::create(*args);
      made->where_ = make_member(Plugin::kName, *args).where();
      Plugin::caps(view(args->device_interface->stream_kind), made->caps_);
      *comm = handle(std::move(made));
    });
  }
  static tsr_status submit(tsr_comm* comm, const tsr_collective* collective, tsr_error* err) noexcept {
    return guard(err, Plugin::kName, [&] {
      refuse_unclaimed(of(comm), *collective);
      of(comm).submit(*collective);
    });
  }
  static tsr_status async_error(tsr_comm* comm, tsr_error* err) noexcept {
    return guard(err, Plugin::kName, [&] { of(comm).check_async(); });
  }
  static void abort(tsr_comm* const* comms, uint64_t num_comms) noexcept {
    if (num_comms == 0) return;
    if (comms[0]) of(comms[0]).abort();
    for (tsr_comm* const comm : std::span(comms, num_comms).subspan(1)) {
      if (!comm) continue;
      if (comms[0])
        of(comm).abort_after(of(comms[0]));
      else
        of(comm).abort();
    }
  }
  static void destroy(tsr_comm* comm) noexcept { delete reinterpret_cast<Communicator*>(comm); }
  static const void* get_extension(tsr_str id) noexcept { return extension_of<Plugin>(id); }
};

/// The table itself; give it static storage.
template <class Plugin>
constexpr tsr_communicator_interface communicator_table() {
  using Table = CommunicatorTable<Plugin>;
  return {sizeof(tsr_communicator_interface),
          0,
          Table::caps,
          Table::describe,
          Table::create,
          Table::submit,
          Table::async_error,
          Table::abort,
          Table::destroy,
          Table::get_extension};
}

}  // namespace tessera
