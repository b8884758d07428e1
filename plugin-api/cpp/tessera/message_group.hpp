// SPDX-License-Identifier: Apache-2.0
// The messages between group_begin and group_end, combined into one exchange.
//
// Two ranks that each send to the other and then receive would wait for one another, since a send ends when it has been
// received. As one exchange both directions are open at once. ncclGroupStart and ncclGroupEnd have the same meaning.
#pragma once

#include "tessera/collective.hpp"

namespace tessera {

/// [issue-thread]
class MessageGroup {
 public:
  explicit MessageGroup(const Member& member) : member_(member) {}  // borrows

  /// FAILED_PRECONDITION inside a group.
  void begin() {
    if (is_open_) throw Error(TSR_E_FAILED_PRECONDITION, member_.where() + ": group_begin inside a group");
    is_open_ = true;
    exchange_.transfers.clear();
  }

  /// Inside a group: takes a SEND or RECV, refuses anything else, and returns true. Outside: returns false.
  bool take(const Collective& added) {
    if (!is_open_) return false;
    if (added.kind != TSR_COLL_SEND && added.kind != TSR_COLL_RECV)
      throw collective_error(TSR_E_FAILED_PRECONDITION, member_, added,
                             "was submitted between group_begin and group_end; only send and recv may be");
    if (exchange_.transfers.empty()) {
      exchange_ = added;
      exchange_.kind = TSR_COLL_EXCHANGE;
      return true;
    }
    if (exchange_.stream != added.stream)
      throw collective_error(TSR_E_INVALID_ARGUMENT, member_, added,
                             "was submitted to another stream than the rest of its message group");
    exchange_.timeout_ms = std::max(exchange_.timeout_ms, added.timeout_ms);
    exchange_.transfers.push_back(added.transfers.front());
    return true;
  }

  /// The group ends: an EXCHANGE, valid until the next begin(), without transfers if there was no message.
  Collective& end() {
    if (!is_open_) throw Error(TSR_E_FAILED_PRECONDITION, member_.where() + ": group_end without group_begin");
    is_open_ = false;
    return exchange_;
  }

 private:
  const Member& member_;
  bool is_open_ = false;
  Collective exchange_;
};

}  // namespace tessera
