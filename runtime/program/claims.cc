// Reads a communicator's caps once, when a job is made, and holds every collective of every program against them while
// it is planned: what a communicator does not have is refused before a rank is started, not in step 1.
//
//     caps(stream kind)     what it can do on such streams; or a reason why it cannot work on them
//     describe(collective)  how much workspace one takes, asked after it was compared with the claims

#include "program/claims.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/concat.h"
#include "config/usage_error.h"
#include "guard/known_functions.h"
#include "guard/plugin_calls.h"
#include "guard/readable.h"
#include "program/text_words.h"

namespace tessera::host {
namespace {

bool has_bit(uint64_t mask, uint32_t number) {
  return number < 64 && (mask >> number & 1) != 0;
}

UsageError untrue(const std::string& name, const std::string& what) {
  return UsageError(concat("the caps of --comm ", name, " ", what, "; give another communicator"));
}

void check_kinds(const std::string& name, tsr_str stream_kind, const tsr_comm_caps& caps) {
  check_array(caps.stream_kinds, caps.num_stream_kinds, "their array stream_kinds");
  bool is_listed = false;
  for (uint64_t i = 0; i < caps.num_stream_kinds; ++i) {
    check_text(caps.stream_kinds[i], "one of their stream kinds");
    is_listed |= view(caps.stream_kinds[i]) == view(stream_kind);
  }
  if (!is_listed)
    throw untrue(name, concat("are for streams of the kind ", view(stream_kind), ", which they do not list"));
}

/// Refuses bits that this host does not know, since it could only misunderstand them.
void check_known(const tsr_communicator_interface& communicator, const tsr_comm_caps& caps) {
  // What is left of each mask are bits without a meaning. Kinds are numbered without gaps, from the first to the last.
  const uint64_t flags = caps.flags & ~uint64_t{TSR_COMM_CANONICAL_SUM | TSR_COMM_ONE_PROCESS | TSR_COMM_CAPTURABLE};
  const uint64_t collectives =
      caps.collectives & ~((uint64_t{2} << TSR_COLL_BARRIER) - (uint64_t{1} << TSR_COLL_ALL_REDUCE));
  const uint64_t reduces = caps.reduces & ~((uint64_t{2} << TSR_REDUCE_MAX) - (uint64_t{1} << TSR_REDUCE_SUM));
  if (flags || collectives || reduces)
    throw UsageError(
        concat(call_text(address_of(communicator.caps)), " says that it has flags ", flags, ", collectives ",
               collectives, " and reductions ", reduces, " (bits), to which ABI ", TSR_ABI_MAJOR, ".", TSR_ABI_MINOR,
               " gives no meaning; build it again with this version's plugin-api"),
        TSR_E_ABI);
}

}  // namespace

bool CommunicatorClaims::sums_float32() const {
  return has_bit(collectives, TSR_COLL_ALL_REDUCE) && has_bit(reduces, TSR_REDUCE_SUM) &&
         std::ranges::count(dtypes, TSR_F32) > 0;
}

std::optional<CommunicatorClaims> claims_on(const tsr_communicator_interface& communicator, const std::string& name,
                                            tsr_str stream_kind, std::string& reason) {
  tsr_comm_caps caps{};
  caps.struct_size = sizeof caps;
  tsr_error err{};
  if (const tsr_status status = enter(communicator.caps, stream_kind, &caps, &err); status != TSR_OK) {
    reason = std::string(err.message, strnlen(err.message, sizeof err.message));
    if (reason.empty())
      reason = concat("status ", status, " without a message from ", call_text(address_of(communicator.caps)));
    return std::nullopt;
  }
  check_known(communicator, caps);
  if (caps.collectives == 0) throw untrue(name, "claim no collective");
  // The arrays of the answer are checked before anything is copied from them.
  try {
    check_array(caps.dtypes, caps.num_dtypes, "their array dtypes");
    check_kinds(name, stream_kind, caps);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    throw untrue(name, concat("cannot be read: ", e.what()));
  }
  return CommunicatorClaims{
      name, caps.flags, caps.collectives, caps.reduces, {caps.dtypes, caps.dtypes + caps.num_dtypes}};
}

namespace {

void require_claimed(const CommunicatorClaims& claims, const Program& program, const Action& action) {
  const tsr_collective needed = collective_of(program, action);
  const auto require = [&](bool is_claimed, std::string_view what) {
    if (is_claimed) return;
    const std::string about = action.bindings.empty() ? "" : " " + program.buffer(action.bindings[0].buffer).name;
    throw UsageError(concat("--comm ", claims.name, " does not claim ", what, ", which ", action_name(action.kind),
                            about, " on ", program.streams[action.stream].name,
                            " needs; give another communicator, or another --strategy"));
  };
  require(has_bit(claims.collectives, needed.kind), action_name(action.kind));
  if (needed.reduce) require(has_bit(claims.reduces, needed.reduce), text_of(kReduceNames, needed.reduce, "reduction"));
  if (needed.kind != TSR_COLL_BARRIER)
    require(std::ranges::count(claims.dtypes, needed.dtype) > 0, dtype_name(needed.dtype));
}

/// No algorithm needs more than a few copies of what all ranks have together.
void check_workspace(const tsr_communicator_interface& communicator, const tsr_collective& collective, int num_ranks,
                     uint64_t num_bytes, const Action& action) {
  constexpr uint64_t kFree = uint64_t{1} << 30, kCopies = 16;
  uint64_t num_elements = collective.num_elements;
  for (int i = 0; collective.counts && i < num_ranks; ++i)
    num_elements += collective.counts[i];
  for (uint64_t i = 0; i < collective.num_transfers; ++i)
    num_elements += collective.transfers[i].num_elements;
  const auto ranks = static_cast<uint64_t>(num_ranks);
  const uint64_t most = kFree + kCopies * ranks * TSR_NUM_BYTES(collective.dtype, num_elements);
  if (num_bytes > most)
    throw Error(TSR_E_INTERNAL, concat(call_text(address_of(communicator.describe)), " returned ", num_bytes,
                                       " bytes of workspace for ", action_name(action.kind), " of ", num_elements,
                                       " elements over ", num_ranks, " ranks; the limit is ", most));
}

}  // namespace

DescribeCollective describe_with(const tsr_communicator_interface* communicator, CommunicatorClaims claims) {
  // A copy: the answer of caps() is the plugin's, and may be gone by the next call.
  return [communicator, claims = std::move(claims)](const Program& program, const Action& action, int num_ranks) {
    require_claimed(claims, program, action);
    const tsr_collective collective = collective_of(program, action);
    uint64_t num_bytes = 0;
    call(communicator->describe, &collective, num_ranks, &num_bytes);
    check_workspace(*communicator, collective, num_ranks, num_bytes, action);
    return num_bytes;
  };
}

}  // namespace tessera::host
