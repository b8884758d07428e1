// What passes that split the storage of parameters have in common: which homes share one buffer, when a whole copy of
// it is needed, and when its gradient is complete. Each strategy decides where the copy comes from and where the sum
// goes.
//
// fsdp over two ranks, from tests/golden/programs/two-blocks-fsdp-full-shard.txt. In the base program buffer h.0 is
// whole, f32[13312], and compute actions read it. Afterwards each rank has a slice and gathers a copy before its use:
//     %10 = home h.0 persistent f32[6656]
//     %26 = gathered h.0 f32[13312]
//     4     comm.dp.gather      all_gather group=dp  r %10 src  w %26 dst  # 3
//     8     compute             forward h.0.qkv mb=0  r %26+256:3072 p:attn.c_attn.weight  ...
//     52    comm.dp.gradient    reduce_scatter group=dp reduce=sum  r %90 src  w %101 dst  w %102 w:0  # 51
//
// The order of use: flat_params (flat_param.hpp), sorted into ParamGroups by the strategy; plan_unshards (unshard.hpp)
// for where whole copies are made; GradientSums (gradient_sum.hpp) for where gradients are complete. All of it reads
// the view as it was at the start of the pass, and writes through Edit.
#pragma once

#include "tessera/flat_param.hpp"
#include "tessera/gradient_sum.hpp"
#include "tessera/inserter.hpp"
#include "tessera/sharding_pass.hpp"
#include "tessera/unshard.hpp"
