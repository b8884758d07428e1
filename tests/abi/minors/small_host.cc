// small_host PLUGIN [DEVICE]: a host in one file, which is built with the headers of one minor and again with those of
// the next. It loads a plugin of any kind, drives every function of its table once, and prints what came of it.
// Whatever the minors of host and plugin, that must be the same but for the first line, which has the effective minor.
// The real host would show less, and takes half an hour to build: what is at stake are lengths, offsets and numbers,
// and for these any program is a host. DEVICE is the one that a communicator works on.
//
// It also checks what a host may count on: tables of the length of the oldest minor, and of its own where the plugin
// says so.
#include "drive_devices.h"
#include "drive_passes.h"

namespace tessera::minors {
namespace {

void run(int num_words, char** words) {
  if (num_words < 2) stop("usage", "small_host PLUGIN [DEVICE]");
  const Plugin plugin = load(words[1]);
  const std::string kind = key_of(plugin.descriptor->kind);
  std::printf("effective minor %u\n%s %s\n", plugin.minor, kind.c_str(), key_of(plugin.descriptor->name).c_str());
  if (kind == TSR_KIND_STRATEGY) return drive_strategy(plugin);
  if (kind == TSR_KIND_OFFLOAD) return drive_policy(plugin);
  if (kind == TSR_KIND_DEVICE) return drive_device(plugin);
  if (num_words < 3) stop("usage", "a communicator needs a device");
  drive_communicator(plugin, words[2]);
}

}  // namespace
}  // namespace tessera::minors

int main(int num_words, char** words) {
  tessera::minors::run(num_words, words);
  return 0;
}
