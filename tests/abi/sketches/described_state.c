/* A strategy's own state that says what becomes of it when the ranks change: the residual of a compressed sum (error
 * feedback) is a sum over its ranks, and may begin anew; a random number's state may not. Such a buffer is named by
 * (strategy, name) already, so the edit table gets a function at its end. State without a description is what it is
 * today: saved by rank, and dropped when the mesh changes. */
#include <tessera/strategy.h>

#define ON_CHANGE_RESET 1u  /* zeros */
#define ON_CHANGE_KEEP 2u   /* ranks that go on keep theirs, new ones have zeros */
#define ON_CHANGE_REFUSE 3u /* ranks cannot change */

/* APPENDABLE. */
typedef struct tsr_state_description {
  uint32_t struct_size;
  uint32_t version;   /* of the contents: other versions are not loaded */
  uint32_t on_change; /* ON_CHANGE_* */
  uint32_t reserved;
  uint64_t home; /* its elements are those of this home, cut as it is; 0: the rank's own */
} tsr_state_description;

typedef struct tsr_edit_later {
  tsr_edit edit;
  /* `buffer`: a persistent one of this strategy. Errors: INVALID_ARGUMENT for another, and where a description of it in
   * another program differs. */
  TSR_FN(tsr_status, describe_state)
  (void* ctx, uint64_t buffer, const tsr_state_description* state, tsr_error* err) TSR_NOEXCEPT;
} tsr_edit_later;

tsr_status add_residual(const tsr_edit_later* later, const tsr_home* home, uint64_t* residual, tsr_error* err);
tsr_status add_residual(const tsr_edit_later* later, const tsr_home* home, uint64_t* residual, tsr_error* err) {
  const tsr_state_description state = {sizeof(tsr_state_description), 1, ON_CHANGE_RESET, 0, home->id};
  tsr_buffer buffer = {0};
  tsr_status status;
  buffer.num_elements = home->num_elements;
  buffer.name = home->name;
  buffer.kind = TSR_BUFFER_PLUGIN;
  buffer.memory = TSR_MEMORY_DEVICE;
  buffer.dtype = TSR_F32;
  buffer.flags = TSR_BUFFER_PERSISTENT;
  status = later->edit.add_buffer(later->edit.ctx, &buffer, residual, err);
  if (status != TSR_OK || later->edit.struct_size < TSR_END_OF(tsr_edit_later, describe_state)) return status;
  return later->describe_state(later->edit.ctx, *residual, &state, err);
}
