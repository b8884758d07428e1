// oneDNN splits a product, including its inner dim, by the number of OpenMP threads, both at creation and when it runs
// outside a parallel region. So each is created for one thread and run by one; a kernel with several threads cuts the
// result into tiles (tiles.h).
//
// Without AMX the inner dim is processed in steps, each of which sgemm adds to c:
//
//     each a [m, 512] -> float32 scratch
//     each b [512, n] -> float32 scratch   -> c += a b      with each a
//
// Widening is a tenth of the time if each product widens its own operands and waits for their lines to come from
// memory.
#include "cpu-device/kernels/bf16/product.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cpu-device/kernels/bf16/rows.h"
#include "tessera/error.hpp"
#include "tessera/ranges.hpp"

namespace tessera::cpu {
namespace {

using dnnl::memory;

const dnnl::engine& engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::desc describe_matrix(uint64_t rows, uint64_t columns, memory::data_type type, uint64_t stride,
                             bool transposed) {
  const auto dim = [](uint64_t extent) { return static_cast<memory::dim>(extent); };
  const memory::dims strides = transposed ? memory::dims{1, dim(stride)} : memory::dims{dim(stride), 1};
  return {{dim(rows), dim(columns)}, type, strides};
}

/// Limits this thread to one OpenMP thread while it lives.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};

dnnl::matmul::primitive_desc describe_product(const memory::desc& a, const memory::desc& b, const memory::desc& c,
                                              bool accumulate) {
  dnnl::post_ops after;
  if (accumulate) after.append_sum(1.0f);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {dnnl::matmul::desc(a, b, c), attributes, engine()};
}

/// The scratch memory of a thread. The library's own would bind a product to the thread that made it.
class Worker {
 public:
  dnnl::stream& stream() { return stream_; }
  /// At least that many bytes, from a multiple of a page on.
  void* scratch(size_t num_bytes) {
    constexpr size_t kPage = 4096;
    if (num_bytes > num_bytes_) {
      num_bytes_ = 0;
      scratch_.reset(std::aligned_alloc(kPage, round_up(num_bytes, kPage)));
      if (!scratch_) throw std::bad_alloc();
      num_bytes_ = num_bytes;
    }
    return scratch_.get();
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  dnnl::stream stream_{engine()};
  std::unique_ptr<void, Free> scratch_;
  size_t num_bytes_ = 0;
};

Worker& this_worker() {
  thread_local Worker worker;
  return worker;
}

/// Lines are far apart, so the processor does not foresee the next one.
void prefetch_line(const uint16_t* line, uint64_t length) {
  constexpr uint64_t kCacheLine = 64 / sizeof *line;
  for (uint64_t i = 0; i < length; i += kCacheLine)
    __builtin_prefetch(line + i);
}

/// A cache line between the lines of what is widened: without it those of a tile are a power of two apart, so that a
/// column of them falls into few sets of the cache.
constexpr uint64_t kPadding = 64 / sizeof(float);

/// Elements of scratch for a matrix of rows x columns, however it lies.
uint64_t widened_elements(uint64_t rows, uint64_t columns) {
  return (rows + kPadding) * (columns + kPadding);
}

/// The matrix of rows x columns, in float32, as it lies.
ConstMatrix widen_part(const uint16_t* matrix, uint64_t rows, uint64_t columns, Bf16Layout layout, float* wide) {
  const auto [lines, length] = layout.transposed ? std::pair(columns, rows) : std::pair(rows, columns);
  constexpr uint64_t kLinesAhead = 4;
  for (uint64_t line = 0; line < lines; ++line) {
    if (line + kLinesAhead < lines) prefetch_line(matrix + (line + kLinesAhead) * layout.stride, length);
    widen(matrix + line * layout.stride, length, wide + line * (length + kPadding));
  }
  return {wide, length + kPadding, layout.transposed};
}

}  // namespace

bool has_amx() {
  constexpr int kBits = dnnl_cpu_isa_avx512_core_amx;
  static const bool has_tiles = (dnnl_get_effective_cpu_isa() & kBits) == kBits;
  return has_tiles;
}

Bf16Product::Bf16Product(ProductExtents extents, Bf16Layout a, Bf16Layout b, uint64_t c_stride, bool accumulate)
    : extents_(extents), layout_a_(a), layout_b_(b), c_stride_(c_stride), accumulate_(accumulate) {
  if (!has_amx()) return;
  a_ = describe_matrix(extents.m, extents.k, memory::data_type::bf16, a.stride, a.transposed);
  b_ = describe_matrix(extents.k, extents.n, memory::data_type::bf16, b.stride, b.transposed);
  c_ = describe_matrix(extents.m, extents.n, memory::data_type::f32, c_stride, false);
  const OneThread one_thread;
  try {
    const auto described = describe_product(a_, b_, c_, accumulate);
    scratch_ = described.scratchpad_desc();
    product_ = dnnl::matmul(described);
  } catch (const dnnl::error& error) {
    throw Error(TSR_E_INTERNAL, "oneDNN has no bfloat16 product of " + std::to_string(extents.m) + " x " +
                                    std::to_string(extents.k) + " by " + std::to_string(extents.k) + " x " +
                                    std::to_string(extents.n) + ": " + error.what());
  }
}

void Bf16Product::run(const uint16_t* a, const uint16_t* b, float* c) const {
  const Result result{this, c};
  run_all({&a, 1}, {&b, 1}, {&result, 1});
}

void Bf16Product::run_all(std::span<const uint16_t* const> a, std::span<const uint16_t* const> b,
                          std::span<const Result> results) {
  const OneThread one_thread;
  if (!has_amx()) return widen_and_multiply(a, b, results);
  for (size_t i = 0; i < results.size(); ++i)
    results[i].product->multiply(a[i % a.size()], b[i / a.size()], results[i].c);
}

void Bf16Product::multiply(const uint16_t* a, const uint16_t* b, float* c) const {
  const auto bind = [](const memory::desc& desc, const void* data) {
    return memory(desc, engine(), const_cast<void*>(data));
  };
  Worker& worker = this_worker();
  try {
    product_.execute(worker.stream(), {{DNNL_ARG_SRC, bind(a_, a)},
                                       {DNNL_ARG_WEIGHTS, bind(b_, b)},
                                       {DNNL_ARG_DST, bind(c_, c)},
                                       {DNNL_ARG_SCRATCHPAD, bind(scratch_, worker.scratch(scratch_.get_size()))}});
  } catch (const dnnl::error& error) {
    throw Error(TSR_E_INTERNAL, std::string("oneDNN's bfloat16 product failed: ") + error.what());
  }
}

void Bf16Product::widen_and_multiply(std::span<const uint16_t* const> a, std::span<const uint16_t* const> b,
                                     std::span<const Result> results) {
  constexpr uint64_t kStep = 512;
  const auto of = [&](size_t i, size_t j) -> const Bf16Product& { return *results[j * a.size() + i].product; };
  const Bf16Layout layout_a = of(0, 0).layout_a_, layout_b = of(0, 0).layout_b_;
  const uint64_t k = of(0, 0).extents_.k;
  const uint64_t longest = std::min(kStep, k);
  uint64_t of_a = 0, of_b = 0;  // elements of scratch
  for (size_t i = 0; i < a.size(); ++i)
    of_a += widened_elements(of(i, 0).extents_.m, longest);
  for (size_t j = 0; j < b.size(); ++j)
    of_b = std::max(of_b, widened_elements(longest, of(0, j).extents_.n));
  float* const wide = static_cast<float*>(this_worker().scratch((of_a + of_b) * sizeof(float)));
  std::vector<ConstMatrix> wide_a(a.size());
  for (uint64_t first = 0; first < k; first += kStep) {
    const uint64_t step = std::min(kStep, k - first);
    float* free = wide;
    for (size_t i = 0; i < a.size(); ++i) {
      const uint64_t m = of(i, 0).extents_.m;
      wide_a[i] = widen_part(a[i] + first * (layout_a.transposed ? layout_a.stride : 1), m, step, layout_a, free);
      free += widened_elements(m, step);
    }
    for (size_t j = 0; j < b.size(); ++j) {
      const uint64_t n = of(0, j).extents_.n;
      const ConstMatrix wide_b =
          widen_part(b[j] + first * (layout_b.transposed ? 1 : layout_b.stride), step, n, layout_b, free);
      for (size_t i = 0; i < a.size(); ++i) {
        const Bf16Product& product = of(i, j);
        matmul({product.extents_.m, n, step}, wide_a[i], wide_b, {results[j * a.size() + i].c, product.c_stride_},
               product.accumulate_ || first > 0, 1);
      }
    }
  }
}

}  // namespace tessera::cpu
