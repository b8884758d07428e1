#define TEST_ON_QUERY io->magic ^= (uint64_t)missing_from_every_library()
int missing_from_every_library(void);
#include "plugin.h"
