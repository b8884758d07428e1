#include "exec/self_test/tested_device.h"

#include <algorithm>
#include <cstring>

#include "base/concat.h"
#include "guard/known_functions.h"
#include "tessera/error.hpp"
#include "tessera/half.hpp"

namespace tessera::host {
namespace {

template <class T>
void put(std::byte* at, size_t index, T value) {
  std::memcpy(at + index * sizeof value, &value, sizeof value);
}
template <class T>
T get(const std::byte* at, size_t index) {
  T value;
  std::memcpy(&value, at + index * sizeof value, sizeof value);
  return value;
}

void store(tsr_dtype dtype, double value, size_t index, std::byte* at) {
  if (dtype == TSR_F32) put(at, index, static_cast<float>(value));
  if (dtype == TSR_F64) put(at, index, value);
  if (dtype == TSR_BF16) put(at, index, float_to_bf16(static_cast<float>(value)));
  if (dtype == TSR_I64) put(at, index, static_cast<int64_t>(value));
}

double load(tsr_dtype dtype, size_t index, const std::byte* at) {
  if (dtype == TSR_F32) return static_cast<double>(get<float>(at, index));
  if (dtype == TSR_F64) return get<double>(at, index);
  if (dtype == TSR_BF16) return static_cast<double>(bf16_to_float(get<uint16_t>(at, index)));
  return static_cast<double>(get<int64_t>(at, index));
}

}  // namespace

TestedDevice::TestedDevice(const Device& device, int64_t timeout_ms)
    : device_(device),
      timeout_ms_(timeout_ms),
      host_(device, TSR_MEMORY_HOST, kBytes),
      memory_(device, TSR_MEMORY_DEVICE, kBytes),
      done_(make_event(device)),
      works_(make_stream(device, "self-test")),
      reads_(make_stream(device, "self-test results")) {}

void TestedDevice::op(const char* name, const tsr_op& op, const std::vector<TestedOperand>& operands) {
  std::vector<tsr_slot_spec> described, slots;
  try {
    described = describe(api(), op);
  } catch (const Error& e) {
    if (e.code() == TSR_E_UNSUPPORTED) return;
    throw;
  }
  std::vector<void*> pointers;
  for (tsr_slot_spec& slot : described) {
    const auto given = std::ranges::find(operands, slot.slot, &TestedOperand::slot);
    if (given != operands.end()) {
      slot.mode = given->mode;
      pointers.push_back(memory(static_cast<uint64_t>(given - operands.begin()) * kOperandBytes));
    } else if (slot.flags & TSR_SLOT_OPTIONAL) {
      continue;
    } else {  // its own workspace
      pointers.push_back(allocate(TSR_MEMORY_DEVICE, TSR_NUM_BYTES(slot.dtype, slot.num_elements)));
    }
    slot.flags = 0;
    slots.push_back(slot);
  }
  kernels_.push_back(make_kernel(device_, op, slots));
  write(operands);
  call(api().launch, kernels_.back().get(), works(), pointers.data(), pointers.size());
  read();
  for (size_t i = 0; i < operands.size(); ++i)
    compare(name, operands[i], host(i * kOperandBytes));
}

std::byte* TestedDevice::allocate(uint32_t memory, uint64_t num_bytes) {
  return allocations_.emplace_back(device_, memory, num_bytes).at(0);
}

void TestedDevice::wait(tsr_stream* stream) const {
  synchronize(device_, stream, timeout_ms_);
}

// The memory that was copied from is cleared by the host in between.
void TestedDevice::read() const {
  call(api().event_record, done(), works());
  call(api().stream_wait, reads(), done());
  wait(works());
  std::fill_n(host(), kBytes, std::byte{0xEE});
  call(api().copy, reads(), host(), memory(), kBytes);
  wait(reads());
}

bool TestedDevice::has_ended(tsr_stream* stream, int64_t timeout_ms) const {
  tsr_error err{};
  const auto function = api().stream_synchronize;
  const tsr_status status = enter_for(timeout_ms, function, stream, timeout_ms, &err);
  if (status != TSR_OK && status != TSR_IN_PROGRESS) check_call(status, err, address_of(function));
  return status == TSR_OK;
}

std::string TestedDevice::refusal(const std::string& what, const std::string& problem) const {
  return concat(plugin_text(address_of(api().open)), " fails its self-test: ", what, " ", problem,
                ", and reported no error; use another --device");
}

void TestedDevice::refuse(const std::string& what, const std::string& problem) const {
  const std::string text = refusal(what, problem);
  note_error(text);  // its streams are destroyed next, and may hang
  throw Error(TSR_E_INTERNAL, text);
}

void TestedDevice::write(const std::vector<TestedOperand>& operands) const {
  std::fill_n(host(), kBytes, std::byte{0xFF});
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t k = 0; k < operands[i].before.size(); ++k)
      store(operands[i].dtype, operands[i].before[k], k, host(i * kOperandBytes));
  call(api().copy, works(), memory(), host(), kBytes);
}

void TestedDevice::compare(const char* name, const TestedOperand& operand, const std::byte* got) const {
  const auto text = [&](double value) { return format(operand.dtype == TSR_F64 ? "%.17g" : "%.9g", value); };
  for (size_t k = 0; k < operand.after.size(); ++k)
    if (const double result = load(operand.dtype, k, got); result != operand.after[k])
      refuse(name, concat("gave ", text(result), " instead of ", text(operand.after[k]), " in element ", k));
}

}  // namespace tessera::host
