// A config.json from anybody: whatever its bytes, its reader accepts it or says why not, and of what it accepts a model
// can be built, and the config.json that Tessera writes of it reads back as the same model.
#include "fuzz/fuzz_target.h"
#include "fuzz/memory_file.h"
#include "model/architecture.h"
#include "model/model_name.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr int64_t kMaxSegments = 200;  // a larger model takes its time

std::string facts_of(const Architecture& architecture) {
  std::string text;
  for (const ModelFact& fact : architecture.facts())
    text += fact.name + " = " + fact.value + "\n";
  return text;
}

std::shared_ptr<const Architecture> read(std::string_view config) {
  static const MemoryFile file("config.json");
  file.write(config);
  std::shared_ptr<const Architecture> architecture;
  succeeds([&] { architecture = find_architecture(file.folder()).architecture; });
  return architecture;
}

void use(const Architecture& architecture) {
  require(!architecture.summary().empty(), "a model without a summary");
  const std::shared_ptr<const Architecture> again = read(architecture.hugging_face_config("float32"));
  require(again != nullptr, "the config.json that was written does not read back");
  require(facts_of(*again) == facts_of(architecture), "the config.json that was written is of another model");
  if (architecture.num_segments() > kMaxSegments) return;
  succeeds([&] {
    const Model model = architecture.build({.batch = 1, .seq = 1});
    require(static_cast<int64_t>(model.segments.size()) == architecture.num_segments(), "another number of segments");
  });
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "n_positions": 16, "vocab_size": 32})",
          R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",)"
          R"("layer_norm_epsilon": 1e-05, "n_layer": 1, "n_head": 4, "n_embd": 16, "n_ctx": 8, "n_inner": 32,)"
          R"("n_positions": 8, "vocab_size": 101, "resid_pdrop": 0.1, "embd_pdrop": 0, "attn_pdrop": null,)"
          R"("tie_word_embeddings": true, "scale_attn_weights": true, "bos_token_id": 0, "eos_token_id": 1})",
          "{}"};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  if (const auto architecture = read({reinterpret_cast<const char*>(data), size})) use(*architecture);
  return 0;
}
