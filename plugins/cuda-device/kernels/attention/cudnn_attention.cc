// Attention through cuDNN: plans are made in prepare, once for all ops of one form, and executed in launch. All layers
// of a model have one form, so a plan, for which cuDNN may compile kernels, is made once for forward and once for
// backward.
//
// A backward may be taken in parts (attention_parts.h): the same plan is executed with other pointers for some
// sequences and heads at a time, so that the scratch of the deterministic algorithm stays below 512 MiB. Launches whose
// operands are not aligned for cuDNN's vector loads run on the plain kernels, which every object here has beside its
// plan.
#include <map>

#include "cuda-device/kernels/attention/attention_gradient.h"
#include "cuda-device/kernels/attention/attention_plain.h"
#include "cuda-device/kernels/attention/cudnn_graphs.h"
#include "cuda-device/libraries/cudnn.h"

namespace tessera::cuda {
namespace {

using VariantPack = std::unordered_map<int64_t, void*>;

// `address`, so many 16-bit elements on.
void* element(void* address, int64_t offset) {
  return static_cast<char*>(address) + 2 * offset;
}

// cuDNN's kernels read 16 bytes at a time. Operands that are not so aligned are left to `plain`.
bool are_aligned(void* const* pointers, size_t count) {
  return std::all_of(pointers, pointers + count,
                     [](void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; });
}

class Forward : public Kernel {
 public:
  Forward(cudnnHandle_t handle, const AttentionShape& shape, CudnnPlan plan, std::span<const tsr_slot_spec> slots,
          std::unique_ptr<Kernel> plain)
      : handle_(handle),
        shape_(shape),
        plan_(std::move(plan)),
        num_slots_(slots.size()),
        qkv_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        log_sum_(op::find_operand(slots, TSR_ROLE_SAVED, 0)),
        scratch_(op::find_operand(slots, TSR_ROLE_WORKSPACE, 0)),
        plain_(std::move(plain)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    if (!are_aligned(pointers, num_slots_)) return plain_->launch(stream, pointers);
    void* qkv = qkv_.in<void>(pointers);
    VariantPack pack{{kCudnnQ, qkv},
                     {kCudnnK, element(qkv, shape_.width())},
                     {kCudnnV, element(qkv, 2 * shape_.width())},
                     {kCudnnOutput, output_.in<void>(pointers)}};
    auto* const scratch = scratch_.in<char>(pointers);
    pack[kCudnnStatistics] = log_sum_.is_bound() ? log_sum_.in<void>(pointers) : scratch + kCudnnForwardBytes;
    execute_cudnn(handle_, stream, plan_, pack, scratch);
  }

 private:
  const cudnnHandle_t handle_;
  const AttentionShape shape_;
  const CudnnPlan plan_;
  const size_t num_slots_;
  const op::Operand qkv_, output_, log_sum_, scratch_;
  const std::unique_ptr<Kernel> plain_;
};

class Backward : public Kernel {
 public:
  Backward(cudnnHandle_t handle, const CudnnAttention& attention, CudnnPlan plan, std::span<const tsr_slot_spec> slots,
           std::unique_ptr<Kernel> plain)
      : handle_(handle),
        attention_(attention),
        plan_(std::move(plan)),
        num_slots_(slots.size()),
        qkv_(op::find_operand(slots, TSR_ROLE_INPUT, 0)),
        output_(op::find_operand(slots, TSR_ROLE_OUTPUT, 0)),
        log_sum_(op::find_operand(slots, TSR_ROLE_SAVED, 0)),
        output_gradient_(op::find_operand(slots, TSR_ROLE_OUTPUT_GRADIENT, 0)),
        gradient_(op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0)),
        scratch_(op::find_operand(slots, TSR_ROLE_WORKSPACE, 0)),
        plain_(std::move(plain)) {}

  void launch(cudaStream_t stream, void* const* pointers) override {
    if (!are_aligned(pointers, num_slots_)) return plain_->launch(stream, pointers);
    const AttentionPart& part = attention_.part;
    for (int64_t sequence = 0; sequence < attention_.shape.batch; sequence += part.batch)
      for (int64_t head = 0; head < attention_.shape.heads; head += part.heads)
        launch_part(stream, pointers, sequence, head);
  }

