// One operation a graph, scaled dot product attention or its gradient, with q, k and v as views into the packed
// [N,3HD]: the strides describe a head, and nothing is copied. Which versions of cuDNN compute what is known
// to the front end, not always rightly: check_backward refuses what it would do with copies and fills at each launch.
#include "cuda-device/kernels/attention/cudnn_graphs.h"

#include <dlfcn.h>

#define TESSERA_TEXT(x) #x
#define TESSERA_TEXT_OF(x) TESSERA_TEXT(x)

// The front end finds the library's functions through this handle, which its user defines.
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace tessera::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr const char* kNoPlan = "cuDNN does not plan it";
constexpr char kLibrary[] = "libcudnn.so." TESSERA_TEXT_OF(CUDNN_MAJOR);
const CudaLibrary& open_library() {
  // cuDNN compiles kernels of attention when it plans them.
  const std::string compiler = "libnvrtc.so." + std::to_string(CUDART_VERSION / 1000);
  static const CudaLibrary library(kLibrary, {compiler.c_str()});
  if (library.function<decltype(&cudnnGetVersion)>("cudnnGetVersion")() < 90000)
    throw Error(TSR_E_UNAVAILABLE, library.path() + " is older than cuDNN 9.0, which attention needs");
  fe::cudnn_dlhandle = library.handle();
  return library;
}

