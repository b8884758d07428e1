// One source, several instruction sets: a file named in tessera_simd_sources() is compiled once per level, each time
// with TESSERA_SIMD naming another namespace, and the caller chooses by what the machine has.
//
//     // norm.h                                         // norm.cc, in tessera_simd_sources
//     TESSERA_SIMD_DECLARE(                             namespace tessera::cpu::TESSERA_SIMD {
//         void scale(float* x, size_t n, float f);)     void scale(float* x, size_t n, float f) { ... }
//                                                       }
//     // the caller
//     const auto scale = TESSERA_SIMD_CHOOSE(scale);
//
// Rules of such a source:
//  - Plain loops that the compiler vectorises, or the compiler's vector types. All levels give the same bits: FMA only
//    where it is written (__builtin_fma), and sums over a fixed number of lanes that does not depend on the level (`omp
//    simd reduction` only where every partial sum is exact).
//  - No inline function or template of other headers that may stay a call (std::vector, std::min): the linker keeps one
//    copy of it for the whole program, perhaps one with instructions that the machine lacks. __builtin_* are fine, and
//    so is everything defined inside the namespace TESSERA_SIMD.
#pragma once

namespace tessera::cpu {

enum class SimdLevel {
  kBaseline,  // any x86-64, and all other machines
  kV3,        // x86-64-v3: AVX2, FMA
  kV4,        // x86-64-v4: AVX-512
};

/// The highest level of this machine.
inline SimdLevel simd_level() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return SimdLevel::kV4;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    return SimdLevel::kV3;
#endif
  return SimdLevel::kBaseline;
}

}  // namespace tessera::cpu

#if defined(__x86_64__)
#define TESSERA_SIMD_DECLARE(...) \
  namespace simd_baseline {       \
  __VA_ARGS__                     \
  }                               \
  namespace simd_v3 {             \
  __VA_ARGS__                     \
  }                               \
  namespace simd_v4 {             \
  __VA_ARGS__                     \
  }
/// The address of `function` at `level`; SimdLevels above the machine's must not be called.
#define TESSERA_SIMD_AT(level, function)                                            \
  ((level) == ::tessera::cpu::SimdLevel::kV4   ? &::tessera::cpu::simd_v4::function \
   : (level) == ::tessera::cpu::SimdLevel::kV3 ? &::tessera::cpu::simd_v3::function \
                                               : &::tessera::cpu::simd_baseline::function)
#else
#define TESSERA_SIMD_DECLARE(...) \
  namespace simd_baseline {       \
  __VA_ARGS__                     \
  }
#define TESSERA_SIMD_AT(level, function) ((void)(level), &::tessera::cpu::simd_baseline::function)
#endif
#define TESSERA_SIMD_CHOOSE(function) TESSERA_SIMD_AT(::tessera::cpu::simd_level(), function)
