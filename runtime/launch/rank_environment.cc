// Launchers tell a process its rank by environment variables, each by its own. Often several sets are present, since
// launchers nest (torchrun inside srun), so those that may not be nested must agree. Nothing is guessed: a
// contradiction is an error that names both variables, before any rank waits for another.
//
//     1  a source: which variables give rank and world       choose
//     2  the job's name, from what its launcher calls it     job_name
//     3  where the ranks meet                                choose_store_address
//     4  the secret, given or made from name and port        choose_secret
//
// Every rank computes 2 to 4 by itself, and all must come to the same port and secret, so these are made of what the
// launcher tells all ranks alike.

#include "launch/rank_environment.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <system_error>

#include "base/concat.h"
#include "base/sha256.h"
#include "config/text_values.h"
#include "config/usage_error.h"

namespace tessera::host {
namespace {

struct Source {
  const char* name;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;
};

// In order of precedence. Slurm's local_size has its own syntax (slurm.cc).
constexpr Source kTessera = {"tessera", "TESSERA_RANK", "TESSERA_WORLD_SIZE", "TESSERA_LOCAL_RANK",
                             "TESSERA_LOCAL_SIZE"};
constexpr Source kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Source kSlurm = {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                           "SLURM_STEP_TASKS_PER_NODE"};
constexpr Source kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Source kMpich = {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr const Source* kSources[] = {&kTessera, &kTorchrun, &kSlurm, &kOpenMpi, &kMpich};

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const std::string& name) const { return environment_(name); }

  std::optional<int> number(const char* name) const {
    const auto value = environment_(name);
    return value ? std::optional<int>(static_cast<int>(parse_environment_integer(name, *value))) : std::nullopt;
  }

  // Slurm also sets SLURM_PROCID in batch scripts, which run once, outside of steps.
  bool speaks(const Source& source) const {
    const bool has_rank = text(source.rank).has_value();
    const bool has_world = text(source.world_size).has_value();
    if (has_rank == has_world) return has_rank;
    if (&source == &kSlurm) return false;
    throw UsageError(concat("the environment has ", has_rank ? source.rank : source.world_size, " but not ",
                            has_rank ? source.world_size : source.rank, "; set both or neither"));
  }

 private:
  const Environment& environment_;
};

void check_same(const Reader& reader, const Source& winner, const char* ours, const char* theirs) {
  const int our_value = *reader.number(ours);
  const int their_value = *reader.number(theirs);
  if (our_value != their_value)
    throw UsageError(concat("the environment has ", ours, "=", our_value, " but ", theirs, "=", their_value,
                            "; unset the wrong one (", winner.name, " has precedence)"));
}

const Source* choose(const Reader& reader) {
  const Source* winner = nullptr;
  for (const Source* source : kSources) {
    if (!reader.speaks(*source)) continue;
    if (!winner) {
      winner = source;
      const bool may_be_inside_another =
          source == &kTessera || (source == &kTorchrun && reader.text("TORCHELASTIC_RUN_ID"));
      if (may_be_inside_another) break;
      continue;
    }
    check_same(reader, *winner, winner->rank, source->rank);
    check_same(reader, *winner, winner->world_size, source->world_size);
  }
  return winner;
}

// Without the variable each rank is alone on its machine.
int local_size_of(const Reader& reader, const Source& source) {
  if (&source != &kSlurm) return reader.number(source.local_size).value_or(1);
  const auto tasks = reader.text(source.local_size);
  return tasks ? slurm_tasks_on_node(*tasks, reader.number("SLURM_NODEID").value_or(0)) : 1;
}

// Equal on all ranks of the job and different between jobs, as far as the launcher's variables allow.
std::string job_name(const Reader& reader, int parent_pid) {
  std::string name;
  for (const char* variable :
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID",
        "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"})
    if (const auto value = reader.text(variable)) name += concat(variable, "=", *value, " ");
  return name.empty() ? concat("parent ", parent_pid) : name;
}

