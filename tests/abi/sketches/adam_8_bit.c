/* The homes of an 8-bit Adam (Dettmers et al. 2021): two states of one byte an element, and a float32 scale of each for
 * every 256 elements. Slices are cut at multiples of view.slice_granule, so no block is cut, and a strategy that knows
 * roles by number alone shards all four like the states of today. */
#include <tessera/strategy.h>

#define BLOCK 256u
enum { M, V, M_SCALE, V_SCALE, NUM_STATES };

/* What the view would say. */
static const tsr_str kStates[NUM_STATES] = {{"m", 1}, {"v", 1}, {"m.scale", 7}, {"v.scale", 7}};

static const tsr_dtype kDtypes[NUM_STATES] = {TSR_I8, TSR_U8, TSR_F32, TSR_F32};

/* This rank's slice of a home: every role of it, whatever its number and granule. */
tsr_status slice_home(const tsr_program_view* view, const tsr_edit* edit, const tsr_home* whole, uint64_t begin,
                      uint64_t end, tsr_error* err);
tsr_status slice_home(const tsr_program_view* view, const tsr_edit* edit, const tsr_home* whole, uint64_t begin,
                      uint64_t end, tsr_error* err) {
  tsr_home_role roles[32];
  tsr_home slice = *whole;
  tsr_status status = TSR_OK;
  if (begin % view->slice_granule != 0 || end % view->slice_granule != 0) return TSR_E_INVALID_ARGUMENT;
  slice.num_elements = end - begin;
  slice.roles = roles;
  for (uint32_t i = 0; i < whole->num_roles && status == TSR_OK; ++i) {
    tsr_buffer own = {0};
    roles[i] = whole->roles[i];
    roles[i].offset = 0;
    roles[i].num_elements = (end - begin) / roles[i].granule;
    own.num_elements = roles[i].num_elements;
    own.name = whole->name;
    own.kind = TSR_BUFFER_OPTIMIZER;
    own.memory = TSR_MEMORY_DEVICE;
    own.dtype = roles[i].number >= TSR_HOME_STATE(0) ? kDtypes[roles[i].number - TSR_HOME_STATE(0)] : TSR_F32;
    own.flags = TSR_BUFFER_PERSISTENT;
    status = edit->add_buffer(edit->ctx, &own, &roles[i].buffer, err);
  }
  return status == TSR_OK ? edit->replace_homes(edit->ctx, &whole->id, 1, &slice, NULL, err) : status;
}

/* The home of 1,024 elements, as the host would show it. */
static const tsr_home_role kRoles[] = {
    {TSR_HOME_VALUE, 1, 10, 0, 1024, {0}},
    {TSR_HOME_GRADIENT, 1, 11, 0, 1024, {0}},
    {TSR_HOME_STATE(M), 1, 12, 0, 1024, {0}},
    {TSR_HOME_STATE(V), 1, 13, 0, 1024, {0}},
    {TSR_HOME_STATE(M_SCALE), BLOCK, 14, 0, 1024 / BLOCK, {0}},
    {TSR_HOME_STATE(V_SCALE), BLOCK, 15, 0, 1024 / BLOCK, {0}},
};
extern const tsr_home kHome;
const tsr_home kHome = {1, {"h.0", 3}, 0, 0, NULL, 1024, kRoles, sizeof kRoles / sizeof kRoles[0], 0, {0}};

extern const tsr_program_view kView;
const tsr_program_view kView = {.struct_size = sizeof(tsr_program_view),
                                .purpose = TSR_PURPOSE_STEP,
                                .slice_granule = BLOCK,
                                .states = kStates,
                                .num_states = NUM_STATES,
                                .homes = &kHome,
                                .num_homes = 1};
