// The flags of `tessera train` and `tessera plan`, typed and validated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/default_plugins.h"
#include "config/recompute_option.h"
#include "config/step_range.h"
#include "storage/io_engine.h"

namespace tessera::host {

// Choices. Each has its names on the command line, in the order of the enumerators and separated by '|'.

/// The column of a CSV file that holds the label.
enum class LabelColumn { first, last };
inline constexpr std::string_view kLabelColumnChoices = "first|last";
/// What features are scaled to [0, 1] by: the range of each column, or of the file; or they are not scaled.
enum class DataScale { column, file, none };
inline constexpr std::string_view kDataScaleChoices = "column|file|none";
/// In which order a run reads its data: that of the data, or one that seed and epoch decide.
enum class DataOrder { sequential, shuffled };
inline constexpr std::string_view kDataOrderChoices = "sequential|shuffled";
enum class LrSchedule { constant, linear, cosine };
inline constexpr std::string_view kLrScheduleChoices = "constant|linear|cosine";
enum class OptimizerKind { adamw, sgd };
inline constexpr std::string_view kOptimizerChoices = "adamw|sgd";
enum class ReduceEvery { step, micro_batch };
inline constexpr std::string_view kReduceEveryChoices = "step|micro-batch";
enum class Precision { float32, bf16, fp16 };
inline constexpr std::string_view kPrecisionChoices = "float32|bf16|fp16";
enum class CudaGraph { automatic, off };
inline constexpr std::string_view kCudaGraphChoices = "auto|off";

inline constexpr std::string_view kIoEngineChoices = "auto|uring|threads";

struct TrainConfig;
/// Where the trace of --profile goes.
std::string trace_path(const TrainConfig& config);

std::string_view to_string(LabelColumn label);
std::string_view to_string(DataScale scale);
std::string_view to_string(DataOrder order);
std::string_view to_string(LrSchedule schedule);
std::string_view to_string(OptimizerKind optimizer);
std::string_view to_string(ReduceEvery reduce_every);
std::string_view to_string(Precision precision);
std::string_view to_string(IoEngine engine);
std::string_view to_string(CudaGraph cuda_graph);

/// One axis of `--mesh`, as written; outermost first.
struct AxisFlag {
  std::string name;
  int num_ranks = 0;
};

/// One entry of `--strategy`. `plugin` is a name or, with a slash, a path.
struct StrategyFlag {
  std::string axis;  ///< empty: the whole world is one axis "dp"
  std::string plugin;
};

inline constexpr std::string_view kDefaultProfileOut = "trace.json.gz";

struct TrainConfig {
  // Model and data.
  std::string model;
  std::string data;                       ///< may be empty for `plan`
  std::optional<LabelColumn> data_label;  ///< of CSV; not given: last
  std::optional<DataScale> data_scale;    ///< not given: by the format of the data
  std::optional<DataOrder> data_order;    ///< not given: by the kind of data (data_order, job.h)
  int64_t batch_size = 4;                 ///< sequences per rank and micro-batch
  int64_t seq_len = 0;                    ///< tokens per sequence; 0: the model's context length
  int64_t grad_accum = 1;                 ///< micro-batches per step
  uint64_t seed = 1337;

  // Evaluation.
  std::string eval_data;     ///< empty: nothing is evaluated
  int64_t eval_every = 0;    ///< steps; 0: only after the last one
  int64_t eval_batches = 0;  ///< of a step's size; 0: all of the data

  // Optimization.
  int64_t steps = 100;
  double lr = 3e-4;
  double min_lr = 0;  ///< where the schedule ends
  int64_t warmup_steps = 0;
  LrSchedule lr_schedule = LrSchedule::constant;
  OptimizerKind optimizer = OptimizerKind::adamw;
  double beta1 = 0.9;  ///< sgd: the momentum
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;        ///< of tensors with two or more dims
  double clip = 1.0;                ///< global gradient norm; 0: off
  std::vector<std::string> freeze;  ///< patterns of names of parameters that are not trained

  // Ranks, plugins and precision.
  int nproc = 0;                         ///< local ranks to start; 0: the mesh's product, or the launcher's world
  std::vector<AxisFlag> mesh;            ///< empty: one axis "dp" over the world
  std::vector<StrategyFlag> strategies;  ///< empty: the default one when there is more than one rank
  std::string comm{kAutoCommunicator};   ///< name or path of a plugin; once plugins are loaded, the one that auto chose
  std::string device{kDefaultDevice};    ///< name, or path of a plugin
  std::vector<std::string> offload;      ///< policies, names or paths, in the order in which they decide
  std::vector<std::string> offload_dirs;  ///< of what goes to files
  IoEngine offload_io = IoEngine::automatic;
  bool offload_check = true;             ///< of what is read from files
  uint64_t offload_chunk = 16 << 20;     ///< bytes of float32 values that are updated at once, where state leaves
  std::vector<std::string> plugin_dirs;  ///< searched beside the default folder
  Precision dtype = Precision::float32;  ///< of values and compute copies; homes are float32
  Precision reduce_dtype = Precision::float32;  ///< of gradients on the wire
  ReduceEvery reduce_every = ReduceEvery::step;
  Recompute recompute;
  CudaGraph cuda_graph = CudaGraph::automatic;  ///< capture steps where device and communicator can
  uint64_t device_memory = 0;                   ///< bytes a rank may take of its device; 0: not limited
  uint64_t host_memory = 0;                     ///< bytes a rank may take of host memory; 0: not limited
  bool bind_cores = true;                       ///< each rank of this machine on its own cores
  bool insecure = false;                        ///< ranks of several machines may meet without a secret
  int threads = 0;                              ///< per rank; 0: max(1, cores / local ranks)

  // Checkpoints.
  std::string save;         ///< folder; empty: nothing is saved
  int64_t save_every = 0;   ///< steps; 0: after the last one only
  bool save_async = false;  ///< while steps run
  bool save_best = false;   ///< after evaluations of the least loss so far
  int64_t keep = 3;         ///< checkpoints in the folder; 0: all
  std::string resume;       ///< a checkpoint, or a folder of --save
  std::string init_from;    ///< the same, of which only the parameters are taken

  // Timeouts.
  int64_t start_timeout_ms = 300'000;  ///< for each wait before the first step
  int64_t timeout_ms = 100'000;        ///< for each later wait, and what plugins do in a step

  // Logs, metrics and checks.
  std::string metrics;               ///< path, or "-" for standard output; empty: no metrics
  std::optional<StepRange> profile;  ///< the steps to trace
  std::string profile_out;           ///< the trace; empty: kDefaultProfileOut
  std::string out;                   ///< folder of the run's record; empty: none
  bool overwrite = false;            ///< outputs may replace files that Tessera did not write
  int64_t max_skipped_steps = 20;    ///< in a row, after which the run is lost; 0: any number
  std::string log_level = "info";
  int64_t debug_replicas = 0;            ///< compare what ranks share after every so many steps; 0: never
  int64_t log_every = 0;                 ///< steps between two lines of the log; 0: so that a run has about a hundred
  bool debug_memory = false;             ///< NaN fill at the start of every buffer's life, and guards at its ends
  std::optional<uint64_t> stream_delay;  ///< seed of a random delay before every action of every stream
};

}  // namespace tessera::host
