// Creates the communicators of a rank. Creation is collective and may block, so all ranks create theirs in one order,
// by key, which sorts alike everywhere. In another order two ranks could each wait in a communicator that the other one
// creates later.
//
// The rendezvous name of a group contains its axis, its first member and its coordinates, so that disjoint groups, such
// as the two dp groups of pp=2,dp=2, use different keys of the store.

#include "exec/communicators.h"

#include "guard/cancel_watch.h"
#include "guard/process_state.h"
#include "tessera/error.hpp"
#include "verify/diagnostics.h"

namespace tessera::host {

Communicators::Key Communicators::key_of(const Program& program, const Action& action) {
  const Group& group = program.groups[action.group];
  return {program.streams[action.stream].name, group.axis, group.coordinates};
}

Communicators::Communicators(const CommunicatorSetup& setup, const Device& device,
                             std::span<const Program* const> programs)
    : setup_(setup) {
  std::map<Key, const Program*> needed;
  for (const Program* program : programs)
    for (const Action& action : program->actions)
      if (is_collective(action.kind)) needed.emplace(key_of(*program, action), program);
  if (needed.empty()) return;
  const CancelWatch watch(setup.cancelled);
  try {
    for (const auto& [key, program] : needed)
      create(key, *program, device, watch.flag());
  } catch (...) {
    abort();
    for (auto& [key, made] : by_key_)
      end_with(setup_.api->destroy, made.comm);
    throw;
  }
}

Communicators::~Communicators() {
  for (auto& [key, made] : by_key_)
    end_with(setup_.api->destroy, made.comm);
}

void Communicators::create(const Key& key, const Program& program, const Device& device, const uint32_t* cancel) {
  const Group group{key.axis, key.coordinates};
  const std::vector<int> members = program.mesh->members(group, program.coordinates);
  const int position = program.mesh->position(group, program.coordinates);
  if (position < 0)
    throw Error(TSR_E_INVALID_ARGUMENT, "rank " + std::to_string(program.mesh->rank(program.coordinates)) +
                                            " is outside group " + group_text(program, group) +
                                            ", for which it has a " + "collective on " + key.stream);
  if (members.size() < 2) return;
  const std::vector<int32_t> world_ranks(members.begin(), members.end());
  const std::string name = key.stream.substr(key.stream.find('.') + 1);  // without "comm."
  std::string rendezvous = "comm/" + key.stream + "/" + std::to_string(key.axis) + "/" + std::to_string(members[0]);
  for (int c : key.coordinates)
    rendezvous += "," + std::to_string(c);
  tsr_comm_create_args args{};
  args.struct_size = sizeof args;
  args.rank = position;
  args.size = static_cast<int32_t>(members.size());
  args.is_local = setup_.is_local;
  args.name = str(name);
  args.rendezvous = str(rendezvous);
  args.world_ranks = world_ranks.data();
  args.host = setup_.host;
  args.device_interface = &device.api();
  args.device = device.handle();
  args.options = setup_.options.data();
  args.num_options = setup_.options.size();
  args.timeout_ms = setup_.start_timeout_ms;
  args.store_host = str(setup_.store_host);
  args.cancel = cancel;
  by_key_[key] = {name, create_by<tsr_comm>(false, setup_.api->create, &args), 0};
}

Communicator* Communicators::find(const Program& program, const Action& action) {
  const auto found = by_key_.find(key_of(program, action));
  return found == by_key_.end() ? nullptr : &found->second;
}

std::vector<Communicator*> Communicators::all() {
  std::vector<Communicator*> result;
  for (auto& [key, made] : by_key_)
    result.push_back(&made);
  return result;
}

void Communicators::check() const {
  for (const auto& [key, made] : by_key_)
    call(setup_.api->async_error, made.comm);
}

void Communicators::abort() {
  std::vector<tsr_comm*> comms;
  for (auto& [key, made] : by_key_)
    comms.push_back(made.comm);
  // One call for all: aborted one by one, a peer could fail on the first and report that instead of the cause.
  if (!comms.empty()) end_with(setup_.api->abort, comms.data(), comms.size());
}

}  // namespace tessera::host
