/* --strategy cp=context+fsdp: on one axis, context parallelism splits the sequence and fsdp shards over it. The axis
 * splits a mask, the strategies are two entries of the view, and a layout entry names the dim of values that one of
 * them splits. Their own state is two buffers of one name. */
#include <tessera/strategy.h>

extern const tsr_axis kAxis;
const tsr_axis kAxis = {{"cp", 2}, 4, 1, TSR_SPLITS_BATCH | TSR_SPLITS_SEQUENCE, 0, {0}};

enum { CONTEXT, FSDP };
extern const tsr_strategy_info kStrategies[];
const tsr_strategy_info kStrategies[] = {
    {{"context", 7}, 0, TSR_STRATEGY_SPLIT_COMPUTE, {0}},
    {{"fsdp", 4}, 0, TSR_STRATEGY_SPLIT_STORAGE, {0}},
};

/* What context says of values, and what follows for one of them. */
extern const tsr_layout_entry kSequence;
const tsr_layout_entry kSequence = {
    .parameter = -1, .axis = 0, .kind = TSR_LAYOUT_SPLIT, .dim = -1, .parts = 4, .blocks = 1, .name = TSR_DIM_SEQ};
static const tsr_placement kSplit = {TSR_PLACEMENT_SPLIT, TSR_DIM_SEQ, 0, 0, {0}};
static const tsr_placement kGathered = {TSR_PLACEMENT_REPLICATED, 0, 0, 0, {0}};
extern const tsr_value kKeys[];
const tsr_value kKeys[] = {
    {.name = {"h.0.k", 5}, .kind = TSR_VALUE_ACTIVATION, .gradient_of = -1, .same_as = -1, .placements = &kSplit},
    {.name = {"h.0.k.whole", 11},
     .kind = TSR_VALUE_ACTIVATION,
     .gradient_of = -1,
     .same_as = 0,
     .placements = &kGathered},
};

extern const tsr_buffer kState[];
const tsr_buffer kState[] = {
    {1, 8, {"state", 5}, TSR_BUFFER_PLUGIN, TSR_MEMORY_DEVICE, TSR_F32, TSR_BUFFER_PERSISTENT, CONTEXT, 0, {0}},
    {2, 8, {"state", 5}, TSR_BUFFER_PLUGIN, TSR_MEMORY_DEVICE, TSR_F32, TSR_BUFFER_PERSISTENT, FSDP, 0, {0}},
};
