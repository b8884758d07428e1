// The one list of architectures. A new one is a folder of its own beside gpt2/, an include, and a line here.

#include "model/architectures.h"

#include "base/concat.h"
#include "model/gpt2/gpt2_family.h"
#include "model/mlp/mlp_family.h"

namespace tessera::host {

std::span<const ArchitectureFamily* const> architecture_families() {
  static const ArchitectureFamily* const families[] = {
      &gpt2_family(),
      &mlp_family(),
  };
  return families;
}

std::vector<std::string> model_names() {
  std::vector<std::string> all;
  for (const ArchitectureFamily* family : architecture_families())
    for (std::string& name : family->names())
      all.push_back(std::move(name));
  return all;
}

std::string models_help() {
  std::string text;
  for (const ArchitectureFamily* family : architecture_families())
    text += concat("  ", family->help(), "\n");
  return text +
         "  a Hugging Face folder with config.json and, to start from weights,\n"
         "    model.safetensors\n";
}

std::string model_types() {
  std::string text;
  for (const ArchitectureFamily* family : architecture_families())
    if (!family->model_type().empty()) text += concat(text.empty() ? "" : " and ", '"', family->model_type(), '"');
  return text;
}

std::vector<std::string_view> foreign_weight_names() {
  std::vector<std::string_view> all;
  for (const ArchitectureFamily* family : architecture_families())
    for (const std::string_view name : family->foreign_weights())
      all.push_back(name);
  return all;
}

}  // namespace tessera::host