uint16_t checked_port(const char* variable, int64_t port) {
  if (port < 1 || port > 65535)
    throw UsageError(concat(variable, " gives the port ", port, "; give one from 1 to 65535"));
  return static_cast<uint16_t>(port);
}

// The store's port: MASTER_PORT itself may be torchrun's.
uint16_t after_master_port(const std::string& text) {
  int port = 0;
  const char* const text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, port);
  if (error != std::errc() || end != text_end || port < 1 || port > 65534)
    throw UsageError(concat("MASTER_PORT is '", text, "'; give a port from 1 to 65534 (the ranks meet at the one ",
                            "after it), the same on all ranks"));
  return static_cast<uint16_t>(port + 1);
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// "[::1]" without its brackets, which belong to an address with a port.
std::string_view without_brackets(std::string_view host) {
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

void read_store_address(const std::string& text, RankEnvironment& result) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || !is_digits(std::string_view(text).substr(colon + 1)))
    throw UsageError(concat("TESSERA_STORE_ADDR is '", text, "'; give host:port"));
  result.store_host = without_brackets(std::string_view(text).substr(0, colon));
  result.store_port =
      checked_port("TESSERA_STORE_ADDR", parse_environment_integer("TESSERA_STORE_ADDR", text.substr(colon + 1)));
}

/// MASTER_ADDR must be a name or an address, without port, scheme or brackets. Otherwise it would fail to resolve,
/// after a while, or, on one machine, where the ranks meet on loopback, be ignored.
void check_master_address(const std::string& master) {
  const auto refuse = [&](const auto&... rest) {
    throw UsageError(concat("MASTER_ADDR is '", master, "'; ", rest...));
  };
  const std::string_view text = master;
  if (text.find_first_not_of(" \t\n") == text.npos) refuse("give the name or the address of rank 0's host");
  if (text.find("://") != text.npos) refuse("give the host instead of a URL, and the port as MASTER_PORT");
  if (text.find_first_of(" \t\n") != text.npos) refuse("give the name or the address of one host, without blanks");
  const size_t colon = text.rfind(':');
  const std::string_view host = text.substr(0, colon);
  const bool has_port =
      colon != text.npos && is_digits(text.substr(colon + 1)) && (host.find(':') == host.npos || host.ends_with(']'));
  if (has_port)
    refuse("give the port separately: MASTER_ADDR=", without_brackets(host),
           " and MASTER_PORT=", text.substr(colon + 1), ", on all ranks");
  if (text != without_brackets(text)) refuse("give the address without brackets: ", without_brackets(text));
}

void choose_store_address(const Reader& reader, const std::string& job, RankEnvironment& result) {
  if (const auto address = reader.text("TESSERA_STORE_ADDR")) return read_store_address(*address, result);
  const auto master = reader.text("MASTER_ADDR");
  const auto master_port = reader.text("MASTER_PORT");
  const auto nodes = reader.text("SLURM_STEP_NODELIST");
  if (master && master_port) {
    check_master_address(*master);
    result.store_host = *master;
    result.store_port = after_master_port(*master_port);
  } else if (nodes) {
    result.store_host = first_slurm_host(*nodes);
    // From the port on that torchrun takes by default; jobs that follow one another on a node get different ones.
    result.store_port = checked_port("SLURM_JOB_ID", 29500 + reader.number("SLURM_JOB_ID").value_or(0) % 1000);
  } else if (result.is_local()) {
    // Ports 20000 to 29999, below those that Linux gives to outgoing connections (32768 on).
    result.store_port = checked_port("the job", 20000 + std::stoi(sha256_hex(job).substr(0, 6), nullptr, 16) % 10000);
  } else if (master || master_port) {
    throw UsageError(concat("the environment has ",
                            master ? "MASTER_ADDR but not MASTER_PORT" : "MASTER_PORT but not MASTER_ADDR",
                            "; set both on all ranks"));
  } else {
    throw UsageError(
        concat(result.source, " does not give the address of rank 0; set TESSERA_STORE_ADDR=host:port on all ranks"));
  }
  if (result.is_local()) result.store_host = "127.0.0.1";
}

