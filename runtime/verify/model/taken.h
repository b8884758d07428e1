// What a rank has of contents that another rank gives it, in a collective or a message.
#pragma once

#include "program/program.h"
#include "verify/model/content.h"

namespace tessera::host {

/// The axes on which two ranks have other coordinates, as bits.
uint32_t differing_axes(const Mesh& mesh, int a, int b);

/// The axes, as bits, that split `splits` (TSR_SPLITS_*).
uint32_t axes_that_split(const Mesh& mesh, uint32_t splits);

/// The axes, as bits, on which ranks have other states of one parameter: other parts of what tensors are split into, or
/// another replica of one that the layout lets diverge.
struct AxesOfStates {
  uint32_t parts = 0, replicas = 0;
};
AxesOfStates axes_of_states(const Program& program);

/// What `rank` has of `parts`, which `from` gives it: nothing of what is of its own tokens.
ContentParts taken(const Mesh& mesh, int rank, int from, ContentParts parts);

/// What a rank has of what ranks with other coordinates on `axes` give it, and what is not joined with the parts of
/// other ranks: nothing of their parts of what tensors are split into, nor of what is another replica's of what
/// diverges. taken() says the same of tokens.
ContentParts taken_alone(const Model& model, const AxesOfStates& of_states, uint32_t axes, ContentParts parts);

/// For contents that leave their rank: where they arrive they are not each rank's own slice.
void forget_own_slices(ContentParts& parts);
/// Also which elements other ranks of its class have.
void forget_slices(ContentParts& parts);

}  // namespace tessera::host
