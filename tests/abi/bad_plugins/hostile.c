/* A strategy that does to its host, in the place that TESSERA_TEST_FAULT names, what faults.h can, or hands it pointers
 * that lie. */
#include "faults.h"

#include <sys/mman.h>

void throw_in_cpp(void);
void throw_on_a_thread(void);
void change_locale_in_cpp(void);

#define TEST_NAME "hostile"
#define TEST_ON_QUERY at("query"), on_query(host)
#define TEST_ON_GET_INTERFACE at("interface")
#define TEST_ON_CREATE at("create"), on_create(args)
#define TEST_ON_DESTROY at("destroy"), on_destroy()
#define TEST_LAYOUT hostile_layout
#define TEST_LOWER hostile_lower
#define TEST_NUM_VARIANTS num_variants
#define TEST_TABLE table_of_host()
#define TEST_INSTANCE ((tsr_strategy*)&faults_zero)

static inline void at(const char* place) {
  faults_at(place);
  if (is_fault(place, "throw")) throw_in_cpp();
  if (is_fault(place, "throwing-thread")) throw_on_a_thread();
  if (is_fault(place, "cpp-locale")) change_locale_in_cpp();
}
__attribute__((constructor)) static void on_load(void) {
  at("load");
}

#include "tessera/strategy.h"

/* Tables that were lent to it, used after the loan or on another thread. */
static const tsr_edit* kept_edit = NULL;
static const tsr_host* kept_host = NULL;
static const tsr_layout_sink* kept_sink = NULL;

static void* collect_garbage(void* edit) {
  tsr_error err = {0};
  ((const tsr_edit*)edit)->collect_garbage(((const tsr_edit*)edit)->ctx, &err);
  return NULL;
}
/* Its table, in a page that is gone when the first instance is made. */
static const void* table_of_host(void);
static void* table_page = NULL;

static inline void log_to_kept_host(void) {
  const tsr_str text = {"am I late?", 10};
  kept_host->log(kept_host->ctx, TSR_LOG_INFO, text);
}
static inline void on_query(const tsr_host* host) {
  if (is_fault("keep", "query-host")) kept_host = host;
}
static inline void on_create(const tsr_strategy_create_args* args) {
  if (is_fault("lower", "jump")) faults_jump(1);
  if (table_page) munmap(table_page, 4096);
  if (is_fault("keep", "query-host")) log_to_kept_host();
  if (is_fault("keep", "host")) kept_host = args->host;
}
static inline void on_destroy(void) {
  tsr_error err = {0};
  const tsr_layout_entry entry = {0};
  if (kept_edit) collect_garbage((void*)kept_edit);
  if (kept_sink) kept_sink->add_entry(kept_sink->ctx, &entry, &err);
}
__attribute__((destructor)) static void on_exit_of_process(void) {
  if (kept_host) log_to_kept_host();
}
/* Through pointers that are const. */
static void write_model(const char* place, const tsr_program_view* view) {
  if (is_fault(place, "write-name")) ((char*)view->parameters[0].name.ptr)[0] ^= 1;
  if (is_fault(place, "write-dims")) ((tsr_dim*)view->parameters[0].dims)[0].extent += 1;
}
static tsr_status hostile_layout(tsr_strategy* strategy, const tsr_program_view* view, const tsr_layout_sink* sink,
                                 tsr_error* err) {
  (void)strategy, (void)err;
  if (is_fault("keep", "sink")) kept_sink = sink;
  write_model("layout", view);
  return TSR_OK;
}
static void misuse(const tsr_edit* edit) {
  pthread_t thread;
  if (is_fault("keep", "edit")) kept_edit = edit;
  if (is_fault("keep", "thread") && pthread_create(&thread, NULL, collect_garbage, (void*)edit) == 0)
    pthread_join(thread, NULL);
}

static uint32_t num_variants(tsr_strategy* strategy) {
  (void)strategy;
  static uint32_t num_calls = 0;
  faults_at("variants");
  if (is_fault("variants", "growing")) return __sync_add_and_fetch(&num_calls, 1);
  return is_fault("variants", "many") ? 1000000000u : 1;
}