 private:
  // Pointers of a part: strides are those of the whole tensors, so a part begins where its first head does. Only a
  // gradient that is added to is packed, in scratch after cuDNN's own.
  void launch_part(cudaStream_t stream, void* const* pointers, int64_t sequence, int64_t head) const {
    const AttentionShape& shape = attention_.shape;
    const int64_t row = sequence * shape.sequence * shape.width() + head * shape.head_dim;
    const int64_t packed_row = sequence * shape.sequence * 3 * shape.width() + head * shape.head_dim;
    void* qkv = element(qkv_.in<void>(pointers), packed_row);
    char* scratch = scratch_.in<char>(pointers);
    void* part_gradient = scratch + AttentionScratch(shape).cudnn;
    void* gradient = gradient_.accumulates ? part_gradient : element(gradient_.in<void>(pointers), packed_row);
    const int64_t gradient_width = attention_.gradient_heads * shape.head_dim;
    VariantPack pack{
        {kCudnnQ, qkv},
        {kCudnnK, element(qkv, shape.width())},
        {kCudnnV, element(qkv, 2 * shape.width())},
        {kCudnnOutput, element(output_.in<void>(pointers), row)},
        {kCudnnOutputGradient, element(output_gradient_.in<void>(pointers), row)},
        {kCudnnStatistics, log_sum_.in<float>(pointers) + (sequence * shape.heads + head) * shape.sequence},
        {kCudnnQGradient, gradient},
        {kCudnnKGradient, element(gradient, gradient_width)},
        {kCudnnVGradient, element(gradient, 2 * gradient_width)}};
    execute_cudnn(handle_, stream, plan_, pack, scratch);
    if (gradient_.accumulates)
      add_attention_gradient(stream, shape, attention_.part, sequence, head, attention_.dtype, part_gradient,
                             gradient_.in<void>(pointers));
  }

  const cudnnHandle_t handle_;
  const CudnnAttention attention_;
  const CudnnPlan plan_;
  const size_t num_slots_;
  const op::Operand qkv_, output_, log_sum_, output_gradient_, gradient_, scratch_;
  const std::unique_ptr<Kernel> plain_;
};

class OpenedCudnn : public Cudnn {
 public:
  OpenedCudnn(int compute_capability, bool is_deterministic, int64_t part_bytes)
      : is_deterministic_(is_deterministic), part_bytes_(part_bytes) {
    cudnn_library();
    target_.compute_capability = compute_capability;
    if (const cudnnStatus_t status = cudnn_frontend::detail::create_handle(&target_.handle);
        status != CUDNN_STATUS_SUCCESS)
      throw Error(TSR_E_UNAVAILABLE,
                  std::string("cudnnCreate failed: ") + cudnn_frontend::detail::get_error_string(status));
  }
  ~OpenedCudnn() override {
    plans_.clear();
    cudnn_frontend::detail::destroy_handle(target_.handle);
  }

  std::unique_ptr<Kernel> attention(const tsr_op& op, std::span<const tsr_slot_spec> slots) override {
    return op.phase == TSR_PHASE_FORWARD ? forward(op, slots) : backward(op, slots);
  }

 private:
  std::unique_ptr<Kernel> forward(const tsr_op& op, std::span<const tsr_slot_spec> slots) {
    if (!op::find_operand(slots, TSR_ROLE_OUTPUT, 0).is_bound())
      throw Error(TSR_E_UNSUPPORTED, "cuDNN does not compute statistics without the output");
    const AttentionShape shape(op);
    const CudnnAttention attention{shape, {shape.batch, shape.heads}, op.dtype, is_deterministic_};
    return std::make_unique<Forward>(target_.handle, shape, plan(attention, plan_cudnn_forward, kCudnnForwardBytes),
                                     slots, plain_attention_forward(op, slots));
  }

  std::unique_ptr<Kernel> backward(const tsr_op& op, std::span<const tsr_slot_spec> slots) {
    const AttentionShape shape(op);
    const AttentionPart part = attention_part(shape, part_bytes_);
    const bool accumulates = op::find_operand(slots, TSR_ROLE_INPUT_GRADIENT, 0).accumulates;
    CudnnAttention attention{shape, part, op.dtype, is_deterministic_};
    attention.gradient_heads = accumulates ? part.heads : shape.heads;
    return std::make_unique<Backward>(target_.handle, attention,
                                      plan(attention, plan_cudnn_backward, AttentionScratch(shape).cudnn), slots,
                                      plain_attention_backward(op, slots));
  }

  // The plan of a forward has no gradient heads, that of a backward has some: no two of one key differ.
  template <class Make>
  const CudnnPlan& plan(const CudnnAttention& attention, const Make& make, int64_t available_bytes) {
    auto place = plans_.find(attention);
    if (place == plans_.end()) place = plans_.emplace(attention, make(attention, target_)).first;
    if (place->second.workspace_bytes > available_bytes)
      throw Error(TSR_E_UNSUPPORTED, "cuDNN needs " + std::to_string(place->second.workspace_bytes) +
                                         " bytes of scratch; the op has " + std::to_string(available_bytes));
    return place->second;
  }

  const bool is_deterministic_;
  const int64_t part_bytes_;
  CudnnTarget target_;
  std::map<CudnnAttention, CudnnPlan> plans_;
};

}  // namespace

std::unique_ptr<Cudnn> open_cudnn(int compute_capability, bool is_deterministic, int64_t part_bytes) {
  try {
    return std::make_unique<OpenedCudnn>(compute_capability, is_deterministic, part_bytes);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // the front end's own
    throw Error(TSR_E_UNAVAILABLE, std::string("cuDNN cannot be used: ") + error.what());
  }
}

}  // namespace tessera::cuda
