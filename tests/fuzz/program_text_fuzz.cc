// The text of a program from anybody: its reader, which tests use, takes it or says what is wrong; what it took prints,
// and the print reads back as itself.
#include "fuzz/fuzz_target.h"
#include "program/program_text.h"
#include "support/program_builder.h"
#include "support/program_parser/parse_program.h"

namespace tessera::testing {
namespace {

const Mesh& mesh() {
  static const Mesh mesh{{{"pp", 4, TSR_SPLITS_LAYERS}, {"dp", 2, TSR_SPLITS_BATCH}}};
  return mesh;
}

const Model& model() {
  static const Model model = toy_model();
  return model;
}

void use(const Program& program) {
  std::string text;
  if (!succeeds([&] { text = print_program(program); })) return;
  Program again;
  require(succeeds([&] { again = parse_program(text, model(), mesh()); }), "what was printed does not read back");
  require(print_program(again) == text, "what was read back is another program");
}

constexpr const char* kShape =
    "shape micro_batches=1 reduce_every=step dtype=f32 reduce_dtype=bf16 optimizer=adamw beta1=0.9 beta2=0.95 "
    "epsilon=1e-08 weight_decay=0 max_norm=0\n";

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      std::string("program step  variant 0  coordinates pp=3 dp=1\n") + kShape +
          "stream comm.dp.gather\ngroup dp\n\n%1 = home h.0 persistent f32[192]\n\n%2 = activation x.0 mb=0 "
          "f32[128]\n0 compute forward wte w %2 o:x.0\n%3 = gathered h.0 f32[384]\n1 comm.dp.gather all_gather "
          "group=dp r %1 src w %3 dst\n%4 = activation x.1 mb=0 f32[128]\n2 compute forward h.0.fc mb=0 "
          "r %3+0:256 p:h.0.fc.weight r %3+256:16 p:h.0.fc.bias r %2 i:x.0 w %4 o:x.1 # 0 1\n"
          "3 compute optimizer predicated home=h.0 a %1 dst # 2\n",
      std::string("program eval  variant 1  coordinates pp=0 dp=0\n") + kShape +
          "stream \"comm.pp.a b\"\nstream host\ngroup pp{0,2}\ngroup world\n%1 = activation \"a \\\" b\" host i32[8]\n"
          "0 comm.pp.\"a send group=pp{0,2} to=1 tag=7 r %1+2:4 src\n"};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  succeeds([&] { use(parse_program(text, model(), mesh())); });
  return 0;
}