/* Edits with pointers that are NULL or lie; the host's refusal goes on to the host. */
static tsr_status lying_edit(const tsr_program_view* view, const tsr_edit* edit, tsr_error* err) {
  tsr_binding one = {0};
  tsr_action action = {.kind = TSR_ACTION_ZERO,
                       .segment = -1,
                       .micro_batch = -1,
                       .group = -1,
                       .peer = -1,
                       .strategy = -1,
                       .bindings = &one,
                       .num_bindings = 1};
  tsr_group group = {.axis = view->axis, .num_coordinates = 2};
  tsr_buffer buffer = {.num_elements = 4, .kind = TSR_BUFFER_PLUGIN, .memory = 0, .dtype = TSR_F32};
  tsr_home home = {.num_pieces = 3};
  uint64_t id = 0;
  int32_t index = 0;
  uint32_t stream = 0;
  const char* fault = fault_at("edit");
  if (strcmp(fault, "null-bindings") == 0) action.bindings = NULL;
  if (strcmp(fault, "wild-bindings") == 0) action.bindings = (const tsr_binding*)(size_t)64;
  if (strcmp(fault, "many-bindings") == 0) action.num_bindings = 1 << 24;
  if (strcmp(fault, "wrapping-bindings") == 0) action.num_bindings = UINT64_C(1) << 60;
  if (strcmp(fault, "past-end") == 0) action.num_bindings = 1 << 22;
  if (strcmp(fault, "null-action") == 0) return edit->insert(edit->ctx, 0, TSR_AFTER, NULL, &id, err);
  if (strcmp(fault, "null-id") == 0) return edit->insert(edit->ctx, 0, TSR_AFTER, &action, NULL, err);
  if (strcmp(fault, "null-group") == 0) return edit->add_group(edit->ctx, NULL, &index, err);
  if (strcmp(fault, "null-coordinates") == 0) return edit->add_group(edit->ctx, &group, &index, err);
  if (strcmp(fault, "null-buffer") == 0) return edit->add_buffer(edit->ctx, NULL, &id, err);
  buffer.name.ptr = "endless";
  buffer.name.len = UINT64_C(1) << 40;
  if (strcmp(fault, "endless-name") == 0) return edit->add_buffer(edit->ctx, &buffer, &id, err);
  if (strcmp(fault, "null-lane") == 0) return edit->add_stream(edit->ctx, view->axis, (tsr_str){NULL, 5}, &stream, err);
  if (strcmp(fault, "null-homes") == 0) return edit->replace_homes(edit->ctx, NULL, 3, NULL, &id, err);
  if (strcmp(fault, "null-pieces") == 0) return edit->replace_homes(edit->ctx, NULL, 0, &home, &id, err);
  if (strcmp(fault, "null-halves") == 0) return edit->split_backward(edit->ctx, 1, NULL, NULL, err);
  if (strcmp(fault, "null-order") == 0) return edit->order(edit->ctx, NULL, 3, err);
  if (strcmp(fault, "null-place") == 0) return edit->set_role(edit->ctx, 1, NULL, err);
  if (strcmp(fault, "null-binding") == 0) return edit->bind(edit->ctx, 1, NULL, err);
  if (strcmp(fault, "unmapped") == 0 || strcmp(fault, "protected") == 0) {
    tsr_binding* const page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    action.bindings = page;
    (void)edit->insert(edit->ctx, 0, TSR_AFTER, &action, &id, err); /* read once */
    if (strcmp(fault, "unmapped") == 0) munmap(page, 4096);
    if (strcmp(fault, "protected") == 0) mprotect(page, 4096, PROT_NONE);
  }
  return fault[0] ? edit->insert(edit->ctx, 0, TSR_AFTER, &action, &id, err) : TSR_OK;
}

static tsr_status hostile_lower(tsr_strategy* strategy, const tsr_program_view* view, const tsr_edit* edit,
                                tsr_error* err) {
  (void)strategy;
  at("lower");
  misuse(edit);
  write_model("lower", view);
  if (is_fault("lower", "protect-view")) /* what the host frees later */
    mprotect((void*)((size_t)view->actions & ~(size_t)4095), 4096, PROT_NONE);
  if (is_fault("lower", "endless-message")) {
    memset(err, 'A', sizeof *err);
    return TSR_E_UNKNOWN;
  }
  return lying_edit(view, edit, err);
}

#include "plugin.h"

static const void* table_of_host(void) {
  if (!is_fault("table", "gone")) return &kTable;
  if (!table_page) table_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memcpy(table_page, &kTable, sizeof kTable);
}
