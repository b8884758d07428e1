// An op's time is looked up by its name and shape; between shapes of one op it is scaled from the nearest, by
// operations where it is a product and by bytes where it is not, since the first is bound by arithmetic and the second
// by memory.
//
// A collective's time is interpolated between the measured sizes, and grows with its bytes beyond the largest.
//
// What runs together shares cores and a disk. Files: reading at r alone and writing at w alone, both together move b,
// so each goes at b / (r + w) of its speed. Compute and copies: the shares that were measured with both at work.

#include "plan/prediction/costs.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/concat.h"
#include "offload/copies.h"
#include "plan/moved.h"
#include "plan/traffic.h"
#include "program/collective_operands.h"
#include "rates/op_rate.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

uint32_t memory_at(const Program& program, const Action& action, uint32_t role) {
  const Binding* binding = action.find(TSR_SLOT(role, 0));
  return binding ? program.buffer(binding->buffer).memory : TSR_MEMORY_DEVICE;
}

double copied_bytes(const Program& program, const Action& action) {
  const Binding* from = action.find(kSource);
  return from ? static_cast<double>(TSR_NUM_BYTES(program.buffer(from->buffer).dtype, from->num_elements)) : 0;
}

/// The larger measure of an op is what it is scaled by.
double amount_of(const OpRate& op) {
  return op.operations > 0 ? op.operations : op.num_bytes;
}

/// The largest buffer of the collective: of a gather what all slices have together. An exchange: what is sent.
double collective_bytes(const Program& program, const Action& action) {
  if (is_message(action.kind)) return static_cast<double>(sent_bytes(program, action));
  uint64_t most = 0;
  for (const Binding& binding : action.bindings)
    if (TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_SOURCE || TSR_SLOT_ROLE(binding.slot) == TSR_ROLE_DESTINATION)
      most = std::max<uint64_t>(most, TSR_NUM_BYTES(program.buffer(binding.buffer).dtype, binding.num_elements));
  return static_cast<double>(most);
}

/// Nothing when the collective was not measured.
/// Below the smallest size it takes as long as that: there the start of a collective is all of its time.
std::optional<double> interpolated(const CollectiveRates& group, std::string_view collective, double num_bytes) {
  const CollectiveTime *below = nullptr, *above = nullptr;
  for (const CollectiveTime& time : group.times) {
    if (time.collective != collective) continue;
    if (time.num_bytes <= num_bytes && (!below || time.num_bytes > below->num_bytes)) below = &time;
    if (time.num_bytes >= num_bytes && (!above || time.num_bytes < above->num_bytes)) above = &time;
  }
  if (!below && !above) return std::nullopt;
  if (!below) return above->seconds;
  if (!above) return below->num_bytes > 0 ? below->seconds * num_bytes / below->num_bytes : below->seconds;
  if (above->num_bytes == below->num_bytes) return below->seconds;
  const double share = (num_bytes - below->num_bytes) / (above->num_bytes - below->num_bytes);
  return below->seconds + share * (above->seconds - below->seconds);
}

}  // namespace

Resource resource_of(const Program& program, const Action& action) {
  if (is_collective(action.kind)) return Resource::link;
  if (action.kind == TSR_ACTION_CALL) return Resource::none;
  if (action.kind == TSR_ACTION_COPY) {
    const uint32_t from = memory_at(program, action, TSR_ROLE_SOURCE);
    const uint32_t to = memory_at(program, action, TSR_ROLE_DESTINATION);
    if (from == TSR_MEMORY_FILE) return Resource::file_read;
    if (to == TSR_MEMORY_FILE) return Resource::file_write;
    if (from == TSR_MEMORY_HOST && to == TSR_MEMORY_DEVICE) return Resource::copy_in;
    if (from == TSR_MEMORY_DEVICE && to == TSR_MEMORY_HOST) return Resource::copy_out;
  }
  const bool is_of_host = program.streams[action.stream].kind == TSR_STREAM_KIND_HOST;
  return is_of_host && !is_movement(program, action) ? Resource::host : Resource::compute;
}

Costs::Costs(const Rates& rates) : rates_(rates) {
  double operations = 0, product_seconds = 0, num_bytes = 0, other_seconds = 0;
  for (const OpRate& op : rates.ops) {
    exact_.emplace(std::pair(op.op, op.shape), &op);
    by_op_[op.op].push_back(&op);
    (op.operations > 0 ? operations : num_bytes) += amount_of(op);
    (op.operations > 0 ? product_seconds : other_seconds) += op.seconds;
  }
  if (product_seconds > 0) operations_per_second_ = operations / product_seconds;
  if (other_seconds > 0) bytes_per_second_ = num_bytes / other_seconds;
}

const FileRates& Costs::files() const {
  if (!rates_.files)
    throw Error(TSR_E_INVALID_ARGUMENT,
                "--rates has no rates of files, which this job uses; give tessera bench rates an --offload-dir");
  return *rates_.files;
}

const CopyRates& Costs::copies() const {
  if (!rates_.copies)
    throw Error(TSR_E_INVALID_ARGUMENT,
                "--rates has no rates of copies between device and host, which this job uses; add a file of tessera "
                "bench device");
  return *rates_.copies;
}

