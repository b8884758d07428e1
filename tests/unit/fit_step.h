// Steps for the policy `fit`: visits and items made by hand, and what is in use in each visit after some answers.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "fit.h"
#include "tessera/offload.hpp"

namespace tessera::testing {

using Answers = std::vector<tsr_leave>;

struct FitOptions {
  double margin = 0;
  uint32_t ahead = 1, linger = 1;
  std::string to = "host";

  fit::Fit policy() const {
    const tsr_option_value values[] = {{str("to"), str(to), 0, 0},
                                       {str("margin"), {}, 0, margin},
                                       {str("ahead"), {}, ahead, 0},
                                       {str("linger"), {}, linger, 0}};
    return fit::Fit(values);
  }
};

/// A use that writes is given by the visit's negative number, less one.
constexpr inline int written(int visit) {
  return -visit - 1;
}

/// A step of visits, and items; what is in use in a visit is the items alive in it.
class Step {
 public:
  explicit Step(size_t num_visits) : visits_(num_visits) {
    for (size_t v = 0; v < num_visits; ++v)
      visits_[v] = {v, v, TSR_VISIT_FORWARD, -1, static_cast<int32_t>(v), 0, 0, 0, 0};
  }

  Step& item(uint32_t kind, uint64_t num_bytes, const std::vector<int>& visits, uint64_t used_bytes = 0) {
    std::vector<tsr_use>& uses = uses_.emplace_back();
    for (const int visit : visits)
      uses.push_back({static_cast<uint32_t>(visit < 0 ? -visit - 1 : visit), visit < 0 ? TSR_MODE_ADD : TSR_MODE_READ,
                      used_bytes ? used_bytes : num_bytes});
    const bool is_persistent = kind == TSR_BUFFER_HOME || kind == TSR_BUFFER_OPTIMIZER;
    items_.push_back({items_.size() + 1,
                      {},
                      kind,
                      is_persistent ? TSR_BUFFER_PERSISTENT : 0u,
                      -1,
                      0,
                      num_bytes,
                      uses.data(),
                      uses.size()});
    return *this;
  }
  Step& updates(uint32_t first, uint32_t last) {
    for (uint32_t v = first; v <= last; ++v)
      visits_[v].kind = TSR_VISIT_UPDATE;
    return *this;
  }
  Step& operations(uint32_t visit, double number) {
    visits_[visit].operations = number;
    return *this;
  }

  uint64_t limit = UINT64_MAX;
  std::vector<tsr_place> places = {{77, 0, UINT64_MAX}, {TSR_MEMORY_HOST, 0, UINT64_MAX}};

  /// Bytes in use in each visit, when items leave so.
  std::vector<uint64_t> in_use(const Answers& answers) const {
    std::vector<uint64_t> bytes(visits_.size());
    std::map<uint64_t, std::map<uint32_t, tsr_leave>> leaves;
    for (const tsr_leave& answer : answers)
      leaves[answer.buffer][answer.after] = answer;
    for (const tsr_item& item : items_)
      add(item, leaves[item.buffer], bytes);
    return bytes;
  }
  uint64_t peak(const Answers& answers) const { return std::ranges::max(in_use(answers)); }
  /// What leaves after every use after which it may.
  Answers all_leaves(const FitOptions& options) const {
    Answers answers;
    for (const tsr_item& item : items_)
      for (uint64_t u = 0; u < item.num_uses; ++u)
        if (u + 1 < item.num_uses ? item.uses[u + 1].visit - item.uses[u].visit > options.ahead + options.linger + 1
                                  : OffloadView::is_persistent(item))
          answers.push_back({item.buffer, item.uses[u].visit, TSR_MEMORY_HOST, options.ahead, options.linger});
    return answers;
  }

  Answers ask(const FitOptions& options = {}) {
    const std::vector<uint64_t> live = in_use({});
    for (size_t v = 0; v < visits_.size(); ++v)
      visits_[v].live_bytes = live[v];
    tsr_program_view program{};
    program.struct_size = sizeof program;
    const tsr_offload_view view{
        sizeof view,  0, limit, &program, places.data(), visits_.data(), items_.data(), places.size(), visits_.size(),
        items_.size()};
    Answers answers;
    const auto take = [](void* ctx, const tsr_leave* leave, tsr_error*) noexcept -> tsr_status {
      static_cast<Answers*>(ctx)->push_back(*leave);
      return TSR_OK;
    };
    const tsr_offload_sink sink{sizeof sink, 0, &answers, take};
    options.policy().plan(OffloadView(view), OffloadSink(sink));
    return answers;
  }

 private:
  void add(const tsr_item& item, const std::map<uint32_t, tsr_leave>& leaves, std::vector<uint64_t>& bytes) const {
    const bool is_persistent = OffloadView::is_persistent(item);
    if (is_persistent && leaves.empty())
      for (uint64_t& at : bytes)
        at += item.num_bytes;
    if (is_persistent && leaves.empty()) return;
    for (uint64_t u = 0; u < item.num_uses;) {
      uint64_t end = u, used = 0;
      bool is_written = false;
      for (;; ++end) {
        used += item.uses[end].num_bytes;
        is_written |= item.uses[end].mode != TSR_MODE_READ;
        if (end + 1 == item.num_uses || leaves.contains(item.uses[end].visit)) break;
      }
      const bool is_fetched = is_persistent || u > 0, is_evicted = leaves.contains(item.uses[end].visit);
      const tsr_leave leave = leaves.empty() ? tsr_leave{} : leaves.begin()->second;
      const uint32_t ahead = is_fetched ? std::min(leave.ahead, item.uses[u].visit) : 0;
      const uint32_t linger = is_evicted && is_written ? leave.linger : 0;
      for (uint32_t v = item.uses[u].visit - ahead; v <= item.uses[end].visit + linger && v < bytes.size(); ++v)
        bytes[v] += is_fetched ? std::min(used, item.num_bytes) : item.num_bytes;
      u = end + 1;
    }
  }

  std::vector<tsr_visit> visits_;
  std::vector<tsr_item> items_;
  std::deque<std::vector<tsr_use>> uses_;
};

}  // namespace tessera::testing
