#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "support/reference_extents.h"
#include "support/reference_kernels.h"

namespace tessera::testing {
namespace {

double activate(double z, double activation) {
  if (activation == TSR_ACTIVATION_RELU) return std::max(z, 0.0);
  if (activation == TSR_ACTIVATION_GELU_TANH)
    return 0.5 * z * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (z + 0.044715 * z * z * z)));
  return z;
}

void norm(const Extents& e, double epsilon, const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y,
          Tensor& mean, Tensor& inverse_deviation) {
  y.resize(x.size());
  for (size_t n = 0; n < e.N; ++n) {
    double sum = 0, squares = 0;
    for (size_t c = 0; c < e.C; ++c)
      sum += x[n * e.C + c];
    const double m = sum / static_cast<double>(e.C);
    for (size_t c = 0; c < e.C; ++c)
      squares += (x[n * e.C + c] - m) * (x[n * e.C + c] - m);
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(e.C) + epsilon);
    for (size_t c = 0; c < e.C; ++c)
      y[n * e.C + c] = (x[n * e.C + c] - m) * r * weight[c] + bias[c];
    mean.push_back(m);
    inverse_deviation.push_back(r);
  }
}

Tensor sum_with_bias(const Extents& e, const Tensors& t) {
  Tensor y(e.N * e.C);
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = t.at(kI0)[i] + t.at(kI1)[i] + t.at(kP0)[i % e.C];
  return y;
}

Tensors linear(const tsr_op& op, const Extents& e, const Tensors& t) {
  const Tensor &x = t.at(kI0), &weight = t.at(kP0);
  Tensor z(e.N * e.O), y;
  for (size_t n = 0; n < e.N; ++n) {
    for (size_t o = 0; o < e.O && op.attributes[TSR_ATTR_HAS_BIAS] != 0; ++o)
      z[n * e.O + o] = t.at(kP1)[o];
    for (size_t i = 0; i < e.I; ++i)
      for (size_t o = 0; o < e.O; ++o)
        z[n * e.O + o] += x[n * e.I + i] * weight[i * e.O + o];
  }
  for (double value : z)
    y.push_back(activate(value, op.attributes[TSR_ATTR_ACTIVATION]));
  return {{kO0, y}, {kS0, z}};
}

Tensors attention(const Extents& e, const Tensors& t) {
  const size_t width = e.H * e.D;
  const Tensor& x = t.at(kI0);
  Tensor y(e.N * width), log_sums(e.B * e.H * e.T), p(e.T);
  for (size_t b = 0; b < e.B; ++b)
    for (size_t h = 0; h < e.H; ++h)
      for (size_t i = 0; i < e.T; ++i) {
        const double* q = &x[(b * e.T + i) * 3 * width + h * e.D];
        double sum = 0, max = -INFINITY;
        for (size_t j = 0; j <= i; ++j) {
          const double* k = &x[(b * e.T + j) * 3 * width + width + h * e.D];
          p[j] = 0;
          for (size_t d = 0; d < e.D; ++d)
            p[j] += q[d] * k[d] / std::sqrt(static_cast<double>(e.D));
          max = std::max(max, p[j]);
        }
        for (size_t j = 0; j <= i; ++j)
          sum += std::exp(p[j] - max);
        log_sums[(b * e.H + h) * e.T + i] = max + std::log(sum);
        for (size_t j = 0; j <= i; ++j)
          for (size_t d = 0; d < e.D; ++d)
            y[(b * e.T + i) * width + h * e.D + d] +=
                std::exp(p[j] - max) / sum * x[(b * e.T + j) * 3 * width + 2 * width + h * e.D + d];
      }
  return {{kO0, y}, {kS0, log_sums}};
}

// Of row n with all rows of the table.
Tensor logits_of_row(const Extents& e, const Tensors& t, size_t n) {
  const double* x = &t.at(kI0)[n * e.C];
  const Tensor& table = t.at(kP0);
  Tensor logits(e.V);
  for (size_t v = 0; v < e.V; ++v)
    for (size_t c = 0; c < e.C; ++c)
      logits[v] += x[c] * table[v * e.C + c];
  return logits;
}

double loss_sum(const Extents& e, const Tensors& t, const std::vector<int32_t>& targets) {
  double total = 0;
  for (size_t n = 0; n < e.N; ++n) {
    const Tensor logits = logits_of_row(e, t, n);
    const double max = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (double logit : logits)
      sum += std::exp(logit - max);
    total += std::log(sum) + max - logits[static_cast<size_t>(targets[n])];
  }
  return total;
}

