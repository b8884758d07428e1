#include <cmath>
#include <stdexcept>

#include "support/reference_extents.h"
#include "support/reference_kernels.h"

namespace tessera::testing {
namespace {

double activation_slope(double z, double activation) {
  if (activation == TSR_ACTIVATION_RELU) return z > 0 ? 1.0 : 0.0;
  if (activation == TSR_ACTIVATION_NONE) return 1.0;
  const double s = std::sqrt(2.0 / M_PI), tanh = std::tanh(s * (z + 0.044715 * z * z * z));
  return 0.5 * (1 + tanh) + 0.5 * z * (1 - tanh * tanh) * s * (1 + 3 * 0.044715 * z * z);
}

Tensor column_sums(const Tensor& x, size_t num_columns) {
  Tensor sums(num_columns);
  for (size_t i = 0; i < x.size(); ++i)
    sums[i % num_columns] += x[i];
  return sums;
}

// Adds the gradient of x to dx; returns that of the weight.
Tensor norm_backward(const Extents& e, const Tensor& x, const Tensors& statistics, const Tensor& weight,
                     const Tensor& dy, Tensor& dx) {
  Tensor dweight(e.C);
  for (size_t n = 0; n < e.N; ++n) {
    const double mean = statistics.at(kS0)[n], r = statistics.at(kS1)[n], width = static_cast<double>(e.C);
    double sum = 0, projection = 0;
    for (size_t c = 0; c < e.C; ++c) {
      const double normed = (x[n * e.C + c] - mean) * r, d = dy[n * e.C + c];
      dweight[c] += d * normed;
      sum += d * weight[c];
      projection += d * weight[c] * normed;
    }
    for (size_t c = 0; c < e.C; ++c)
      dx[n * e.C + c] +=
          r * (dy[n * e.C + c] * weight[c] - sum / width - (x[n * e.C + c] - mean) * r * projection / width);
  }
  return dweight;
}

Tensors layer_norm(const tsr_op& op, const Extents& e, const Tensors& t) {
  const Tensor &x = t.at(kI0), &dy = t.at(kDo0);
  Tensor dx(x.size());
  const Tensor dweight = norm_backward(e, x, reference_forward(op, t, {}), t.at(kP0), dy, dx);
  return {{kDi0, dx}, {kG0, dweight}, {kG1, column_sums(dy, e.C)}};
}

Tensors add_layer_norm(const tsr_op& op, const Extents& e, const Tensors& t) {
  const Tensors results = reference_forward(op, t, {});
  Tensor total = t.at(kDo0);
  const Tensor dweight = norm_backward(e, results.at(kO0), results, t.at(kP1), t.at(kDo1), total);
  return {{kDi0, total},
          {kDi1, total},
          {kG0, column_sums(total, e.C)},
          {kG1, dweight},
          {kG2, column_sums(t.at(kDo1), e.C)}};
}

Tensors linear(const tsr_op& op, const Extents& e, const Tensors& t) {
  const Tensors results = reference_forward(op, t, {});
  Tensor dz = t.at(kDo0), dx(e.N * e.I), dweight(e.I * e.O);
  for (size_t i = 0; i < dz.size(); ++i)
    dz[i] *= activation_slope(results.at(kS0)[i], op.attributes[TSR_ATTR_ACTIVATION]);
  const Tensor &x = t.at(kI0), &weight = t.at(kP0);
  for (size_t n = 0; n < e.N; ++n)
    for (size_t i = 0; i < e.I; ++i)
      for (size_t o = 0; o < e.O; ++o) {
        dx[n * e.I + i] += dz[n * e.O + o] * weight[i * e.O + o];
        dweight[i * e.O + o] += x[n * e.I + i] * dz[n * e.O + o];
      }
  Tensors gradients{{kDi0, dx}, {kG0, dweight}};
  if (op.attributes[TSR_ATTR_HAS_BIAS] != 0) gradients[kG1] = column_sums(dz, e.O);
  return gradients;
}

Tensors attention(const tsr_op& op, const Extents& e, const Tensors& t) {
  const Tensors results = reference_forward(op, t, {});
  const size_t width = e.H * e.D;
  const double scale = 1.0 / std::sqrt(static_cast<double>(e.D));
  const Tensor &x = t.at(kI0), &dy = t.at(kDo0), &y = results.at(kO0);
  Tensor dx(x.size());
  for (size_t b = 0; b < e.B; ++b)
    for (size_t h = 0; h < e.H; ++h)
      for (size_t i = 0; i < e.T; ++i) {
        const size_t out = (b * e.T + i) * width + h * e.D, q = (b * e.T + i) * 3 * width + h * e.D;
        double delta = 0;
        for (size_t d = 0; d < e.D; ++d)
          delta += dy[out + d] * y[out + d];
        for (size_t j = 0; j <= i; ++j) {
          const size_t k = (b * e.T + j) * 3 * width + width + h * e.D, v = k + width;
          double score = 0, dp = 0;
          for (size_t d = 0; d < e.D; ++d) {
            score += scale * x[q + d] * x[k + d];
            dp += dy[out + d] * x[v + d];
          }
          const double p = std::exp(score - results.at(kS0)[(b * e.H + h) * e.T + i]), ds = scale * p * (dp - delta);
          for (size_t d = 0; d < e.D; ++d) {
            dx[q + d] += ds * x[k + d];
            dx[k + d] += ds * x[q + d];
            dx[v + d] += p * dy[out + d];
          }
        }
      }
  return {{kDi0, dx}};
}

Tensors loss(const tsr_op& op, const Extents& e, const Tensors& t, const std::vector<int32_t>& targets) {
  const double scale = op.attributes[TSR_ATTR_SCALE];
  const Tensor &x = t.at(kI0), &table = t.at(kP0);
  Tensor dx(e.N * e.C), dtable(e.V * e.C);
  for (size_t n = 0; n < e.N; ++n) {
    Tensor p(e.V);
    double sum = 0;
    for (size_t v = 0; v < e.V; ++v) {
      for (size_t c = 0; c < e.C; ++c)
        p[v] += x[n * e.C + c] * table[v * e.C + c];
      p[v] = std::exp(p[v]);  // the tests' logits are small
      sum += p[v];
    }
    for (size_t v = 0; v < e.V; ++v) {
      const double d = scale * (p[v] / sum - (static_cast<size_t>(targets[n]) == v ? 1.0 : 0.0));
      for (size_t c = 0; c < e.C; ++c) {
        dx[n * e.C + c] += d * table[v * e.C + c];
        dtable[v * e.C + c] += d * x[n * e.C + c];
      }
    }
  }
  return {{kDi0, dx}, {kG0, dtable}};
}

Tensors head_logits(const Extents& e, const Tensors& t) {
  const Tensor &x = t.at(kI0), &table = t.at(kP0), &dlogits = t.at(kDo0);
  Tensor dx(e.N * e.C), dtable(e.V * e.C);
  for (size_t n = 0; n < e.N; ++n)
    for (size_t v = 0; v < e.V; ++v)
      for (size_t c = 0; c < e.C; ++c) {
        dx[n * e.C + c] += dlogits[n * e.V + v] * table[v * e.C + c];
        dtable[v * e.C + c] += dlogits[n * e.V + v] * x[n * e.C + c];
      }
  return {{kDi0, dx}, {kG0, dtable}};
}

Tensors loss_grad(const tsr_op& op, const Extents& e, const Tensors& t, const std::vector<int32_t>& targets) {
  const double scale = op.attributes[TSR_ATTR_SCALE];
  Tensor dlogits(e.N * e.V);
  for (size_t n = 0; n < e.N; ++n) {
    for (size_t v = 0; v < static_cast<size_t>(e.vocab_count); ++v)
      dlogits[n * e.V + v] = scale * std::exp(t.at(kI0)[n * e.V + v] - t.at(kI1)[n]) / t.at(kI2)[n];
    if (e.has_row(targets[n])) dlogits[n * e.V + e.row_of(targets[n])] -= scale;
  }
  return {{kDi0, dlogits}};
}

Tensors cross_entropy(const tsr_op& op, const Extents& e, const Tensors& t, const std::vector<int32_t>& labels) {
  const double scale = op.attributes[TSR_ATTR_SCALE];
  Tensor dlogits(e.N * e.L);
  for (size_t n = 0; n < e.N; ++n) {
    double sum = 0;
    for (size_t l = 0; l < e.L; ++l)
      sum += dlogits[n * e.L + l] = std::exp(t.at(kI0)[n * e.L + l]);  // the tests' logits are small
    for (size_t l = 0; l < e.L; ++l)
      dlogits[n * e.L + l] = scale * (dlogits[n * e.L + l] / sum - (static_cast<size_t>(labels[n]) == l ? 1.0 : 0.0));
  }
  return {{kDi0, dlogits}};
}

Tensors token_embedding(const Extents& e, const Tensors& t, const std::vector<int32_t>& tokens) {
  Tensor dtable(e.V * e.C);
  for (size_t n = 0; n < e.N; ++n)
    for (size_t c = 0; e.has_row(tokens[n]) && c < e.C; ++c)
      dtable[e.row_of(tokens[n]) * e.C + c] += t.at(kDo0)[n * e.C + c];
  return {{kG0, dtable}};
}

Tensors position_embedding(const Extents& e, const Tensors& t) {
  Tensor dtable(e.P * e.C);
  for (size_t n = 0; n < e.N; ++n)
    for (size_t c = 0; c < e.C; ++c)
      dtable[e.position(n) * e.C + c] += t.at(kDo0)[n * e.C + c];
  return {{kG0, dtable}};
}

}  // namespace

Tensors reference_backward(const tsr_op& op, const Tensors& operands, const TokenLists& tokens) {
  const Extents e(op);
  switch (op.kind) {
    case TSR_OP_TOKEN_EMBEDDING:
      return token_embedding(e, operands, tokens.at(kI0));
    case TSR_OP_POSITION_EMBEDDING:
      return position_embedding(e, operands);
    case TSR_OP_LAYER_NORM:
      return layer_norm(op, e, operands);
    case TSR_OP_LINEAR:
      return linear(op, e, operands);
    case TSR_OP_ATTENTION:
      return attention(op, e, operands);
    case TSR_OP_ADD_LAYER_NORM:
      return add_layer_norm(op, e, operands);
    case TSR_OP_ADD:
      return {{kDi0, operands.at(kDo0)}, {kG0, column_sums(operands.at(kDo0), e.C)}};
    case TSR_OP_LOSS:
      return loss(op, e, operands, tokens.at(kI1));
    case TSR_OP_HEAD_LOGITS:
      return head_logits(e, operands);
    case TSR_OP_LOSS_GRAD:
      return loss_grad(op, e, operands, tokens.at(kI4));
    case TSR_OP_CROSS_ENTROPY:
      return cross_entropy(op, e, operands, tokens.at(kI1));
    default:
      throw std::logic_error("reference_backward does not know op " + std::to_string(op.kind));
  }
}

}  // namespace tessera::testing
