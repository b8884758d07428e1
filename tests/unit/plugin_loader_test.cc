#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "config/usage_error.h"
#include "plugins/elf_inspect.h"
#include "plugins/loader.h"
#include "plugins/plugin_file.h"
#include "plugins/plugin_report.h"
#include "support/expect_error.h"
#include "support/paths.h"

namespace tessera::host {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using Parts = std::vector<std::string>;

const fs::path kBadPlugins = testing::binary_dir("tests/bad_plugins");
const Log kQuiet(LogLevel::off);

fs::path plugin(const std::string& name) {
  return kBadPlugins / (name + ".so");
}

LoadedPlugin load(const fs::path& path) {
  return load_plugin(path, kQuiet);
}

void refuse(const fs::path& path, Parts parts) {
  parts.push_back(path.string());
  expect_error<UsageError>([&] { load(path); }, parts);
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder of this test's own, gone afterwards.
class PluginFiles : public ::testing::Test {
 protected:
  PluginFiles() {
    std::string pattern = (fs::canonical(::testing::TempDir()) / "plugin_loader_test.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~PluginFiles() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  fs::path copy_good(const std::string& name) { return write(name, read(plugin("good"))); }

  fs::path folder_;
};

TEST(Loader, LoadsAGoodPlugin) {
  const LoadedPlugin good = load(plugin("good"));
  EXPECT_EQ(good.kind, PluginKind::strategy);
  EXPECT_EQ(good.name, "sample");
  EXPECT_EQ(good.id, "org.tessera.tests.sample");
  EXPECT_EQ(good.version, "1.2.3");
  EXPECT_EQ(good.abi_minor, TSR_ABI_MINOR);
  EXPECT_EQ(good.options.size(), 5u);
  EXPECT_EQ(good.options[3].choices, (Parts{"fast", "exact"}));
  EXPECT_EQ(good.strategy()->role, TSR_STRATEGY_SPLIT_STORAGE);
  EXPECT_EQ(good.sha256, sha256_hex(read(plugin("good"))));
  EXPECT_EQ(good.fingerprint(), "org.tessera.tests.sample 1.2.3 abi 0.12 sha256 " + good.sha256);
  expect_error([&] { good.device(); }, {"sample", "is a strategy"});
}

TEST(Loader, LoadsAnOffloadPolicy) {
  const LoadedPlugin policy = load(plugin("policy"));
  EXPECT_EQ(policy.kind, PluginKind::offload);
  EXPECT_EQ(policy.offload(), policy.interface);
  EXPECT_NE(policy.offload()->plan, nullptr);
  expect_error([&] { policy.strategy(); }, {"sample is an offload policy but was used as a strategy"});
  expect_error([&] { load(plugin("good")).offload(); }, {"is a strategy but was used as an offload policy"});
}

TEST(Loader, LoadsTwiceAndGivesTheSameTable) {
  EXPECT_EQ(load(plugin("good")).interface, load(plugin("good")).interface);
}

TEST(Sha256, HasTheKnownValue) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Handshake, WrongAnswersAreRefused) {
  refuse(plugin("wrong_magic"), {"wrong magic"});
  refuse(plugin("refuses_magic"), {"refused this host", "the magic number is not 0x1234", "0.12"});
  refuse(plugin("wrong_major"), {"needs plugin ABI 7.12, but this host has 0.12"});
  refuse(plugin("older_minor"), {"0.3 to 0.9", "this host has 0.12"});
  refuse(plugin("inverted_minors"), {"0.13 to 0.12", "this host has 0.12"});
  refuse(plugin("newer_minor"), {"0.13 to 0.14", "this host has 0.12", "use a later host", "TSR_TARGET_MINOR"});
  refuse(plugin("silent_failure"), {"refused this host", "no reason given"});
  refuse(plugin("unset_minor"), {"did not report which plugin ABI"});
}

TEST(Handshake, WrongDescriptorsAreRefused) {
  refuse(plugin("no_factory"), {"factory"});
  refuse(plugin("short_descriptor"), {"descriptor of 40 bytes"});
  refuse(plugin("unknown_kind"), {"'painter'", "strategy, communicator, device and offload"});
  refuse(plugin("bad_name"), {"'../etc'"});
  refuse(plugin("no_id"), {"no id"});
  refuse(plugin("bad_default"), {"bucket-mb", "4096", "1 to 1024"});
  refuse(plugin("option_twice"), {"ratio", "twice"});
  refuse(plugin("option_of_dashes"), {"'--steps'", "a dash is not the first"});
  refuse(plugin("spare_option"), {"tsr_option", "spare or reserved word"});
  refuse(plugin("unknown_option_flags"), {"tsr_option has the unknown flags 64", "ABI 0.12 gives it no meaning"});
  refuse(plugin("reserved_descriptor"), {"has 3 in the reserved word of its descriptor"});
  refuse(plugin("reserved_factory"), {"has 5 in the reserved word of its factory"});
  refuse(plugin("null_version"), {"a malformed version"});
  refuse(plugin("version_not_utf8"), {"a version that is not UTF-8: 1.\\xff\\xfe"});
  refuse(plugin("unknown_flags"), {"has 2147483648 in flags in its table tsr.strategy/1", "gives no meaning"});
  refuse(plugin("unknown_policy_flags"), {"has 8 in flags in its table tsr.offload/1"});
  refuse(plugin("splits_sequence"), {"splits 9", "the batch (1), the layers (2) or the tensors (4)"});
}

TEST(Handshake, WrongTablesAreRefused) {
  refuse(plugin("no_interface"), {"has no table tsr.strategy/1"});
  refuse(plugin("short_table"), {"tsr.strategy/1 of 40 bytes", "at least"});
  refuse(plugin("hole_in_table"), {"no function lower"});
  refuse(plugin("lying_kind"), {"has no table tsr.communicator/1"});
  refuse(plugin("short_policy"), {"tsr.offload/1 of 24 bytes", "at least 40"});
  refuse(plugin("policy_without_plan"), {"no function plan", "tsr.offload/1"});
}

TEST(Handshake, PointersThatLieAreRefused) {
  refuse(plugin("wild_factory"), {"a factory that is missing"});
  refuse(plugin("wild_version"), {"a malformed version"});
  refuse(plugin("wild_options"), {"a malformed list of 5 options"});
  refuse(plugin("wild_table"), {"a table tsr.strategy/1 in memory that cannot be read"});
  refuse(plugin("huge_table"), {"a table tsr.strategy/1 of 1000000 bytes; the limit is 65536"});
}

TEST(Linking, ThatHarmsTheProcessIsRefused) {
  refuse(plugin("fast_math"), {"changes how floating-point numbers are computed", "-ffast-math"});
  refuse(plugin("executable_stack"), {"would make the stack of the process executable", "-z noexecstack"});
  refuse(plugin("runpath_relative"), {"needs libraries from the folder 'libraries' of its RUNPATH", "$ORIGIN"});
  refuse(plugin("runpath_empty"),
         {"needs libraries from the current folder", "empty entry", "BUILD_WITH_INSTALL_RPATH"});
  refuse(plugin("runpath_open"), {"/tmp/tessera-missing-folder, which is not there and which any user may make"});
  refuse(plugin("static_tls"), {"cannot be loaded: ", "static TLS", "without -ftls-model=initial-exec"});
  refuse(plugin("filter_by_path"), {"needs the library /tmp/tessera-missing.so by a path", "soname"});
}

TEST(Exports, WrongOnesAreRefused) {
  refuse(plugin("entry_variable"), {"exports tsr_plugin_query_v1, which is not a function"});
  refuse(plugin("no_entry"), {"does not export tsr_plugin_query_v1"});
  refuse(plugin("extra_export"), {"exports more than tsr_plugin_query_v1", "another_function"});
  refuse(plugin("unique_symbol"), {"unique symbols", "shared_by_all", "-fno-gnu-unique"});
  refuse(plugin("undefined_symbol"), {"cannot be loaded: ", ": undefined symbol: missing_from_every_library; install"});
  refuse(plugin("executable"), {"not a shared object"});
}

TEST_F(PluginFiles, ThatAreNoPluginsAreRefused) {
  refuse(write("text.so", "hello, this is not a shared object at all, but a text"), {"is not an ELF file"});
  refuse(write("empty.so", ""), {"is not an ELF file"});
  fs::create_directory(folder_ / "folder.so");
  refuse(folder_ / "folder.so", {"is not a regular file"});
  ASSERT_EQ(mkfifo((folder_ / "pipe.so").c_str(), 0600), 0);
  refuse(folder_ / "pipe.so", {"is not a regular file"});
  refuse(folder_ / "missing.so", {"No such file"});
  fs::create_symlink("loop.so", folder_ / "loop.so");
  refuse(folder_ / "loop.so", {"symbolic links"});
}

TEST_F(PluginFiles, OfAnotherMachineAreRefused) {
  std::string bytes = read(plugin("good"));
  bytes[EI_CLASS] = bytes[EI_CLASS] == ELFCLASS64 ? ELFCLASS32 : ELFCLASS64;
  refuse(write("class.so", bytes), {"another machine", "class"});
  bytes = read(plugin("good"));
  bytes[offsetof(Elf64_Ehdr, e_machine)] ^= 0x40;
  refuse(write("machine.so", bytes), {"another machine"});
  bytes = read(plugin("good"));
  bytes[offsetof(Elf64_Ehdr, e_type)] = ET_REL;
  refuse(write("object.so", bytes), {"not a shared object"});
}

TEST_F(PluginFiles, CutAnywhereAreRefused) {
  const std::string bytes = read(plugin("good"));
  for (size_t length = 0; length < bytes.size(); length += 97)
    expect_error<UsageError>([&] { inspect_shared_object({bytes.data(), length}); }, {});
  refuse(write("cut.so", bytes.substr(0, bytes.size() / 2)), {"truncated"});
}

// The folder must still be listed, and no memory taken for it.
TEST_F(PluginFiles, OfAnySizeAreRefusedBeforeTheyAreRead) {
  copy_good("sample.so");
  write("zeros.so", "");
  fs::resize_file(folder_ / "zeros.so", uint64_t{30} << 30);
  refuse(folder_ / "zeros.so", {"is not an ELF file"});
  fs::resize_file(copy_good("padded.so"), uint64_t{30} << 30);
  refuse(folder_ / "padded.so", {"has 32212254720 bytes; the limit is 1073741824"});
  const std::string list = plugins_list({folder_}, false);
  EXPECT_NE(list.find("sample.so\n"), std::string::npos) << list;
  EXPECT_NE(list.find("the limit is 1073741824"), std::string::npos) << list;
}

/// A plugin with a library beside it, each copied.
fs::path copy_with_library(const fs::path& folder, const std::string& name) {
  const std::string libraries = name + "_libraries";
  fs::create_directories(folder / libraries);
  fs::copy_file(kBadPlugins / libraries / "libbrought.so", folder / libraries / "libbrought.so");
  fs::copy_file(plugin("brings_" + name), folder / (name + ".so"));
  return folder / (name + ".so");
}

TEST_F(PluginFiles, ThatBringLibrariesWhichOthersMayWriteAreRefused) {
  const fs::path path = copy_with_library(folder_, "first");
  const fs::path library = folder_ / "first_libraries/libbrought.so";
  fs::permissions(library, fs::perms::others_write, fs::perm_options::add);
  refuse(path, {"needs the library " + library.string() + ", which may be written by anybody"});
  fs::copy_file(plugin("auxiliary"), folder_ / "auxiliary.so");
  refuse(folder_ / "auxiliary.so", {"needs the library " + library.string() + ", which may be written by anybody"});
  fs::permissions(library, fs::perms::others_write, fs::perm_options::remove);
  fs::permissions(library.parent_path(), fs::perms::all);
  refuse(path, {"needs libraries from " + library.parent_path().string() + ", and any user may write the folder"});
  fs::permissions(library.parent_path(), fs::perms(0755));
  write("first_libraries/libbrought.so", "no ELF");
  refuse(path, {"needs the library " + library.string() + ", which is not an ELF file"});
  fs::remove(library);
  refuse(path, {"cannot be loaded", "libbrought.so", "install what it needs"});
  if (geteuid() != 0) return;
  fs::copy_file(kBadPlugins / "first_libraries/libbrought.so", library, fs::copy_options::overwrite_existing);
  ASSERT_EQ(chown(library.c_str(), 65534, 0), 0);
  refuse(path, {"needs the library " + library.string() + ", which belongs to user 65534", "root"});
}

TEST_F(PluginFiles, ThatBringDifferentLibrariesOfOneNameAreWarnedOf) {
  std::ostringstream said;
  const Log log(said, LogLevel::warning);
  const LoadedPlugin first = load_plugin(copy_with_library(folder_, "first"), log);
  EXPECT_EQ(said.str(), "");
  const auto num_bytes = fs::file_size(folder_ / "first_libraries/libbrought.so");
  EXPECT_TRUE(first.fingerprint().ends_with(first.sha256 + " libbrought.so " + std::to_string(num_bytes)))
      << first.fingerprint();
  load_plugin(copy_with_library(folder_, "second"), log);
  EXPECT_NE(said.str().find("second.so brings its own libbrought.so (" +
                            (folder_ / "second_libraries/libbrought.so").string() + "), but that of " +
                            (folder_ / "first_libraries/libbrought.so").string() + " is loaded already"),
            std::string::npos)
      << said.str();
}

// Any byte of the file may be wrong: the inspector answers or refuses, and reads nothing outside (run with asan).
TEST_F(PluginFiles, WithFlippedBytesNeverCrashTheInspector) {
  const std::string bytes = read(plugin("good"));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      const std::unique_ptr<char[]> copy(new char[bytes.size()]);
      std::copy(bytes.begin(), bytes.end(), copy.get());
      copy[i] = value;
      try {
        inspect_shared_object({copy.get(), bytes.size()});
      } catch (const UsageError&) {
      }
    }
  }
}

TEST_F(PluginFiles, ThatOthersMayWriteAreRefused) {
  const fs::path path = copy_good("sample.so");
  EXPECT_EQ(load(path).name, "sample");
  fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
  refuse(path, {"may be written by anybody", "chmod o-w"});
}

TEST_F(PluginFiles, InFoldersThatOthersMayWriteAreRefused) {
  fs::create_directories(folder_ / "open/inner");
  const fs::path path = copy_good("open/inner/sample.so");
  EXPECT_EQ(load(path).name, "sample");
  fs::permissions(folder_ / "open", fs::perms::all);
  refuse(path, {"folder that any user may write, " + (folder_ / "open").string(), "chmod o-w"});
}

struct stat status_of(uid_t owner, gid_t group, mode_t mode) {
  struct stat status {};
  status.st_uid = owner;
  status.st_gid = group;
  status.st_mode = mode;
  return status;
}

TEST(WhoElseMayWrite, NobodyButRootOneselfAndTheProgramsOwner) {
  const TrustedUsers trusted{1000, 500};
  for (const uid_t owner : {0, 1000, 500})
    EXPECT_EQ(who_else_may_write(status_of(owner, 7, 0755), trusted), "");
  EXPECT_EQ(who_else_may_write(status_of(1001, 7, 0755), trusted),
            "belongs to user 1001; if you trust what is in it, run chown 1000 on it");
}

TEST(WhoElseMayWrite, AGroupThatIsNotTheOwnersOwn) {
  const TrustedUsers trusted{1000, 0};
  EXPECT_EQ(who_else_may_write(status_of(1000, 1000, 0775), trusted), "");
  EXPECT_EQ(who_else_may_write(status_of(1000, 0, 0775), trusted), "");
  EXPECT_EQ(who_else_may_write(status_of(1000, 50, 0755), trusted), "");
  EXPECT_EQ(who_else_may_write(status_of(1000, 50, 0775), trusted), "may be written by group 50; run chmod g-w on it");
}

constexpr uid_t kStranger = 65534;

// This process is another user's as long as the object lives. For root.
class OtherUser {
 public:
  explicit OtherUser(uid_t user) { is_other_ = seteuid(user) == 0; }
  OtherUser(const OtherUser&) = delete;
  ~OtherUser() {
    if (is_other_ && seteuid(0) != 0) std::abort();
  }

