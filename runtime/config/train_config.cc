// Enumerators as the names that the command line uses.
// The names are one text, "sequential|shuffled", which the help shows and parse_choice() reads too; so the order of the
// enumerators is that of the names.

#include "config/train_config.h"

#include "config/text_values.h"

namespace tessera::host {
namespace {

template <class E>
std::string_view name_of(std::string_view names, E choice) {
  return split(names, '|')[static_cast<size_t>(choice)];
}

}  // namespace

std::string_view to_string(LabelColumn label) {
  return name_of(kLabelColumnChoices, label);
}
std::string_view to_string(DataScale scale) {
  return name_of(kDataScaleChoices, scale);
}
std::string_view to_string(DataOrder order) {
  return name_of(kDataOrderChoices, order);
}
std::string_view to_string(LrSchedule schedule) {
  return name_of(kLrScheduleChoices, schedule);
}
std::string_view to_string(OptimizerKind optimizer) {
  return name_of(kOptimizerChoices, optimizer);
}
std::string_view to_string(ReduceEvery reduce_every) {
  return name_of(kReduceEveryChoices, reduce_every);
}
std::string_view to_string(Precision precision) {
  return name_of(kPrecisionChoices, precision);
}
std::string_view to_string(IoEngine engine) {
  return name_of(kIoEngineChoices, engine);
}
std::string_view to_string(CudaGraph cuda_graph) {
  return name_of(kCudaGraphChoices, cuda_graph);
}

std::string trace_path(const TrainConfig& config) {
  return config.profile_out.empty() ? std::string(kDefaultProfileOut) : config.profile_out;
}

}  // namespace tessera::host
