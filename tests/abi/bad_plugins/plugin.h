/* A strategy plugin, or with TEST_OFFLOAD an offload policy, that is right in every respect. Each file of this folder
 * defines one TEST_* macro, includes this, and is wrong in that one respect; the loader must refuse it. */
#include <string.h>

#include "tessera/offload.h"
#include "tessera/strategy.h"

#define TEST_STR(text) \
  { text, sizeof(text) - 1 }

#ifndef TEST_NAME
#define TEST_NAME "sample"
#endif
#ifdef TEST_OFFLOAD
#define TEST_KIND TSR_KIND_OFFLOAD
#define TEST_INTERFACE TSR_OFFLOAD_INTERFACE
#else
#define TEST_INTERFACE TSR_STRATEGY_INTERFACE
#endif
#ifndef TEST_KIND
#define TEST_KIND TSR_KIND_STRATEGY
#endif
#ifndef TEST_ID
#define TEST_ID "org.tessera.tests.sample"
#endif
#ifndef TEST_MAJOR
#define TEST_MAJOR TSR_ABI_MAJOR
#endif
#ifndef TEST_MINOR_MIN
#define TEST_MINOR_MIN TSR_ABI_MINOR
#endif
#ifndef TEST_MINOR_MAX
#define TEST_MINOR_MAX TSR_ABI_MINOR
#endif
#ifndef TEST_DEFAULT
#define TEST_DEFAULT "25"
#endif
#ifndef TEST_SECOND_OPTION
#define TEST_SECOND_OPTION "label"
#endif
#ifndef TEST_SPARE
#define TEST_SPARE 0
#endif
#ifndef TEST_OPTION_FLAGS
#define TEST_OPTION_FLAGS 0
#endif
#ifndef TEST_DESCRIPTOR_RESERVED
#define TEST_DESCRIPTOR_RESERVED 0
#endif
#ifndef TEST_FACTORY_RESERVED
#define TEST_FACTORY_RESERVED 0
#endif
#ifndef TEST_FLAGS
#define TEST_FLAGS 0
#endif
#ifndef TEST_SPLITS
#define TEST_SPLITS TSR_SPLITS_BATCH
#endif
#ifndef TEST_TABLE_SIZE
#define TEST_TABLE_SIZE sizeof kTable
#endif
#ifndef TEST_DESCRIPTOR_SIZE
#define TEST_DESCRIPTOR_SIZE sizeof(tsr_descriptor)
#endif
#ifndef TEST_LOWER
#define TEST_LOWER lower
#endif
#ifndef TEST_PLAN
#define TEST_PLAN plan
#endif
#ifndef TEST_STATUS
#define TEST_STATUS TSR_OK
#endif
#ifndef TEST_FACTORY
#define TEST_FACTORY &kFactory
#endif
#ifndef TEST_ON_GET_INTERFACE
#define TEST_ON_GET_INTERFACE
#endif
#ifndef TEST_ON_QUERY
#define TEST_ON_QUERY
#endif
#ifndef TEST_ON_CREATE
#define TEST_ON_CREATE
#endif
#ifndef TEST_ON_DESTROY
#define TEST_ON_DESTROY
#endif
#ifndef TEST_INSTANCE
#define TEST_INSTANCE NULL
#endif
#ifndef TEST_LAYOUT
#define TEST_LAYOUT NULL
#endif
#ifndef TEST_NUM_VARIANTS
#define TEST_NUM_VARIANTS NULL
#endif
#ifndef TEST_VERSION
#define TEST_VERSION TEST_STR("1.2.3")
#endif
#ifndef TEST_OPTIONS
#define TEST_OPTIONS kOptions
#endif
#ifndef TEST_TABLE
#define TEST_TABLE &kTable
#endif

#ifdef TEST_OFFLOAD
static tsr_status create(const tsr_offload_create_args* args, tsr_offload** policy, tsr_error* err) {
  (void)args, (void)err;
  *policy = NULL;
  return TSR_OK;
}
static void destroy(tsr_offload* policy) {
  (void)policy;
}
static inline tsr_status plan(tsr_offload* policy, const tsr_offload_view* view, const tsr_offload_sink* sink,
                              tsr_error* err) {
  (void)policy, (void)view, (void)sink, (void)err;
  return TSR_OK;
}
static const tsr_offload_interface kTable = {
    .struct_size = TEST_TABLE_SIZE, .flags = TEST_FLAGS, .create = create, .destroy = destroy, .plan = TEST_PLAN};
