#include "arithmetic.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "tessera/half.hpp"

namespace nccl_on_cpu {
namespace {

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

template <class T>
T load(const T& value) {
  return value;
}
float load(Half value) {
  return tessera::f16_to_float(value.bits);
}
float load(Bfloat value) {
  return tessera::bf16_to_float(value.bits);
}
template <class T>
void store(T& to, T value) {
  to = value;
}
void store(Half& to, float value) {
  to.bits = tessera::float_to_f16(value);
}
void store(Bfloat& to, float value) {
  to.bits = tessera::float_to_bf16(value);
}

template <class Stored>
Stored combine(ncclRedOp_t op, Stored a, Stored b) {
  using Value = decltype(load(a));
  const Value x = load(a), y = load(b);
  Stored result{};
  switch (op) {
    case ncclMin:
      store(result, std::min(x, y));
      break;
    case ncclMax:
      store(result, std::max(x, y));
      break;
    default:
      store(result, static_cast<Value>(x + y));
  }
  return result;
}

template <class Stored>
Stored operand(ncclRedOp_t op, Stored value, size_t num_operands) {
  if (op != ncclAvg) return value;
  using Value = decltype(load(value));
  Stored factor{};
  store(factor, static_cast<Value>(1.0 / static_cast<double>(num_operands)));
  store(value, static_cast<Value>(load(value) * load(factor)));
  return value;
}

template <class Stored>
void reduce_as(ncclRedOp_t op, const std::vector<const void*>& operands, size_t first, size_t n, void* recv) {
  const auto at = [&](size_t rank, size_t i) {
    return operand(op, static_cast<const Stored*>(operands[rank % operands.size()])[i], operands.size());
  };
  // As NCCL 2.28.9 does on a GPU: the last of an odd number of float64 stays unwritten.
  if (op == ncclAvg && operands.size() == 1 && sizeof(Stored) == 8 && n > 4096) n -= n % 2;
  for (size_t i = 0; i < n; ++i) {
    Stored sum = at(first, i);
    for (size_t step = 1; step < operands.size(); ++step)
      sum = combine(op, sum, at(first + step, i));
    static_cast<Stored*>(recv)[i] = sum;
  }
}

}  // namespace

size_t bytes_of(ncclDataType_t dtype) {
  switch (dtype) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

void reduce(ncclDataType_t dtype, ncclRedOp_t op, const std::vector<const void*>& operands, size_t first, size_t n,
            void* recv) {
  switch (dtype) {
    case ncclInt8:
      return reduce_as<int8_t>(op, operands, first, n, recv);
    case ncclUint8:
      return reduce_as<uint8_t>(op, operands, first, n, recv);
    case ncclInt32:
      return reduce_as<int32_t>(op, operands, first, n, recv);
    case ncclUint32:
      return reduce_as<uint32_t>(op, operands, first, n, recv);
    case ncclInt64:
      return reduce_as<int64_t>(op, operands, first, n, recv);
    case ncclUint64:
      return reduce_as<uint64_t>(op, operands, first, n, recv);
    case ncclFloat16:
      return reduce_as<Half>(op, operands, first, n, recv);
    case ncclBfloat16:
      return reduce_as<Bfloat>(op, operands, first, n, recv);
    case ncclFloat32:
      return reduce_as<float>(op, operands, first, n, recv);
    case ncclFloat64:
      return reduce_as<double>(op, operands, first, n, recv);
    default:
      throw std::invalid_argument("nccl_on_cpu: a dtype that is not emulated");
  }
}

}  // namespace nccl_on_cpu