 private:
  bool is_other_;
};

TEST_F(PluginFiles, OfAnotherUserOrAGroupAreRefusedToRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to change the owner of a file";
  const fs::path path = copy_good("sample.so");
  ASSERT_EQ(chown(path.c_str(), 0, kStranger), 0);
  EXPECT_EQ(load(path).name, "sample");
  fs::permissions(path, fs::perms::group_write, fs::perm_options::add);
  refuse(path, {"may be written by group 65534", "chmod g-w", "root"});
  fs::permissions(path, fs::perms::group_write, fs::perm_options::remove);
  ASSERT_EQ(chown(path.c_str(), kStranger, 0), 0);
  refuse(path, {"belongs to user 65534", "chown 0", "root"});
}

TEST_F(PluginFiles, InAFolderOfAnotherUserAreRefusedToRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to change the owner of a folder";
  fs::create_directories(folder_ / "theirs/inner");
  const fs::path path = copy_good("theirs/inner/sample.so");
  EXPECT_EQ(load(path).name, "sample");
  ASSERT_EQ(chown((folder_ / "theirs").c_str(), kStranger, 0), 0);
  refuse(path, {"is in the folder " + (folder_ / "theirs").string() + ", which belongs to user 65534"});
}

// A checkout of another user, in which root builds and runs: they could replace the program as well.
TEST(PluginFile, MayLieInAFolderOfAnotherUserThatHoldsTheProgramToo) {
  EXPECT_EQ(read_plugin_file("/proc/self/exe").warning, "");
}

TEST_F(PluginFiles, OfAnotherUserAreWarnedOf) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to run as another user";
  const fs::path path = copy_good("sample.so");
  fs::permissions(folder_, fs::perms(0755));
  fs::permissions(path, fs::perms(0644));
  ASSERT_EQ(chown(path.c_str(), kStranger, kStranger), 0);
  std::ostringstream said;
  const Log log(said, LogLevel::warning);
  {
    const OtherUser other(1234);
    EXPECT_EQ(load_plugin(path, log).name, "sample");
  }
  EXPECT_NE(said.str().find("belongs to user 65534; if you trust what is in it, run chown 1234 on it"),
            std::string::npos)
      << said.str();
}