double Costs::seconds(const Program& program, const Action& action) const {
  switch (resource_of(program, action)) {
    case Resource::none:
      return 0;
    case Resource::copy_in:
      return copied_bytes(program, action) / copies().in_bytes_per_second;
    case Resource::copy_out:
      return copied_bytes(program, action) / copies().out_bytes_per_second;
    case Resource::file_read:
      return files().seconds_per_transfer +
             static_cast<double>(moved_by(program, action).file_read_bytes) / files().read_bytes_per_second;
    case Resource::file_write:
      return files().seconds_per_transfer +
             static_cast<double>(moved_by(program, action).file_written_bytes) / files().write_bytes_per_second;
    case Resource::link:
      return collective_seconds(program, action);
    case Resource::compute:
    case Resource::host:
      return op_seconds(unmeasured(program, action));
  }
  return 0;
}

const CollectiveRates* Costs::collectives_of(int num_ranks) const {
  const auto found = std::ranges::find(rates_.collectives, num_ranks, &CollectiveRates::num_ranks);
  return found == rates_.collectives.end() ? nullptr : &*found;
}

double Costs::collective_seconds(const Program& program, const Action& action) const {
  const int num_ranks = CollectiveOperands(program, action).num_ranks;
  if (num_ranks < 2 || action.kind == TSR_ACTION_RECV) return 0;  // a message's time is that of its sender
  const CollectiveRates* group = collectives_of(is_message(action.kind) && !collectives_of(num_ranks) ? 2 : num_ranks);
  if (group)
    if (const auto seconds = interpolated(*group, action_name(action.kind), collective_bytes(program, action)))
      return *seconds;
  const auto sent = static_cast<double>(sent_bytes(program, action));
  if (sent > 0 && !rates_.link_bytes_per_second)
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("--rates has no times of ", action_name(action.kind), " between ", num_ranks,
                       " ranks and no \"link_bytes_per_second\", the bytes per second that a rank sends to others; "
                       "add a file of tessera bench comm --nproc ",
                       num_ranks, ", or that number, or plan one rank"));
  return sent > 0 ? sent / *rates_.link_bytes_per_second : 0;
}

bool Costs::is_measured(const OpRate& op) const {
  if (by_op_.contains(op.op) || amount_of(op) == 0) return true;
  return op.op.ends_with(kOnHost) && by_op_.contains(op.op.substr(0, op.op.size() - kOnHost.size()));
}

double Costs::op_seconds(const OpRate& op) const {
  const auto found = exact_.find({op.op, op.shape});
  if (found != exact_.end()) return found->second->seconds;
  // Ops that were not measured on the host are assumed to be as fast as on the device.
  if (op.op.ends_with(kOnHost) && !by_op_.contains(op.op)) {
    OpRate on_device = op;
    on_device.op.resize(op.op.size() - kOnHost.size());
    return op_seconds(on_device);
  }
  return nearest_seconds(op);
}

double Costs::nearest_seconds(const OpRate& op) const {
  const double amount = amount_of(op);
  if (amount == 0) return 0;
  const auto found = by_op_.find(op.op);
  if (found == by_op_.end()) {
    const double rate = op.operations > 0 ? operations_per_second_ : bytes_per_second_;
    return rate > 0 ? amount / rate : 0;
  }
  // By ratio: half the size is as near as twice the size.
  const auto distance = [amount](const OpRate* other) {
    const double theirs = amount_of(*other);
    return theirs > 0 ? std::abs(std::log(theirs / amount)) : HUGE_VAL;
  };
  const OpRate& nearest = **std::ranges::min_element(found->second, {}, distance);
  return amount_of(nearest) > 0 ? nearest.seconds * amount / amount_of(nearest) : nearest.seconds;
}

double Costs::speed(Resource resource, const ResourceSet& running) const {
  const bool reads = running.has(Resource::file_read), writes = running.has(Resource::file_write);
  const bool copies = running.has(Resource::copy_in) || running.has(Resource::copy_out);
  const bool computes = running.has(Resource::compute), sends = running.has(Resource::link);
  const Together copying = rates_.copies ? rates_.copies->beside_compute : Together();
  const Together sending = rates_.collectives.empty() ? Together() : rates_.collectives.front().beside_compute;
  switch (resource) {
    case Resource::compute:
      return (copies ? copying.compute : 1) * (sends ? sending.compute : 1) *
             (rates_.files && (reads || writes) ? rates_.files->beside_compute.compute : 1);
    case Resource::copy_in:
    case Resource::copy_out:
      return computes ? copying.copies : 1;
    case Resource::file_read:
    case Resource::file_write: {
      const FileRates& f = files();
      // At most 1, also where both together were measured faster than each alone.
      const double shared = f.both_bytes_per_second / (f.read_bytes_per_second + f.write_bytes_per_second);
      return (reads && writes ? std::min(1.0, shared) : 1) * (computes ? f.beside_compute.copies : 1);
    }
    case Resource::link:
      return computes ? sending.copies : 1;
    default:
      return 1;
  }
}

}  // namespace tessera::host
