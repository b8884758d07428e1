/* What g++ makes of statics in inline functions without -fno-gnu-unique. */
#include "plugin.h"
__asm__(
    ".data\n.globl shared_by_all\n.type shared_by_all, @gnu_unique_object\n.size shared_by_all, 4\n"
    "shared_by_all: .long 0\n.previous\n");