TEST_F(PluginFiles, AreFoundByNameInOneFolderOnly) {
  fs::create_directories(folder_ / "a");
  fs::create_directories(folder_ / "b");
  copy_good("a/sample.so");
  const std::vector<fs::path> both = {folder_ / "a", folder_ / "b"};
  EXPECT_EQ(find_plugin(PluginKind::strategy, "sample", both), folder_ / "a/sample.so");
  EXPECT_EQ(find_plugin(PluginKind::strategy, "./x/y.so", both), "./x/y.so");
  expect_error<UsageError>(
      [&] { find_plugin(PluginKind::strategy, "smaple", both); },
      {"plugin smaple for --", "was not found", (folder_ / "b").string(), "available: sample", "did you mean sample"});
  expect_error<UsageError>([&] { find_plugin(PluginKind::communicator, "sample", both); }, {"sample-comm.so", "none"});
  copy_good("b/sample.so");
  expect_error<UsageError>([&] { find_plugin(PluginKind::strategy, "sample", both); },
                           {(folder_ / "a/sample.so").string(), (folder_ / "b/sample.so").string()});
}

TEST_F(PluginFiles, MustBeOfTheKindAndNameThatWereAskedFor) {
  copy_good("sample-comm.so");
  copy_good("other.so");
  expect_error<UsageError>([&] { load_plugin(PluginKind::communicator, "sample", {folder_}, kQuiet); },
                           {"sample-comm.so is a strategy", "--comm needs a communicator"});
  expect_error<UsageError>([&] { load_plugin(PluginKind::strategy, "other", {folder_}, kQuiet); },
                           {"calls itself sample", "not other"});
  EXPECT_EQ(load_plugin(PluginKind::strategy, (folder_ / "other.so").string(), {}, kQuiet).name, "sample");
}