#else
static tsr_status create(const tsr_strategy_create_args* args, tsr_strategy** strategy, tsr_error* err) {
  (void)args, (void)err;
  TEST_ON_CREATE;
  *strategy = TEST_INSTANCE;
  return TSR_OK;
}
static void destroy(tsr_strategy* strategy) {
  (void)strategy;
  TEST_ON_DESTROY;
}
static inline tsr_status lower(tsr_strategy* strategy, const tsr_program_view* view, const tsr_edit* edit,
                               tsr_error* err) {
  (void)strategy, (void)view, (void)edit, (void)err;
  return TSR_OK;
}
static const tsr_strategy_interface kTable = {.struct_size = TEST_TABLE_SIZE,
                                              .role = TSR_STRATEGY_SPLIT_STORAGE,
                                              .splits = TEST_SPLITS,
                                              .flags = TEST_FLAGS,
                                              .create = create,
                                              .destroy = destroy,
                                              .num_variants = TEST_NUM_VARIANTS,
                                              .layout = TEST_LAYOUT,
                                              .lower = TEST_LOWER};
#endif

static const tsr_option kOptions[] = {
    {TEST_STR("bucket-mb"),
     TEST_STR(TEST_DEFAULT),
     {NULL, 0},
     TEST_STR("MiB per bucket"),
     1,
     1024,
     TSR_OPTION_INT,
     0,
     {0}},
    {TEST_STR("ratio"), TEST_STR("0.5"), {NULL, 0}, TEST_STR("a number"), 0, 1, TSR_OPTION_FLOAT, 0, {0}},
    {TEST_STR("eager"), TEST_STR("false"), {NULL, 0}, TEST_STR("a switch"), 1, 0, TSR_OPTION_BOOL, 0, {0}},
    {TEST_STR("mode"), TEST_STR("fast"), TEST_STR("fast|exact"), TEST_STR("a choice"), 1, 0, TSR_OPTION_STRING, 0, {0}},
    {TEST_STR(TEST_SECOND_OPTION),
     TEST_STR(""),
     {NULL, 0},
     TEST_STR("any text"),
     1,
     0,
     TSR_OPTION_STRING,
     TEST_OPTION_FLAGS,
     {0, TEST_SPARE}},
};
static const tsr_descriptor kDescriptor = {TEST_DESCRIPTOR_SIZE, TEST_DESCRIPTOR_RESERVED,
                                           TEST_STR(TEST_NAME),  TEST_STR(TEST_KIND),
                                           TEST_STR(TEST_ID),    TEST_VERSION,
                                           TEST_STR("Tests"),    TEST_STR("does nothing"),
                                           TEST_OPTIONS,         sizeof kOptions / sizeof kOptions[0]};

static const void* get_interface(tsr_str id) {
  TEST_ON_GET_INTERFACE;
#ifdef TEST_NO_INTERFACE
  (void)id;
#else
  if (id.len == sizeof(TEST_INTERFACE) - 1 && memcmp(id.ptr, TEST_INTERFACE, id.len) == 0) return TEST_TABLE;
#endif
  (void)kTable;
  return NULL;
}
static const tsr_factory kFactory = {sizeof(tsr_factory), TEST_FACTORY_RESERVED, &kDescriptor, get_interface};

#ifndef TEST_NO_ENTRY
TSR_EXPORT tsr_status tsr_plugin_query_v1(tsr_handshake* io, const tsr_host* host, const tsr_factory** factory,
                                          tsr_error* err) {
  (void)host, (void)err, (void)kFactory;
  io->plugin_abi_major = TEST_MAJOR;
  io->plugin_minor_min = TEST_MINOR_MIN;
  io->plugin_minor_max = TEST_MINOR_MAX;
  TEST_ON_QUERY;
  *factory = TEST_FACTORY;
  return TEST_STATUS;
}
#endif
