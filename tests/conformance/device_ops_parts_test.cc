// Ops that a GPU computes in several parts when they are as large as those of real models, on extents that cost little:
// where the length of a part is an option of the device, the test sets it to a short one.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "support/device_under_test.h"
#include "support/op_cases.h"
#include "tessera/error.hpp"

namespace tessera::testing {
namespace {

constexpr std::string_view kPartBytes = "debug-part-bytes", kAttention = "attention";

bool has_option(const std::string& device, std::string_view name) {
  const auto options = default_options(device);
  return std::ranges::any_of(options, [&](const auto& option) { return to_string(option.name) == name; });
}

template <class Extents>
struct InParts {
  int64_t part_bytes;
  Extents extents;
};

/// Of an op on extents, on a device whose parts have so many bytes.
template <class Extents>
class OpInParts : public DeviceUnderTest,
                  public ::testing::WithParamInterface<std::tuple<std::string, InParts<Extents>>> {
 protected:
  const Extents& extents() const { return parts().extents; }

  using Base = ::testing::WithParamInterface<std::tuple<std::string, InParts<Extents>>>;
  const std::string& name() const { return std::get<0>(Base::GetParam()); }
  std::string name_of_device() const override {
    if (!has_option(name(), kPartBytes)) return name();
    return name() + ":" + std::string(kPartBytes) + "=" + std::to_string(parts().part_bytes);
  }

 private:
  const InParts<Extents>& parts() const { return std::get<1>(Base::GetParam()); }
};

// The gradients and the loss of all rows, whatever chunks they are computed in: 128, 128 and 44 rows; 256 and 44.
using LossInParts = OpInParts<LossExtents>;

TEST_P(LossInParts, IsTheReference) {
  const OpCase c = loss_case(extents());
  check_backward(device(), c.op, c.operands, {2e-5}, Checks::kFew);
}

constexpr LossExtents kLoss{2, 150, 24, 257};
TESSERA_EVERY_DEVICE_ON(LossInParts, InParts<LossExtents>, InParts<LossExtents>{1, kLoss},
                        InParts<LossExtents>{300'000, kLoss});

using SplitLossInParts = OpInParts<TokenExtents>;

TEST_P(SplitLossInParts, HeadLogitsAreTheReference) {
  const OpCase c = head_logits_case(extents());
  check_backward(device(), c.op, c.operands, {2e-5}, Checks::kFew);
}

constexpr TokenExtents kPartOfVocabulary{2, 150, 24, 131, 131, 126, 257};
TESSERA_EVERY_DEVICE_ON(SplitLossInParts, InParts<TokenExtents>, InParts<TokenExtents>{1, kPartOfVocabulary},
                        InParts<TokenExtents>{100'000, kPartOfVocabulary});

// One head of one sequence at a time; two sequences with all their heads.
using AttentionInParts = OpInParts<AttentionExtents>;

TEST_P(AttentionInParts, IsTheReference) {
  const OpCase c = attention_case(extents());
  check_backward(device(), c.op, c.operands, {1e-5}, Checks::kFew);
}

constexpr AttentionExtents kHeads{4, 64, 3, 16};
TESSERA_EVERY_DEVICE_ON(AttentionInParts, InParts<AttentionExtents>, InParts<AttentionExtents>{1, kHeads},
                        InParts<AttentionExtents>{300'000, kHeads});

// The same by cuDNN, which must take it in 16 bits: what cuDNN refuses, the plain kernels compute, and a fault of the
// cuDNN path would not show. Before 9.15.1 cuDNN refuses lengths that are not a multiple of 128.
class CudnnAttentionInParts : public OpInParts<AttentionExtents> {
  void SetUp() override {
    if (!has_option(name(), kAttention)) GTEST_SKIP() << "the device has no cuDNN";
    OpInParts::SetUp();
  }
  std::string name_of_device() const override { return OpInParts::name_of_device() + ",attention=cudnn"; }
};

TEST_P(CudnnAttentionInParts, IsTheReference) {
  try {
    const OpCase c = attention_case(extents());
    check_backward(device(), c.op, c.operands, {1e-5}, Checks::kFew);
  } catch (const Error& error) {
    // The emulated GPU has no cuDNN. On a real one gpu-check takes a skipped test for a failure.
    const bool is_built_without = std::string_view(error.what()).find("built without cuDNN") != std::string_view::npos;
    const bool is_required = std::getenv("TESSERA_TEST_DEVICE_REQUIRED") && !is_built_without;
    if (error.code() != TSR_E_UNAVAILABLE || is_required) throw;
    GTEST_SKIP() << error.what();
  }
}

constexpr AttentionExtents kCudnnHeads{4, 128, 3, 16};
TESSERA_EVERY_DEVICE_ON(CudnnAttentionInParts, InParts<AttentionExtents>, InParts<AttentionExtents>{1, kCudnnHeads},
                        InParts<AttentionExtents>{300'000, kCudnnHeads});

// More than 4096 rows, and so more than 32 parts of sums over rows, of 128 rows each or, in norms, of more than 16.
constexpr int64_t kManyRows = 4133;

class ManyRows : public DeviceOpTest {};

TEST_P(ManyRows, OfNormsAreTheReference) {
  const OpCase c = norm_case(TSR_OP_ADD_LAYER_NORM, {1, kManyRows, 8});
  check_backward(device(), c.op, c.operands, {2e-5}, Checks::kFew);
}

TEST_P(ManyRows, OfProductsAreTheReference) {
  const OpCase c = linear_case({1, kManyRows, 8, 8, TSR_ACTIVATION_GELU_TANH, true});
  check_backward(device(), c.op, c.operands, {2e-5}, Checks::kFew);
}

// The last columns of a vocabulary that is not a multiple of 8 are summed apart.
TEST_P(ManyRows, OfLogitsAreTheReference) {
  const OpCase c = head_logits_case({1, kManyRows, 8, 13, 0, 13, 13});
  check_backward(device(), c.op, c.operands, {2e-5}, Checks::kFew);
}

TESSERA_EVERY_DEVICE(ManyRows);

}  // namespace
}  // namespace tessera::testing
