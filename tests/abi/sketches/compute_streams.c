/* A second compute stream: experts beside attention. It is a stream like any other whose kind says what it is for, so a
 * pass that looks for compute asks for kinds, never for indices. The edit table would get a function at its end. */
#include <tessera/strategy.h>

typedef struct tsr_edit_later {
  tsr_edit edit;
  /* A stream of the device, by name; made on first use. */
  TSR_FN(tsr_status, add_device_stream)(void* ctx, tsr_str name, uint32_t* stream, tsr_error* err) TSR_NOEXCEPT;
} tsr_edit_later;

extern const tsr_stream_info kStreams[];
const tsr_stream_info kStreams[] = {
    {{"compute", 7}, TSR_WORLD_AXIS, TSR_STREAM_KIND_DEVICE, {0}},
    {{"copy_in", 7}, TSR_WORLD_AXIS, TSR_STREAM_KIND_DEVICE, {0}},
    {{"copy_out", 8}, TSR_WORLD_AXIS, TSR_STREAM_KIND_DEVICE, {0}},
    {{"experts", 7}, TSR_WORLD_AXIS, TSR_STREAM_KIND_DEVICE, {0}},
    {{"comm.ep.tokens", 14}, 0, TSR_STREAM_KIND_COMM, {0}},
};

uint64_t num_collectives_of(const tsr_program_view* view, uint32_t kind);
uint64_t num_collectives_of(const tsr_program_view* view, uint32_t kind) {
  uint64_t count = 0;
  for (uint64_t i = 0; i < view->num_actions; ++i)
    count += view->streams[view->actions[i].stream].kind == kind;
  return count;
}

tsr_status move_experts(const tsr_program_view* view, const tsr_edit_later* later, tsr_error* err);
tsr_status move_experts(const tsr_program_view* view, const tsr_edit_later* later, tsr_error* err) {
  const tsr_str name = {"experts", 7};
  uint32_t stream;
  if (!TSR_HAS_FN(&later->edit, tsr_edit, wait_for) || view->num_streams == 0) return TSR_E_UNSUPPORTED;
  return later->add_device_stream(later->edit.ctx, name, &stream, err);
}