void choose_secret(const Reader& reader, const Source& source, const std::string& job, RankEnvironment& result) {
  if (const auto secret = reader.text("TESSERA_JOB_SECRET")) {
    if (secret->empty())
      throw UsageError("TESSERA_JOB_SECRET is empty; set it to the same random text on all ranks, or unset it");
    result.secret = *secret;
    result.has_secret = true;
  } else if (const auto key = reader.text("OMPI_MCA_orte_precondition_transports");
             key && !key->empty() && &source == &kOpenMpi) {
    result.secret = *key;
    result.has_secret = true;
  } else {
    result.secret = concat(job, "port ", result.store_port);
    if (result.is_local()) result.secret += concat(" user ", ::getuid());
  }
}

void check_ranks(const Source& source, const RankEnvironment& result) {
  if (result.world_size < 1 || result.rank >= result.world_size)
    throw UsageError(concat("the environment has ", source.rank, "=", result.rank, " and ", source.world_size, "=",
                            result.world_size, "; the rank must be below the number of ranks"));
  if (result.local_size < 1 || result.local_rank >= result.local_size || result.local_size > result.world_size)
    throw UsageError(concat("the environment has ", source.local_rank, "=", result.local_rank, ", but ",
                            source.local_size, " gives ", result.local_size, " of ", result.world_size,
                            " ranks on this machine; correct one of them"));
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

bool is_started_by_launcher() {
  return process_environment()("TESSERA_STORE_SERVED").value_or("0") == "1";
}

RankEnvironment read_rank_environment(const Environment& environment, int parent_pid) {
  const Reader reader(environment);
  RankEnvironment result;
  const Source* source = choose(reader);
  if (!source) {
    result.source = kNoLauncher;
    return result;
  }
  result.rank = *reader.number(source->rank);
  result.world_size = *reader.number(source->world_size);
  result.local_rank = reader.number(source->local_rank).value_or(0);
  result.local_size = local_size_of(reader, *source);
  result.source = concat(source->name, " (", source->rank, ", ", source->world_size, ")");
  check_ranks(*source, result);
  if (result.world_size == 1) return result;
  const std::string job = job_name(reader, parent_pid);
  choose_store_address(reader, job, result);
  choose_secret(reader, *source, job, result);
  result.serves_store = result.rank == 0 && reader.text("TESSERA_STORE_SERVED").value_or("0") != "1";
  return result;
}

bool RankEnvironment::is_local() const {
  if (local_size == world_size || store_host == "localhost" || store_host == "::1") return true;
  in_addr address{};
  return ::inet_pton(AF_INET, store_host.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

void require_secret(const RankEnvironment& environment, bool insecure, const Log& log) {
  if (environment.world_size == 1 || environment.is_local() || environment.has_secret) return;
  if (!insecure)
    throw UsageError(
        "the ranks are on several machines, and without a secret any program could join the job; set "
        "TESSERA_JOB_SECRET to the same random text on all hosts, for instance from openssl rand -hex 16, or pass "
        "--insecure on a trusted network");
  if (environment.rank == 0)
    log.warning("--insecure: any program that can reach port ", environment.store_port,
                " of this machine can join the job");
}

int ranks_to_start(int requested_world, const RankEnvironment& environment) {
  if (environment.world_size == 1) return requested_world == 0 ? 1 : requested_world;
  if (requested_world != 0 && requested_world != environment.world_size)
    throw UsageError(concat("the flags ask for ", counted(requested_world, "rank"), ", but ", environment.source,
                            " started ", environment.world_size, "; make them equal, or leave out --nproc and --mesh"));
  return 1;
}

}  // namespace tessera::host