Tensors head_logits(const Extents& e, const Tensors& t) {
  Tensor logits, largest(e.N, -INFINITY);
  for (size_t n = 0; n < e.N; ++n) {
    const Tensor row = logits_of_row(e, t, n);
    for (size_t v = 0; v < static_cast<size_t>(e.vocab_count); ++v)
      largest[n] = std::max(largest[n], row[v]);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return {{kO0, logits}, {kO1, largest}};
}

Tensors softmax_stats(const Extents& e, const Tensors& t, const std::vector<int32_t>& targets) {
  Tensor sums(e.N), target_logits(e.N);
  for (size_t n = 0; n < e.N; ++n) {
    for (size_t v = 0; v < static_cast<size_t>(e.vocab_count); ++v)
      sums[n] += std::exp(t.at(kI0)[n * e.V + v] - t.at(kI1)[n]);
    if (e.has_row(targets[n])) target_logits[n] = t.at(kI0)[n * e.V + e.row_of(targets[n])];
  }
  return {{kO0, sums}, {kO1, target_logits}};
}

double loss_of_stats(const Extents& e, const Tensors& t) {
  double total = 0;
  for (size_t n = 0; n < e.N; ++n)
    total += t.at(kI1)[n] + std::log(t.at(kI2)[n]) - t.at(kI3)[n];
  return total;
}

/// The loss, and the rows whose label has the largest logit, the first of equal ones.
Tensors cross_entropy(const Extents& e, const Tensors& t, const std::vector<int32_t>& labels) {
  double total = 0, num_correct = 0;
  for (size_t n = 0; n < e.N; ++n) {
    const double* row = t.at(kI0).data() + n * e.L;
    const double* largest = std::max_element(row, row + e.L);
    double sum = 0;
    for (size_t l = 0; l < e.L; ++l)
      sum += std::exp(row[l] - *largest);
    total += std::log(sum) + *largest - row[labels[n]];
    num_correct += largest - row == labels[n] ? 1 : 0;
  }
  return {{kLossSum, {total}}, {kCorrect, {num_correct}}};
}

Tensors token_embedding(const Extents& e, const Tensors& t, const std::vector<int32_t>& tokens) {
  Tensor y(e.N * e.C);
  for (size_t n = 0; n < e.N; ++n)
    for (size_t c = 0; e.has_row(tokens[n]) && c < e.C; ++c)
      y[n * e.C + c] = t.at(kP0)[e.row_of(tokens[n]) * e.C + c];
  return {{kO0, y}};
}

Tensors position_embedding(const Extents& e, const Tensors& t) {
  Tensor y = t.at(kI0);
  for (size_t n = 0; n < e.N; ++n)
    for (size_t c = 0; c < e.C; ++c)
      y[n * e.C + c] += t.at(kP0)[e.position(n) * e.C + c];
  return {{kO0, y}};
}

}  // namespace

Tensors reference_forward(const tsr_op& op, const Tensors& operands, const TokenLists& tokens) {
  const Extents e(op);
  const double epsilon = op.attributes[TSR_ATTR_EPSILON];
  Tensors results;
  switch (op.kind) {
    case TSR_OP_TOKEN_EMBEDDING:
      return token_embedding(e, operands, tokens.at(kI0));
    case TSR_OP_POSITION_EMBEDDING:
      return position_embedding(e, operands);
    case TSR_OP_LAYER_NORM:
      norm(e, epsilon, operands.at(kI0), operands.at(kP0), operands.at(kP1), results[kO0], results[kS0], results[kS1]);
      return results;
    case TSR_OP_LINEAR:
      return linear(op, e, operands);
    case TSR_OP_ATTENTION:
      return attention(e, operands);
    case TSR_OP_ADD_LAYER_NORM:
      results[kO0] = sum_with_bias(e, operands);
      norm(e, epsilon, results[kO0], operands.at(kP1), operands.at(kP2), results[kO1], results[kS0], results[kS1]);
      return results;
    case TSR_OP_ADD:
      return {{kO0, sum_with_bias(e, operands)}};
    case TSR_OP_LOSS:
      return {{kLossSum, {loss_sum(e, operands, tokens.at(kI1))}}};
    case TSR_OP_HEAD_LOGITS:
      return head_logits(e, operands);
    case TSR_OP_SOFTMAX_STATS:
      return softmax_stats(e, operands, tokens.at(kI2));
    case TSR_OP_LOSS_GRAD:
      return {{kLossSum, {loss_of_stats(e, operands)}}};
    case TSR_OP_CROSS_ENTROPY:
      return cross_entropy(e, operands, tokens.at(kI1));
    default:
      throw std::logic_error("reference_forward does not know op " + std::to_string(op.kind));
  }
}

Tensor numerical_gradient(const tsr_op& op, Tensors operands, const TokenLists& tokens, uint32_t slot) {
  const auto value = [&] {
    const Tensors results = reference_forward(op, operands, tokens);
    if (op.kind == TSR_OP_LOSS || op.kind == TSR_OP_CROSS_ENTROPY)
      return results.at(kLossSum)[0] * op.attributes[TSR_ATTR_SCALE];
    double sum = 0;
    for (uint32_t k = 0; k < 2; ++k)
      if (operands.count(kDo0 + k) && results.count(kO0 + k))
        for (size_t i = 0; i < results.at(kO0 + k).size(); ++i)
          sum += results.at(kO0 + k)[i] * operands.at(kDo0 + k)[i];
    return sum;
  };
  const uint32_t index = TSR_SLOT_INDEX(slot);
  Tensor& x = operands.at(TSR_SLOT_ROLE(slot) == TSR_ROLE_GRADIENT ? kP0 + index : kI0 + index);
  Tensor gradient;
  constexpr double kStep = 1e-5;
  for (double& element : x) {
    const double at = element;
    element = at + kStep;
    const double above = value();
    element = at - kStep;
    gradient.push_back((above - value()) / (2 * kStep));
    element = at;
  }
  return gradient;
}

}  // namespace tessera::testing