fe::DataType_t data_type(tsr_dtype dtype) {
  return dtype == TSR_BF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

std::shared_ptr<CudnnGraph> make_graph(const CudnnAttention& attention, const CudnnTarget& target) {
  auto graph = std::make_shared<CudnnGraph>();
  graph->set_io_data_type(data_type(attention.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_sm_version(target.compute_capability)
      // Plans live as long as their kernels, and those longer than the graphs they are captured in.
      .set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);
  if (target.properties) graph->set_device_properties(target.properties);
  return graph;
}

// [batch, heads, T, D] of the part, in rows of `row_heads` heads.
void set_head_layout(const CudnnAttention& attention, int64_t row_heads, fe::graph::Tensor_attributes& tensor) {
  const AttentionShape& shape = attention.shape;
  const int64_t row = row_heads * shape.head_dim;
  tensor.set_dim({attention.part.batch, attention.part.heads, shape.sequence, shape.head_dim})
      .set_stride({shape.sequence * row, shape.head_dim, row, 1})
      .set_data_type(data_type(attention.dtype));
}

void set_statistics_layout(const CudnnAttention& attention, fe::graph::Tensor_attributes& tensor) {
  const int64_t heads = attention.part.heads, sequence = attention.shape.sequence;
  tensor.set_dim({attention.part.batch, heads, sequence, 1})
      .set_stride({heads * sequence, sequence, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

Tensor head_input(CudnnGraph& graph, const CudnnAttention& attention, CudnnTensor name, int64_t row_heads) {
  fe::graph::Tensor_attributes tensor;
  set_head_layout(attention, row_heads, tensor.set_uid(name));
  return graph.tensor(tensor);
}

void head_output(const Tensor& tensor, const CudnnAttention& attention, CudnnTensor name, int64_t row_heads) {
  set_head_layout(attention, row_heads, tensor->set_output(true).set_uid(name));
}

// Plans `graph`, whose tensors are all named.
CudnnPlan plan(const std::shared_ptr<CudnnGraph>& graph, const CudnnTarget& target) {
  const auto check = [](const fe::error_t& result) { check_cudnn(result, TSR_E_UNSUPPORTED, kNoPlan); };
  check(graph->validate());
  check(graph->build_operation_graph(target.handle));
  check(graph->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
  check(graph->check_support());
  check(graph->build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE));
  CudnnPlan result{graph};
  check(graph->get_workspace_size(result.workspace_bytes));
  return result;
}

// Refuses what older versions do only with copies and fills that the front end makes at each launch, and workspaces
// that it divides where cuDNN's vector loads are not aligned: they follow one float32 for each row of each head.
void check_backward(const CudnnAttention& backward) {
  if (const int64_t rows = backward.part.num_heads() * backward.shape.sequence; rows % 4 != 0)
    throw Error(TSR_E_UNSUPPORTED,
                std::to_string(rows) + " rows of all heads are not a multiple of 4, which the gradient needs");
  const size_t version = fe::detail::get_backend_version();
  if (version < 91501 && backward.shape.sequence % 128 != 0)
    throw Error(TSR_E_UNSUPPORTED, "the gradient of sequences of " + std::to_string(backward.shape.sequence) +
                                       " tokens needs cuDNN 9.15.1, or a multiple of 128 tokens");
  if (version < 90600 && !backward.is_deterministic)
    throw Error(TSR_E_UNSUPPORTED, "a gradient that is not deterministic needs cuDNN 9.6");
}

// An exception of the front end becomes an Error: it throws when it finds no libcudart, for instance.
template <class Call>
auto guarded(tsr_status code, const char* what, const Call& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(code, std::string(what) + ": " + error.what());
  }
}

}  // namespace

const CudaLibrary& cudnn_library() {
  static const CudaLibrary& library = open_library();
  return library;
}

void check_cudnn(fe::error_t result, tsr_status code, const char* what) {
  if (result.is_good()) return;
  const std::string message = result.get_message();
  throw Error(code, std::string(what) + ": " + message.substr(0, std::min(message.find('\n'), size_t{300})));
}

CudnnTarget cudnn_target(const std::string& json, int compute_capability) {
  cudnn_library();
  auto properties = std::make_shared<fe::DeviceProperties>();
  check_cudnn(properties->deserialize({json.begin(), json.end()}), TSR_E_INVALID_ARGUMENT,
              "cuDNN does not take these properties of a device");
  return {nullptr, properties, compute_capability};
}

// One plan, with statistics whether they are kept or not: for a graph without them cuDNN might choose another engine,
// and the forward that is computed again would have other bits than the first, which leaves none.
CudnnPlan plan_cudnn_forward(const CudnnAttention& attention, const CudnnTarget& target) {
  return guarded(TSR_E_UNSUPPORTED, kNoPlan, [&] {
    const int64_t heads = attention.shape.heads;
    const auto graph = make_graph(attention, target);
    const auto [output, statistics] = graph->sdpa(head_input(*graph, attention, kCudnnQ, 3 * heads),
                                                  head_input(*graph, attention, kCudnnK, 3 * heads),
                                                  head_input(*graph, attention, kCudnnV, 3 * heads),
                                                  fe::graph::SDPA_attributes()
                                                      .set_generate_stats(true)
                                                      .set_attn_scale(attention.shape.scale())
                                                      .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
                                                      .set_diagonal_band_right_bound(0));
    head_output(output, attention, kCudnnOutput, heads);
    set_statistics_layout(attention, statistics->set_output(true).set_uid(kCudnnStatistics));
    return plan(graph, target);
  });
}

CudnnPlan plan_cudnn_backward(const CudnnAttention& attention, const CudnnTarget& target) {
  check_backward(attention);
  return guarded(TSR_E_UNSUPPORTED, kNoPlan, [&] {
    const int64_t heads = attention.shape.heads;
    const auto graph = make_graph(attention, target);
    fe::graph::Tensor_attributes statistics;
    set_statistics_layout(attention, statistics.set_uid(kCudnnStatistics));
    const auto [q, k, v] = graph->sdpa_backward(
        head_input(*graph, attention, kCudnnQ, 3 * heads), head_input(*graph, attention, kCudnnK, 3 * heads),
        head_input(*graph, attention, kCudnnV, 3 * heads), head_input(*graph, attention, kCudnnOutput, heads),
        head_input(*graph, attention, kCudnnOutputGradient, heads), graph->tensor(statistics),
        fe::graph::SDPA_backward_attributes()
            .set_attn_scale(attention.shape.scale())
            .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
            .set_diagonal_band_right_bound(0)
            .set_deterministic_algorithm(attention.is_deterministic));
    head_output(q, attention, kCudnnQGradient, 3 * attention.gradient_heads);
    head_output(k, attention, kCudnnKGradient, 3 * attention.gradient_heads);
    head_output(v, attention, kCudnnVGradient, 3 * attention.gradient_heads);
    return plan(graph, target);
  });
}

void execute_cudnn(cudnnHandle_t handle, cudaStream_t stream, const CudnnPlan& plan,
                   std::unordered_map<int64_t, void*>& tensors, void* workspace) {
  constexpr const char* kFailed = "cuDNN's attention failed";
  guarded(TSR_E_INTERNAL, kFailed, [&] {
    if (fe::detail::set_stream(handle, stream) != CUDNN_STATUS_SUCCESS)
      throw Error(TSR_E_INTERNAL, "cudnnSetStream failed");
    check_cudnn(plan.graph->execute(handle, tensors, workspace), TSR_E_INTERNAL, kFailed);
  });
}

}  // namespace tessera::cuda
