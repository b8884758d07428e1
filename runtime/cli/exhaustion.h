// Running out of memory, said as what it is.
#pragma once

namespace tessera::host {

/// At the start of a program: memory that cannot be had becomes a std::bad_alloc whose what() is a sentence for users,
/// and what throwing needs is loaded while there is room for it (glibc ends a process that cannot load libgcc_s).
void prepare_for_exhaustion();

}  // namespace tessera::host
