// Creates the communicators of a rank. Creation is collective and may block, so all ranks create theirs in one order,
// by key, which sorts alike everywhere. In another order two ranks could each wait in a communicator that the other one
// creates later.
//
// The rendezvous name of a group contains its axis, its first member and its coordinates, so that disjoint groups, such
// as the two dp groups of pp=2,dp=2, use different keys of the store.

#include "exec/communicators.h"

#include "base/concat.h"
#include "guard/call_watch.h"
#include "guard/cancel_watch.h"
#include "guard/known_functions.h"
#include "guard/process_state.h"
#include "plugins/live_objects.h"
#include "tessera/error.hpp"
#include "verify/diagnostics.h"

namespace tessera::host {
tsr_comm* create_communicator(const CommunicatorSetup& setup, const Device& device, const GroupMember& member,
                              const std::string& rendezvous, const uint32_t* cancel) {
  tsr_comm_create_args args{};
  args.struct_size = sizeof args;
  args.rank = member.position;
  args.size = static_cast<int32_t>(member.world_ranks.size());
  args.is_local = setup.is_local;
  args.name = str(member.name);
  args.rendezvous = str(rendezvous);
  args.world_ranks = member.world_ranks.data();
  args.host = setup.host;
  args.device_interface = &device.api();
  args.device = device.handle();
  args.options = setup.options.data();
  args.num_options = setup.options.size();
  args.timeout_ms = setup.start_timeout_ms;
  args.store_host = str(setup.store_host);
  args.cancel = cancel;
  tsr_comm* const comm = create_by<tsr_comm>(false, setup.api->create, &args);
  live_objects<tsr_comm>().add(comm, address_of(setup.api->create));
  return comm;
}

void destroy_communicator(const tsr_communicator_interface& api, tsr_comm* comm) noexcept {
  live_objects<tsr_comm>().remove(comm);
  end_with(api.destroy, comm);
}

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
  } catch (const std::exception& error) {
    note_error(error.what());
    abort();
    for (auto& [key, made] : by_key_)
      destroy_communicator(*setup_.api, made.comm);
    throw;
  }
}

Communicators::~Communicators() {
  for (auto& [key, made] : by_key_)
    destroy_communicator(*setup_.api, made.comm);
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
  const GroupMember member{
      position, {members.begin(), members.end()}, key.stream.substr(key.stream.find('.') + 1)};  // without "comm."
  std::string rendezvous = concat("comm/", setup_.epoch, "/", key.stream, "/", key.axis, "/", members[0]);
  for (int c : key.coordinates)
    rendezvous += "," + std::to_string(c);
  by_key_[key] = {member.name, create_communicator(setup_, device, member, rendezvous, cancel), 0,
                  setup_.has_clock ? std::make_unique<CollectiveClock>() : nullptr};
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

void Communicators::begin_run() {
  for (auto& [key, made] : by_key_)
    if (made.clock) made.clock->begin_run();
}

void Communicators::check() const {
  for (const auto& [key, made] : by_key_) {
    call(setup_.api->async_error, made.comm);
    if (made.clock) made.clock->check(made.name, address_of(setup_.api->submit));
  }
}

void Communicators::abort() {
  std::vector<tsr_comm*> comms;
  // Those of the world first: on streams that cannot fail, the sums over the world must not pass after another
  // collective was cut short.
  for (const bool of_world : {true, false})
    for (auto& [key, made] : by_key_)
      if ((key.axis == TSR_WORLD_AXIS) == of_world) comms.push_back(made.comm);
  // One call for all: aborted one by one, a peer could fail on the first and report that instead of the cause.
  if (!comms.empty()) end_with(setup_.api->abort, comms.data(), comms.size());
}

}  // namespace tessera::host
