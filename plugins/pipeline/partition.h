// Partitions the model into consecutive virtual stages: virtual stage v runs on stage v % num_stages.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/strategy.hpp"

namespace tessera::pipeline {

/// Whether the segment belongs to the loss, which is scheduled with the backward: `loss`, or the segments it is split
/// into.
bool is_of_loss(const tsr_segment& segment);

/// A part of the model: segments [begin, end), and the one value that enters it (-1: the first, which reads tokens).
struct VirtualStage {
  int begin = 0;
  int end = 0;
  int entering = -1;
};

/// A possible boundary: before `segment`, if `value` is the only earlier value that the rest reads, and no unit has
/// parameters on both sides.
struct CutPoint {
  int segment;
  int value;
};
std::vector<CutPoint> cut_points(const ProgramView& view);

/// Partitions the model into `num_virtual_stages`. `how` is
///  - auto: minimizes the cost of the most expensive part;
///  - even: equal numbers of blocks (the equal ranges between cut points) in each part;
///  - the names of the first segments or units of parts 1, 2, ..., separated by commas.
/// Throws INVALID_ARGUMENT, with the possible values.
std::vector<VirtualStage> partition_model(const ProgramView& view, std::string_view how, int num_virtual_stages);

/// The stages, ascending, that the layout puts each parameter on; none for a parameter without an entry.
std::vector<std::vector<int32_t>> stages_by_layout(const ProgramView& view);
/// The partition that the layout was made from. Partitioning anew could give another result: a program's model is this
/// rank's part of the whole, and tensor parallelism may have changed the costs. Throws UNSUPPORTED if tensor
/// parallelism leaves more than one value at a boundary.
std::vector<VirtualStage> virtual_stages_of_layout(const ProgramView& view, int num_virtual_stages);

/// Cost of one micro-batch's forward through a segment, in floating-point operations; elements read and written count
/// too.
double cost_of(const ProgramView& view, const tsr_segment& segment);

}  // namespace tessera::pipeline
