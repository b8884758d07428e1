// Where the model is cut into parts, one after another: part v runs on stage v % num_stages.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/strategy.hpp"

namespace tessera::pipeline {

/// Whether the segment belongs to the loss, which is scheduled with the backward: `loss`, or the tail it is split into.
bool is_of_loss(const tsr_segment& segment);

/// A part: segments [begin, end), and the one value that enters it (-1: the first part, which reads tokens).
struct Part {
  int begin = 0;
  int end = 0;
  int entering = -1;
};

/// A place where the model may be cut: in front of `segment`, where `value` is all that the rest needs of what came
/// before, and no unit has parameters on both sides.
struct CutPoint {
  int segment;
  int value;
};
std::vector<CutPoint> cut_points(const ProgramView& view);

/// Cuts the model into `num_parts`. `how` is
///  - auto: the most expensive part is as cheap as it can be;
///  - even: equally many blocks (the stretches between cut points that are alike) in each part;
///  - the names of the segments or units that parts 1, 2, ... begin with, separated by commas.
/// Throws INVALID_ARGUMENT for what is not possible, with what is.
std::vector<Part> cut_model(const ProgramView& view, std::string_view how, int num_parts);

/// The stages, ascending, that the layout puts each parameter on; none for one that it says nothing of.
std::vector<std::vector<int32_t>> stages_by_layout(const ProgramView& view);
/// The parts that the layout stands for. A program may be cut into other parts than its layout's if their costs were
/// compared anew: its model is this rank's part of the whole, which a split of tensors may have changed. Throws
/// UNSUPPORTED where such a split leaves more than one value to pass on.
std::vector<Part> parts_of_layout(const ProgramView& view, int num_parts);

/// Work of one micro-batch's forward through a segment, in floating-point operations; elements that are read and
/// written count too.
double cost_of(const ProgramView& view, const tsr_segment& segment);

}  // namespace tessera::pipeline
