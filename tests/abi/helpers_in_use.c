/* A plugin that uses what is a macro or is inlined in helpers.h: a compiler has its say only where it is used, and with
 * optimization. headers_test.sh compiles this as C and as C++. */
#include <stdio.h>
#include <tessera/helpers.h>

tsr_status refuse(tsr_error* err, int number);
tsr_status refuse(tsr_error* err, int number) {
  char text[sizeof err->message];
  snprintf(text, sizeof text, "there are %d, and there may be one; give one", number);
  return tsr_fail(err, TSR_E_INVALID_ARGUMENT, "sample", text);
}

tsr_action nothing(void);
tsr_action nothing(void) {
  tsr_action action = TSR_ACTION_INIT;
  return action;
}

static const tsr_descriptor kDescriptor = {sizeof(tsr_descriptor),
                                           0,
                                           TSR_STR("sample"),
                                           TSR_STR(TSR_KIND_STRATEGY),
                                           TSR_STR("com.example.sample"),
                                           TSR_STR("1"),
                                           TSR_STR("Example"),
                                           TSR_STR("a sample"),
                                           NULL,
                                           0};
static const int kInterface = 1;

TSR_DEFINE_PLUGIN("sample", kDescriptor, "sample", kInterface)
