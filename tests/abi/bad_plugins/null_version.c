/* A text of five bytes, and no pointer to it. */
#define TEST_VERSION \
  { NULL, 5 }
#include "plugin.h"
