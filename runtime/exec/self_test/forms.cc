// Probes of collectives of all members. Numbers that are moved are any, those that are reduced are whole and small:
//
//     32 bits and more   each member gives numbers up to 1,028: the float32 sum of 16,000 of them is exact
//     8 and 16 bits      two members give a number up to 60 to each element, other ones each time, the others 0
//
// Cost: for each element of a reduction that this rank receives the numbers of all members.

#include "exec/self_test/forms.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/concat.h"
#include "exec/self_test/probe_block.h"
#include "tessera/collective.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kWholeElements = 67, kSliceElements = 5;  // odd: 16 bits do not fill words
constexpr size_t kMaxRoots = 4, kMaxForms = 16;              // of a communicator

bool has_root(uint32_t kind) {
  return kind == TSR_COLL_BROADCAST || kind == TSR_COLL_REDUCE;
}
bool has_slices(uint32_t kind) {
  return kind == TSR_COLL_ALL_GATHER || kind == TSR_COLL_REDUCE_SCATTER || kind == TSR_COLL_ALL_TO_ALL;
}

/// Sums of int64 are wider than the numbers here (integer_sum_probe); averages of few bits are rounded.
bool has_probe(const CollectiveForm& form) {
  if (form.kind == TSR_COLL_BARRIER || (form.kind >= TSR_COLL_SEND && form.kind <= TSR_COLL_EXCHANGE)) return false;
  if (form.kind == TSR_COLL_ALL_REDUCE && form.dtype == TSR_I64 && form.reduce == TSR_REDUCE_SUM) return false;
  if (form.reduce == TSR_REDUCE_AVG && form.dtype != TSR_F32) return false;
  return dtype_name(form.dtype) != std::string_view("unknown");
}

/// That many of the elements, from the first to the last.
template <class T>
std::vector<T> selection(const std::vector<T>& all, size_t max) {
  if (all.size() <= max) return all;
  std::vector<T> some;
  for (size_t i = 0; i < max; ++i)
    some.push_back(all[i * (all.size() - 1) / (max - 1)]);
  return some;
}

/// Ranks may differ in whether an all_to_all has counts, so both are tested.
void add_with_more(std::set<CollectiveForm>& forms, CollectiveForm form, int num_members) {
  forms.insert(form);
  if (has_root(form.kind)) {
    form.root = num_members - 1;
    forms.insert(form);
  } else if (form.kind == TSR_COLL_ALL_TO_ALL) {
    form.is_even = !form.is_even;
    forms.insert(form);
  } else if (has_slices(form.kind)) {
    forms.insert({form.kind, false, TSR_F32, form.reduce ? TSR_REDUCE_SUM : 0, -1});
  }
}

/// The collective of a form on one member.
class FormProbe {
 public:
  FormProbe(const CollectiveForm& form, const ProbedGroup& group, bool in_place)
      : form_(form), group_(group), in_place_(in_place) {}

  Probe make() {
    const bool has_slice = has_slices(form_.kind);
    probe_ = make_probe(form_.kind, name(), has_slice ? kSliceElements : kWholeElements, form_.dtype);
    probe_.collective.reduce = form_.reduce;
    probe_.collective.peer = form_.root;
    // An average may be a sum of products by 1 / n, each of them rounded, and each of their sums.
    if (form_.reduce == TSR_REDUCE_AVG) probe_.tolerance = 1e-5f + 1.2e-7f * static_cast<float>(group_.count());
    if (has_slice && form_.kind != TSR_COLL_ALL_TO_ALL) cut();
    add_operands();
    return std::move(probe_);
  }

 private:
  /// That with parts of unequal length, of float32 and in place, is called by its kind alone.
  std::string name() const {
    std::string kind = collective_name(form_.kind);
    const bool is_exchange = form_.kind == TSR_COLL_ALL_TO_ALL;
    if (!form_.is_even && form_.dtype == TSR_F32 && (in_place_ || is_exchange)) return kind;
    std::string text = concat(kind, " (");
    if (form_.reduce) text += concat(reduce_name(form_.reduce), " of ");
    text += dtype_name(form_.dtype);
    if (!form_.is_even) text += " with counts";
    if (form_.root >= 0) text += concat(form_.reduce ? " to" : " from", " rank ", group_.rank(form_.root));
    if (!is_exchange) text += in_place_ ? ", in place" : ", not in place";
    return text + ")";
  }

