// Owners of a device plugin's objects. call() turns a plugin's error into an exception with its
// message.

#include "exec/device.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/concat.h"
#include "guard/call_watch.h"
#include "guard/known_functions.h"
#include "guard/process_state.h"
#include "guard/readable.h"
#include "guard/writable.h"
#include "program/program.h"
#include "tessera/error.hpp"
#include "tessera/op_slots.hpp"

namespace tessera::host {
namespace {

constexpr uintptr_t kMemoryAlignment = 4096;  // device.h, allocate

constexpr uint64_t kMaxSlots = 4096;  // of one op; the largest op of today has a dozen

void require(const tsr_device_interface& api, std::span<const NamedFunction> functions) {
  for (const NamedFunction& named : functions)
    if (!named.function)
      throw Error(TSR_E_INTERNAL, concat(plugin_text(address_of(api.get_extension)), " has no function ", named.name,
                                         " in an optional table that get_extension returned"));
  know_more_functions(address_of(api.get_extension), functions);
}

#define TESSERA_NAMED(field, limit) \
  { address_of(table.field), #field, CallLimit::limit }

}  // namespace

void check_functions(const tsr_device_interface& api, const tsr_device_capture& table) {
  require(api, std::array<NamedFunction, 4>{{TESSERA_NAMED(begin, step), TESSERA_NAMED(end, start),
                                             TESSERA_NAMED(launch, step), TESSERA_NAMED(destroy, step)}});
}
void check_functions(const tsr_device_interface& api, const tsr_device_semaphore& table) {
  require(api, std::array<NamedFunction, 4>{{TESSERA_NAMED(create, start), TESSERA_NAMED(destroy, step),
                                             TESSERA_NAMED(wait, step), TESSERA_NAMED(signal, step)}});
}
void check_functions(const tsr_device_interface& api, const tsr_device_memory_info& table) {
  require(api, std::array<NamedFunction, 1>{{TESSERA_NAMED(query, start)}});
}
void check_functions(const tsr_device_interface& api, const tsr_device_timestamps& table) {
  require(api, std::array<NamedFunction, 4>{{TESSERA_NAMED(create, start), TESSERA_NAMED(destroy, step),
                                             TESSERA_NAMED(write, step), TESSERA_NAMED(read, step)}});
}
#undef TESSERA_NAMED

void check_head(const tsr_device_interface& api, std::string_view id, const OptionalTableHead* head, uint64_t floor) {
  const auto refuse = [&](const std::string& why) {
    throw Error(TSR_E_INTERNAL, concat(call_text(address_of(api.get_extension)), " returned a table ", id, why));
  };
  if (!is_readable(head, sizeof *head)) refuse(" in memory that cannot be read");
  if (head->struct_size < floor) refuse(concat(" of ", head->struct_size, " bytes; at least ", floor, " are needed"));
  if (!is_readable(head, floor)) refuse(" in memory that cannot be read");
  if (head->reserved != 0) refuse(" with a reserved word that is not 0");
}

Device::Device(const DeviceSetup& setup) : api_(setup.api), num_threads_(setup.num_threads) {
  const tsr_device_open_args args{sizeof args, setup.index,          setup.num_threads,   0,
                                  setup.host,  setup.options.data(), setup.options.size()};
  device_ = create_by<tsr_device>(false, api_->open, &args);
  live_objects<tsr_device>().add(device_, address_of(api_->open));
}
Device::~Device() {
  live_objects<tsr_device>().remove(device_);
  end_with(api_->close, device_);
}

namespace {

/// made_by(), for an object that no other part of the run has.
template <class T, class... P, class... A>
T* new_by(tsr_status (*function)(P...), A&&... args) {
  T* const object = made_by<T>(function, std::forward<A>(args)...);
  live_objects<T>().add(object, address_of(function));
  return object;
}

}  // namespace

StreamHandle make_stream(const Device& device, std::string_view name) {
  return {new_by<tsr_stream>(device.api().stream_create, device.handle(), str(name)), {&device.api()}};
}

EventHandle make_event(const Device& device) {
  return {new_by<tsr_event>(device.api().event_create, device.handle()), {&device.api()}};
}

namespace {

// What follows throws the reason why a slot that describe() lists is wrong. Programs are built from the answer, so
// without it they would be blamed, and the strategies that made them.

[[noreturn]] void refuse_slot(const std::string& why) {
  throw Error(TSR_E_INTERNAL, why);
}

/// A workspace or a context: the device's own.
void check_own(const tsr_op& op, const tsr_slot_spec& slot) {
  constexpr uint64_t kMaxSlotElements = uint64_t{1} << 56;
  const bool is_read = TSR_SLOT_ROLE(slot.slot) == TSR_ROLE_CONTEXT && op.phase == TSR_PHASE_BACKWARD_WEIGHT;
  const uint32_t mode = is_read ? TSR_MODE_READ : TSR_MODE_WRITE;
  if (slot.mode != mode) refuse_slot(concat("it has mode ", op::mode_name(slot.mode), ", not ", op::mode_name(mode)));
  if (slot.num_elements > kMaxSlotElements) refuse_slot(concat(slot.num_elements, " elements are too many to address"));
}

/// One that the op has on every device.
void check_listed(const op::SlotList& table, const tsr_slot_spec& slot) {
  const auto listed = std::ranges::find(table, slot.slot, &tsr_slot_spec::slot);
  if (listed == table.end()) refuse_slot("the op has no such slot");
  if (slot.mode != listed->mode)
    refuse_slot(concat("it has mode ", op::mode_name(slot.mode), ", in the op table ", op::mode_name(listed->mode)));
  if (slot.dtype != listed->dtype)
    refuse_slot(concat("it is of ", dtype_name(slot.dtype), ", in the op table of ", dtype_name(listed->dtype)));
  if (slot.num_elements != listed->num_elements)
    refuse_slot(concat("it has ", counted(slot.num_elements, "element"), ", in the op table ", listed->num_elements));
}

void check_slot(const tsr_op& op, const op::SlotList* table, std::span<const tsr_slot_spec> slots, size_t index) {
  const tsr_slot_spec& slot = slots[index];
  check_spare(slot, "tsr_slot_spec");
  check_flags(slot.flags, TSR_SLOT_OPTIONAL, "tsr_slot_spec");
  dtype_name(slot.dtype);
  const uint32_t role = TSR_SLOT_ROLE(slot.slot);
  if (op::slot_index(slots, slot.slot) != static_cast<int>(index)) refuse_slot("it is there twice");
  if (role == TSR_ROLE_WORKSPACE || role == TSR_ROLE_CONTEXT)
    check_own(op, slot);
  else if (table)
    check_listed(*table, slot);
}

/// What the op has on every device (tessera/op_slots.hpp); nothing where that refuses what this device computes.
std::optional<op::SlotList> table_of(const tsr_op& op) {
  try {
    return op::slots_of(op);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void check_slots(const tsr_device_interface& device, const tsr_op& op, std::span<const tsr_slot_spec> slots) {
  const auto refuse = [&](uint32_t slot, const std::string& why) {
    throw Error(TSR_E_INTERNAL, concat(call_text(address_of(device.describe)), " returned a wrong slot: ",
                                       op::slot_name(slot), " of op ", op::op_name(op.kind), ": ", why));
  };
  const auto table = table_of(op);
  for (size_t i = 0; i < slots.size(); ++i) {
    try {
      check_slot(op, table ? &*table : nullptr, slots, i);
    } catch (const Error& error) {
      refuse(slots[i].slot, error.what());
    }
  }
  for (const tsr_slot_spec& listed : table.value_or(op::SlotList()))
    if (!(listed.flags & TSR_SLOT_OPTIONAL) && op::slot_index(slots, listed.slot) < 0)
      refuse(listed.slot, "it is missing");
}

}  // namespace

std::vector<tsr_slot_spec> describe(const tsr_device_interface& device, const tsr_op& op) {
  // Enough for every existing op; a device that needs more returns how many, and is called again.
  std::vector<tsr_slot_spec> slots(32);
  uint64_t num_slots = slots.size();
  tsr_error err{};
  tsr_status status = enter(device.describe, &op, slots.data(), &num_slots, &err);
  if (status == TSR_E_RESOURCE_EXHAUSTED && num_slots > slots.size() && num_slots <= kMaxSlots) {
    slots.resize(num_slots);
    status = enter(device.describe, &op, slots.data(), &num_slots, &err);
  }
  if (num_slots > kMaxSlots)
    throw Error(TSR_E_INTERNAL, concat(call_text(address_of(device.describe)), " returned ", num_slots,
                                       " slots for an op; the limit is ", kMaxSlots));
  if (status != TSR_OK) check_call(status, err, address_of(device.describe));
  if (num_slots > slots.size())
    throw Error(TSR_E_INTERNAL, concat(call_text(address_of(device.describe)), " returned ", num_slots,
                                       " slots and OK, where there was room for ", slots.size()));
  slots.resize(num_slots);
  check_slots(device, op, slots);
  return slots;
}

KernelHandle make_kernel(const Device& device, const tsr_op& op, std::span<const tsr_slot_spec> slots) {
  return {made_by<tsr_kernel>(device.api().prepare, device.handle(), &op, slots.data(), slots.size()), {&device.api()}};
}

void synchronize(const Device& device, tsr_stream* stream, int64_t timeout_ms) {
  const auto function = device.api().stream_synchronize;
  tsr_error err{};
  const tsr_status status = enter_for(timeout_ms, function, stream, timeout_ms, &err);
  if (status != TSR_OK && status != TSR_IN_PROGRESS) check_call(status, err, address_of(function));
  if (status == TSR_OK) return;
  const std::string text = concat(plugin_text(address_of(function)), " has not ended its work within ", timeout_ms,
                                  " ms (stream_synchronize), and reported no error");
  note_error(text);
  throw Error(TSR_E_DEADLINE, text);
}

void end_by_early_ok(const Device& device, std::string_view what) {
  end_run(concat(call_text(address_of(device.api().stream_synchronize)),
                 " returned OK before its work had ended: ", what, ", so the run ends"));
}

namespace {

/// The memory of all arenas of the process: what a plugin returns twice is refused. Devices have one address space with
/// the host and with one another, as a pointer tells where its memory is (CUDA's unified addressing).
class ArenaRegistry {
 public:
  /// False: some of it is in one of them.
  bool add(const void* base, uint64_t num_bytes) {
    const std::lock_guard lock(mutex_);
    const auto begin = reinterpret_cast<uintptr_t>(base);
    const auto above = ends_.upper_bound(begin);  // the first that ends after it begins
    if (above != ends_.end() && above->second < begin + num_bytes) return false;
    ends_[begin + num_bytes] = begin;
    return true;
  }
  void remove(const void* base, uint64_t num_bytes) {
    const std::lock_guard lock(mutex_);
    ends_.erase(reinterpret_cast<uintptr_t>(base) + num_bytes);
  }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, uintptr_t> ends_;  // end -> begin; guarded by mutex_
};
ArenaRegistry& arena_registry() {
  static ArenaRegistry all;
  return all;
}

}  // namespace

Arena::Arena(const Device& device, uint32_t memory, uint64_t num_bytes)
    : device_(device), memory_(memory), num_bytes_(num_bytes) {
  if (!num_bytes) return;
  base_ = made_by<void>(device.api().allocate, device.handle(), memory, num_bytes);
  const auto refuse = [&](const std::string& why) {
    throw Error(TSR_E_INTERNAL, concat(call_text(address_of(device.api().allocate)), " returned ", why));
  };
  if (reinterpret_cast<uintptr_t>(base_) % kMemoryAlignment != 0)
    refuse(concat("memory that is not ", kMemoryAlignment, "-aligned"));
  if (memory == TSR_MEMORY_HOST && !is_writable(base_, num_bytes))
    refuse(concat("host memory that is not ", num_bytes, " bytes long or that the host cannot write to"));
  const bool is_of_host = view(device.api().stream_kind) == kHostStreamKind;
  if (memory == TSR_MEMORY_DEVICE && is_of_host && !is_writable(base_, num_bytes))
    refuse(concat("device memory that the host cannot write to; by its stream kind, ", kHostStreamKind,
                  ", it is the process's own, and a device with memory of its own has another stream kind"));
  if (!arena_registry().add(base_, num_bytes)) refuse("memory that it has returned before, and that is still in use");
}
Arena::Arena(Arena&& other) noexcept
    : device_(other.device_),
      memory_(other.memory_),
      num_bytes_(other.num_bytes_),
      base_(std::exchange(other.base_, nullptr)) {}
Arena::~Arena() {
  if (!base_) return;
  arena_registry().remove(base_, num_bytes_);
  end_with(device_.api().release, device_.handle(), memory_, base_);
}

}  // namespace tessera::host
