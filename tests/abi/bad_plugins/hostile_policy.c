/* An offload policy that does what faults.h can, or uses the sink on a thread of its own. */
#include "faults.h"

#define TEST_NAME "hostile"
#define TEST_OFFLOAD
#define TEST_PLAN hostile_plan

#include "tessera/offload.h"

static void* answer(void* sink) {
  const tsr_leave leave = {0};
  tsr_error err = {0};
  ((const tsr_offload_sink*)sink)->leave(((const tsr_offload_sink*)sink)->ctx, &leave, &err);
  return NULL;
}
static tsr_status hostile_plan(tsr_offload* policy, const tsr_offload_view* view, const tsr_offload_sink* sink,
                               tsr_error* err) {
  (void)policy, (void)err;
  pthread_t thread;
  faults_at("plan");
  if (is_fault("plan", "write-binding")) ((tsr_binding*)view->program->actions[0].bindings)[0].num_elements -= 1;
  if (is_fault("plan", "write-visit")) ((tsr_visit*)view->visits)[0].last_action += 1;
  if (is_fault("keep", "thread") && pthread_create(&thread, NULL, answer, (void*)sink) == 0) pthread_join(thread, NULL);
  return TSR_OK;
}

__attribute__((destructor)) static void on_unload(void) {
  faults_at("unload");
}

#include "plugin.h"