  // ---- slices ---------------------------------------------------------------------------------------------------

  /// Of equal length, or of 1, 2, 3, 1, 2, ... elements.
  uint64_t slice(int member) const { return form_.is_even ? kSliceElements : 1 + static_cast<uint64_t>(member) % 3; }
  void cut() {
    for (int member = 0; member < group_.count(); ++member) {
      if (member == group_.own) own_begin_ = total_;
      if (!form_.is_even) probe_.counts.push_back(slice(member));
      total_ += slice(member);
    }
    if (!form_.is_even) probe_.collective.num_elements = 0;
  }
  /// Bytes of the block before this rank's slice of the whole that begins there.
  int64_t own_slice(int64_t whole) const {
    return whole + static_cast<int64_t>(own_begin_ * TSR_NUM_BYTES(form_.dtype, 1));
  }

  // ---- what members give and get --------------------------------------------------------------------------------

  ProbeElements unset(uint64_t count) const { return unset_elements(form_.dtype, count); }
  ProbeElements moved(int member, uint64_t first, uint64_t count) const {
    return moved_elements(form_.dtype, group_.rank(member), first, count);
  }
  double given(int member, uint64_t index) const {
    const int rank = group_.rank(member);
    if (TSR_DTYPE_BITS(form_.dtype) >= 32) return summed_number(rank, index);
    const uint64_t n = static_cast<uint64_t>(group_.count()), m = static_cast<uint64_t>(member);
    const bool sums = form_.reduce == TSR_REDUCE_SUM;
    if (sums && m != index % n && m != (index + 1) % n) return 0;
    return static_cast<double>(1 + mixed_bits(rank, index) % 60);
  }
  double reduced(uint64_t index) const {
    double result = given(0, index);
    for (int member = 1; member < group_.count(); ++member) {
      const double next = given(member, index);
      if (form_.reduce == TSR_REDUCE_MIN)
        result = std::min(result, next);
      else if (form_.reduce == TSR_REDUCE_MAX)
        result = std::max(result, next);
      else
        result += next;
    }
    return form_.reduce == TSR_REDUCE_AVG ? result / group_.count() : result;
  }
  ProbeElements own(uint64_t count) const {
    ProbeElements elements;
    for (uint64_t i = 0; i < count; ++i)
      elements.push_back(element_bits(form_.dtype, given(group_.own, i)));
    return elements;
  }
  ProbeElements sum(uint64_t first, uint64_t count) const {
    ProbeElements elements;
    for (uint64_t i = first; i < first + count; ++i)
      elements.push_back(element_bits(form_.dtype, reduced(i)));
    return elements;
  }

  // ---- operands -------------------------------------------------------------------------------------------------