TEST_F(PluginFiles, OfOffloadPoliciesHaveTheirSuffix) {
  const fs::path path = write("sample-offload.so", read(plugin("policy")));
  EXPECT_EQ(find_plugin(PluginKind::offload, "sample", {folder_}), path);
  EXPECT_EQ(load_plugin(PluginKind::offload, "sample", {folder_}, kQuiet).path, path);
  expect_error<UsageError>([&] { find_plugin(PluginKind::offload, "smaple", {folder_}); },
                           {"plugin smaple for --offload was not found: no file smaple-offload.so", "available: sample",
                            "did you mean sample"});
  expect_error<UsageError>([&] { load_plugin(PluginKind::offload, plugin("good").string(), {}, kQuiet); },
                           {"is a strategy, but --offload needs an offload policy; use it with --strategy"});
  expect_error<UsageError>([&] { load_plugin(PluginKind::device, path.string(), {}, kQuiet); },
                           {"is an offload policy, but --device needs a device; use it with --offload"});
  const std::string text = plugins_list({folder_}, false);
  EXPECT_NE(text.find("offload       sample"), std::string::npos) << text;
  const std::string info = plugin_info("sample", {folder_}, false, kQuiet);
  EXPECT_NE(info.find("kind     offload  (--offload sample)"), std::string::npos) << info;
}

