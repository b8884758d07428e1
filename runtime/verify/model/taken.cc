// What is of a rank's own tokens, of its part of split tensors, or of its replica of parameters that diverge is nothing
// that another rank may need:
//
//     recv peer=1  w %40 dst     %40 holds h.0.x mb=0 if rank 1 has the same tokens and the same part of its splits

#include "verify/model/taken.h"

#include <algorithm>

namespace tessera::host {
namespace {

/// Whether ranks that differ on these axes, which split tensors, have other parts of it.
bool is_part(const Content& content, const Model& model, uint32_t axes) {
  const auto index = static_cast<size_t>(content.index);
  switch (content.kind) {
    case ContentKind::value:
    case ContentKind::value_gradient:
      return content.is_rows || std::ranges::any_of(model.values[index].splits, [&](const ValueSplit& split) {
               return (axes >> split.axis & 1u) != 0;
             });
    case ContentKind::state:
    case ContentKind::gradient:
      return model.parameters[index].part.has_value();
    default:
      return content.kind == ContentKind::saved || content.kind == ContentKind::context;
  }
}

bool is_of_replica(const Content& content) {
  return content.kind == ContentKind::gradient || content.kind == ContentKind::squares ||
         content.kind == ContentKind::scalar || (content.is_state() && !content.is_mean);
}

}  // namespace

uint32_t axes_that_split(const Mesh& mesh, uint32_t splits) {
  uint32_t axes = 0;
  for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
    if (mesh.axes()[axis].splits == splits) axes |= 1u << axis;
  return axes;
}

AxesOfStates axes_of_states(const Program& program) {
  AxesOfStates axes{axes_that_split(*program.mesh, TSR_SPLITS_TENSORS), 0};
  for (const LayoutEntry& entry : program.layout)
    if (entry.kind == TSR_LAYOUT_DIVERGENT) axes.replicas |= 1u << entry.axis;
  return axes;
}

uint32_t differing_axes(const Mesh& mesh, int a, int b) {
  const Coordinates at_a = mesh.coordinates(a), at_b = mesh.coordinates(b);
  uint32_t axes = 0;
  for (size_t axis = 0; axis < at_a.size(); ++axis)
    if (at_a[axis] != at_b[axis]) axes |= 1u << axis;
  return axes;
}

ContentParts taken(const Mesh& mesh, int rank, int from, ContentParts parts) {
  const auto is_of_tokens = [](const ContentPart& part) { return part.content.is_of_tokens(); };
  if (rank == from || std::ranges::none_of(parts, is_of_tokens)) return parts;
  if (mesh.data_rank(mesh.coordinates(rank)) == mesh.data_rank(mesh.coordinates(from))) return parts;
  for (ContentPart& part : parts)
    if (is_of_tokens(part)) part.content = {};
  return parts;
}

ContentParts taken_alone(const Model& model, const AxesOfStates& of_states, uint32_t axes, ContentParts parts) {
  for (ContentPart& part : parts)
    if (part.content.local & axes) part.content = {};  // the other rank has other elements
  const uint32_t of_tensors = axes & of_states.parts;
  const bool is_other_replica = (axes & of_states.replicas) != 0;
  if (of_tensors == 0 && !is_other_replica) return parts;
  for (ContentPart& part : parts)
    if ((of_tensors && is_part(part.content, model, of_tensors)) || (is_other_replica && is_of_replica(part.content)))
      part.content = {};
  return parts;
}

void forget_own_slices(ContentParts& parts) {
  for (ContentPart& part : parts)
    part.content.own = 0;
}

void forget_slices(ContentParts& parts) {
  for (ContentPart& part : parts) {
    part.content.own = part.content.local = 0;
    part.content.is_mean = false;
  }
}

}  // namespace tessera::host