  void add_operands() {
    const bool is_root = form_.root == group_.own;
    switch (form_.kind) {
      case TSR_COLL_ALL_GATHER:
        return gather();
      case TSR_COLL_REDUCE_SCATTER:
        return scatter();
      case TSR_COLL_BROADCAST:
        return is_root ? whole(moved(form_.root, 0, kWholeElements), moved(form_.root, 0, kWholeElements))
                       : receive(moved(form_.root, 0, kWholeElements));
      case TSR_COLL_REDUCE:
        if (is_root) return whole(own(kWholeElements), sum(0, kWholeElements));
        probe_.send = add_range(probe_, own(kWholeElements));
        return;
      case TSR_COLL_ALL_TO_ALL:
        return exchange();
      default:
        return whole(own(kWholeElements), sum(0, kWholeElements));
    }
  }
  void whole(const ProbeElements& sent, const ProbeElements& received) {
    probe_.send = in_place_ ? add_range(probe_, sent, received) : add_range(probe_, sent);
    probe_.recv = in_place_ ? probe_.send : add_range(probe_, unset(received.size()), received);
  }
  /// A program gives both pointers on a rank that only receives.
  void receive(const ProbeElements& received) {
    probe_.send = probe_.recv = add_range(probe_, unset(received.size()), received);
  }
  void gather() {
    ProbeElements before = unset(total_), after;
    for (int member = 0; member < group_.count(); ++member) {
      const ProbeElements part = moved(member, 0, slice(member));
      after.insert(after.end(), part.begin(), part.end());
    }
    const ProbeElements own_part = moved(group_.own, 0, slice(group_.own));
    if (in_place_)
      std::ranges::copy(own_part, before.begin() + static_cast<ptrdiff_t>(own_begin_));
    else
      probe_.send = add_range(probe_, own_part);
    probe_.recv = add_range(probe_, before, after);
    if (in_place_) probe_.send = own_slice(probe_.recv);
  }
  void scatter() {
    const ProbeElements before = own(total_), own_sum = sum(own_begin_, slice(group_.own));
    if (!in_place_) {
      probe_.send = add_range(probe_, before);
      probe_.recv = add_range(probe_, unset(own_sum.size()), own_sum);
      return;
    }
    ProbeElements after = before;
    std::ranges::copy(own_sum, after.begin() + static_cast<ptrdiff_t>(own_begin_));
    probe_.send = add_range(probe_, before, after);
    probe_.recv = own_slice(probe_.send);
    const uint64_t element_bytes = TSR_NUM_BYTES(form_.dtype, 1), own_end = own_begin_ + own_sum.size();
    leave_undefined(probe_, probe_.send, own_begin_ * element_bytes);
    leave_undefined(probe_, probe_.recv + static_cast<int64_t>(own_sum.size() * element_bytes),
                    (total_ - own_end) * element_bytes);
  }
  /// With counts a member sends others another number than it receives from them.
  void exchange() {
    const auto num_sent = [&](int from, int to) {
      return form_.is_even ? kSliceElements : 1 + static_cast<uint64_t>(from + 2 * to) % 3;
    };
    ProbeElements sent, received;
    for (int other = 0; other < group_.count(); ++other) {
      const uint64_t out = num_sent(group_.own, other), in = num_sent(other, group_.own);
      const ProbeElements gives = moved(group_.own, static_cast<uint64_t>(other), out),
                          gets = moved(other, static_cast<uint64_t>(group_.own), in);
      sent.insert(sent.end(), gives.begin(), gives.end());
      received.insert(received.end(), gets.begin(), gets.end());
      if (!form_.is_even) probe_.counts.push_back(out);
      if (!form_.is_even) probe_.recv_counts.push_back(in);
    }
    if (!form_.is_even) probe_.collective.num_elements = 0;
    probe_.send = add_range(probe_, sent);
    probe_.recv = add_range(probe_, unset(received.size()), received);
  }

  const CollectiveForm& form_;
  const ProbedGroup& group_;
  const bool in_place_;
  Probe probe_;
  uint64_t own_begin_ = 0, total_ = 0;  // elements of a whole that is cut: before this rank's slice, and all
};

}  // namespace

CollectiveForm form_of(const tsr_collective& collective) {
  return {collective.kind, collective.counts == nullptr, collective.dtype, collective.reduce,
          has_root(collective.kind) ? collective.peer : -1};
}

std::vector<CollectiveForm> tested_forms(const std::set<CollectiveForm>& used, int num_members) {
  std::set<CollectiveForm> forms;
  for (const CollectiveForm& form : used)
    if (has_probe(form)) add_with_more(forms, form, num_members);
  std::map<CollectiveForm, std::vector<CollectiveForm>> by_root;  // those that differ in nothing else
  for (CollectiveForm form : forms) {
    const CollectiveForm one = form;
    form.root = -1;
    by_root[form].push_back(one);
  }
  std::vector<CollectiveForm> tested;
  for (const auto& [form, roots] : by_root)
    for (const CollectiveForm& one : selection(roots, kMaxRoots))
      tested.push_back(one);
  return selection(tested, kMaxForms);
}

std::vector<Probe> form_probes(const CollectiveForm& form, const ProbedGroup& group) {
  std::vector<Probe> probes;
  if (form.kind != TSR_COLL_ALL_TO_ALL) probes.push_back(FormProbe(form, group, true).make());
  probes.push_back(FormProbe(form, group, false).make());
  return probes;
}

}  // namespace tessera::host