TEST_F(PluginFiles, FoldersOfFlagsMustExistAndAreListedOnce) {
  const auto folders = plugin_folders({folder_.string(), (folder_ / ".").string()});
  EXPECT_EQ(std::count(folders.begin(), folders.end(), folder_), 1);
  EXPECT_EQ(folders.size(), 2u);
  expect_error<UsageError>([&] { plugin_folders({(folder_ / "none").string()}); }, {"--plugin-dir", "none"});
}

TEST_F(PluginFiles, AreListedWithoutLoading) {
  copy_good("sample.so");
  write("broken-comm.so", "no ELF");
  const std::string text = plugins_list({folder_}, false);
  EXPECT_NE(text.find("strategy      sample"), std::string::npos) << text;
  EXPECT_NE(text.find("communicator  broken"), std::string::npos) << text;
  EXPECT_NE(text.find("refused: the plugin"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(plugins_list({folder_}, true));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["status"], "ok");
  EXPECT_EQ(json[1]["kind"], "communicator");
}

TEST_F(PluginFiles, AreListedInColumnsWhateverTheirNames) {
  copy_good("sample.so");
  copy_good("new\nline.so");
  const std::string text = plugins_list({folder_}, false);
  EXPECT_NE(text.find("strategy      sample     /"), std::string::npos) << text;
  EXPECT_NE(text.find("strategy      new\\nline  /"), std::string::npos) << text;
}

TEST_F(PluginFiles, InfoTellsWhatAPluginIs) {
  copy_good("sample.so");
  const auto json = nlohmann::json::parse(plugin_info("sample", {folder_}, true, kQuiet));
  EXPECT_EQ(json["id"], "org.tessera.tests.sample");
  EXPECT_EQ(json["abi"], "0.12");
  EXPECT_EQ(json["options"][0]["max"], 1024);
  const std::string text = plugin_info((folder_ / "sample.so").string(), {}, false, kQuiet);
  EXPECT_NE(text.find("\n  --sample.bucket-mb N      MiB per bucket, from 1 to 1024 (default 25)\n"), text.npos)
      << text;
  EXPECT_NE(text.find("\n  --sample.mode fast|exact "), text.npos) << text;
  expect_error<UsageError>([&] { plugin_info("smaple", {folder_}, false, kQuiet); }, {"available: sample"});
}

}  // namespace
}  // namespace tessera::host
