/* Answers with the magic number of another interface. */
#define TEST_ON_QUERY io->magic = 0x1234
#include "plugin.h"
