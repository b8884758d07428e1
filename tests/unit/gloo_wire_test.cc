// What two members of gloo-comm compare before data goes from one to the other, and how a difference reads.
#include "gloo-comm/connections/wire.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace tessera::gloo_comm {
namespace {

Header sum_of_seven() {
  Header header{};
  header.kind = TSR_COLL_ALL_REDUCE;
  header.reduce = TSR_REDUCE_SUM;
  header.dtype = TSR_F32;
  header.root = -1;
  header.ticket = 3;
  header.num_elements = 7;
  header.sequence = 5;
  return header;
}

TEST(Header, ADifferenceIsNamed) {
  EXPECT_EQ(difference(sum_of_seven(), sum_of_seven()), nullptr);
  const std::vector<std::pair<std::string, std::function<void(Header&)>>> changes = {
      {"kind", [](Header& h) { h.kind = TSR_COLL_REDUCE; }},
      {"order", [](Header& h) { ++h.ticket; }},
      {"dtype", [](Header& h) { h.dtype = TSR_F64; }},
      {"reduction", [](Header& h) { h.reduce = TSR_REDUCE_MAX; }},
      {"root", [](Header& h) { h.root = 1; }},
      {"number of elements", [](Header& h) { ++h.num_elements; }},
      {"counts", [](Header& h) { ++h.counts_hash; }},
      {"version of gloo-comm", [](Header& h) { ++h.num_inline_bytes; }}};
  Header all = sum_of_seven();
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    Header one = sum_of_seven();
    change->second(one);
    EXPECT_EQ(difference(sum_of_seven(), one), change->first);
    change->second(all);  // the first of several
    EXPECT_EQ(difference(sum_of_seven(), all), change->first);
  }
  Header sent = sum_of_seven(), received = sum_of_seven();
  sent.kind = received.kind = TSR_COLL_ALL_TO_ALL;
  ++received.counts_hash;
  EXPECT_EQ(difference(sent, received), std::string("number of elements the other way"));
}

TEST(Header, HasARootWhereTheCollectiveHasOne) {
  Collective collective;
  collective.peer = 2;
  for (const auto& [kind, root] : {std::pair(TSR_COLL_BROADCAST, 2), std::pair(TSR_COLL_REDUCE, 2),
                                   std::pair(TSR_COLL_ALL_REDUCE, -1), std::pair(TSR_COLL_ALL_GATHER, -1)}) {
    collective.kind = kind;
    EXPECT_EQ(make_header(collective, 1, true).root, root);
  }
}

TEST(Header, WhereItsDataIsDoesNotMatter) {
  Header other = sum_of_seven();
  other.sequence = other.address = other.result = other.is_readable = 1;
  EXPECT_EQ(difference(sum_of_seven(), other), nullptr);
}

TEST(Header, ReadsAsACollective) {
  Header header = sum_of_seven();
  EXPECT_EQ(header_text(header), "all_reduce #5 (sum, 7 elements f32)");
  header.kind = TSR_COLL_BROADCAST;
  header.reduce = 0;
  header.root = 0;
  EXPECT_EQ(header_text(header), "broadcast #5 (7 elements f32, root 0)");
  header.kind = TSR_COLL_ALL_TO_ALL;
  header.root = -1;
  header.counts_hash = 9;
  EXPECT_EQ(header_text(header), "all_to_all #5 (7 elements f32, 9 the other way)");
  header.kind = TSR_COLL_BARRIER;
  EXPECT_EQ(header_text(header), "barrier #5");
}

}  // namespace
}  // namespace tessera::gloo_comm
