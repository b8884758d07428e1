// An installation, as a folder or a Debian package: the program, its plugins, manual pages and completions. Everything
// is found relative to the program, wherever that is.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "e2e/cli.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

CommandResult in_folder(const std::string& folder, const std::string& script) {
  return Command({"/bin/bash", "-c", "cd '" + folder + "' && " + script}).wait(std::chrono::minutes(3));
}

Words words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// Trains with two ranks, and lists the plugins: all from below `root`.
void expect_works(const std::string& program, const std::string& root) {
  const CommandResult list = run_command({program, "plugins", "list", "--json"});
  ASSERT_EQ(list.exit_code, 0) << list.err;
  EXPECT_NE(list.out.find(fs::canonical(root).string() + "/lib/tessera/ddp.so"), std::string::npos) << list.out;
  EXPECT_EQ(list.out.find(binary_dir()), std::string::npos) << list.out;
  Words command = train({"--nproc=2", "--strategy=fsdp", "--steps=2"});
  command[0] = program;
  const CommandResult result = run_command(command);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("done: 2 steps"), std::string::npos) << result.err;
}

class Installed : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    for (const char* component : {"runtime", "plugin-api"}) {
      const CommandResult result =
          run_command({TESSERA_CMAKE, "--install", binary_dir(), "--prefix", prefix(), "--component", component});
      ASSERT_EQ(result.exit_code, 0) << result.err;
    }
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string prefix() { return folder_->path("prefix"); }
  static std::string program() { return prefix() + "/bin/tessera"; }

  static inline TempFolder* folder_ = nullptr;
};

TEST_F(Installed, FindsItsPluginsWhereverItLies) {
  expect_works(program(), prefix());
  const std::string moved = folder_->path("moved");
  fs::rename(prefix(), moved);
  expect_works(moved + "/bin/tessera", moved);
  fs::create_symlink(moved + "/bin/tessera", folder_->path("link"));
  expect_works(folder_->path("link"), moved);
  fs::rename(moved, prefix());
}

TEST_F(Installed, SaysWhatItWasBuiltFrom) {
  const CommandResult result = run_command({program(), "--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(std::regex_search(result.out, std::regex(R"(^tessera \d+\.\d+\.\d+, plugin ABI \d+\.\d+)")))
      << result.out;
  EXPECT_TRUE(std::regex_search(result.out, std::regex(R"(commit +([0-9a-f]{12}|unknown))"))) << result.out;
  EXPECT_TRUE(std::regex_search(result.out, std::regex(R"(compiler +(GNU|Clang) \d+)"))) << result.out;
  for (const char* library : {"Boost", "gloo", "oneDNN", "OpenSSL", "spdlog", "zlib"})
    EXPECT_TRUE(std::regex_search(result.out, std::regex(std::string(library) + R"( \d+\.\d+)"))) << result.out;
}

/// Names of flags, in order, that the help or a page of the command shows.
std::set<std::string> flags_in(const std::string& text) {
  const std::regex flag(R"((?:^|\n) *(?:\\fB|-h \[ )?(?:--|\\-\\-)((?:[a-z0-9-]|\\-)+))");
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), flag), end; it != end; ++it)
    names.insert(std::regex_replace((*it)[1].str(), std::regex(R"(\\)"), ""));
  return names;
}

TEST_F(Installed, HasAManualPageOfEveryCommandWithItsFlags) {
  for (const char* command : {"train", "eval", "generate", "convert", "plan", "tokenize"}) {
    SCOPED_TRACE(command);
    const std::string page = file_bytes(prefix() + "/share/man/man1/tessera-" + command + ".1");
    EXPECT_TRUE(page.starts_with(std::string(".TH tessera\\-") + command + " 1")) << page.substr(0, 100);
    const std::string help = run_command({program(), command, "--help"}).out;
    for (const std::string& name : flags_in(page))
      EXPECT_NE(help.find("--" + name), std::string::npos) << name;
    EXPECT_TRUE(flags_in(page).contains("help")) << page;
    EXPECT_EQ(flags_in(page).size(), flags_in(help).size()) << help;
    for (const char* section : {"\n.SH DESCRIPTION\n", "\n.SH EXAMPLES\n.nf\ntessera "})
      EXPECT_NE(page.find(section), std::string::npos) << section << page;
    // The flags that refer to a section of models, and the section.
    EXPECT_EQ(page.find("see Models below") != std::string::npos, page.find("\n.SH MODELS\n") != std::string::npos);
  }
  EXPECT_NE(file_bytes(prefix() + "/share/man/man1/tessera-train.1")
                .find("\n\\fBtessera train\\fR \\-\\-model NAME|FOLDER \\-\\-data PATH [flags]\n"),
            std::string::npos);
  const std::string page = file_bytes(prefix() + "/share/man/man1/tessera.1");
  const std::string help = run_command({program(), "--help"}).out;
  const std::regex row(R"(\n  ([a-z]+) )");
  size_t num_commands = 0;
  for (std::sregex_iterator it(help.begin(), help.end(), row), end; it != end; ++it, ++num_commands) {
    const std::string command = (*it)[1];
    EXPECT_NE(page.find("tessera\\-" + command + "(1)"), std::string::npos) << page;
    EXPECT_TRUE(fs::exists(prefix() + "/share/man/man1/tessera-" + command + ".1")) << command;
  }
  EXPECT_GE(num_commands, 10u) << help;
}

TEST_F(Installed, CompletesInBash) {
  const std::string script = prefix() + "/share/bash-completion/completions/tessera";
  const auto complete = [&](const std::string& words, int current) {
    const CommandResult result = in_folder(source_dir(), "source " + script + " && COMP_WORDS=(" + words +
                                                             ") COMP_CWORD=" + std::to_string(current) +
                                                             " && { _tessera; printf '%s\\n' \"${COMPREPLY[@]}\"; }");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return words_of(result.out);
  };
  EXPECT_EQ(complete("tessera tra", 1), (Words{"train", "trace"}));
  EXPECT_EQ(complete("tessera train --batch", 2), (Words{"--batch-size"}));
  EXPECT_EQ(complete("tessera train --dtype b", 3), (Words{"bf16"}));
  EXPECT_EQ(complete("tessera train --dtype = f", 4), (Words{"float32", "fp16"}));
  EXPECT_EQ(complete("tessera train --model exam", 3), (Words{"examples"}));
  EXPECT_EQ(complete("tessera train --steps 1", 3), (Words{}));
  const std::string program = prefix() + "/bin/tessera";
  EXPECT_EQ(complete(program + " train --strategy f", 3), (Words{"fsdp"}));
  EXPECT_EQ(complete(program + " train --comm = l", 4), (Words{"local"}));
  EXPECT_EQ(complete(program + " train --comm a", 3), (Words{"auto"}));
  EXPECT_EQ(complete("tessera plugins l", 2), (Words{"list"}));
  EXPECT_EQ(complete("tessera plan --sv", 2), (Words{"--svg"}));
  EXPECT_EQ(complete("tessera completion ''", 2), (Words{"bash", "zsh"}));
  EXPECT_EQ(complete("tessera train --model gpt2_m", 3), (Words{"gpt2_medium"}));
  EXPECT_EQ(complete("tessera train --save REA", 3), (Words{}));  // a file
  EXPECT_EQ(complete("tessera help tok", 2), (Words{"tokenize"}));
  EXPECT_EQ(complete("tessera bench comm --c", 3), (Words{"--comm", "--collectives"}));
  EXPECT_EQ(complete("tessera bench disk --c", 3), (Words{"--chunk", "--check", "--checkpoint-size"}));
  EXPECT_EQ(complete("tessera bench comm --dtype bf", 4), (Words{"bf16"}));
  EXPECT_EQ(complete(program + " plugins info fs", 3), (Words{"fsdp"}));
  EXPECT_EQ(complete(program + " train --strategy dp = f", 5), (Words{"fsdp"}));
  EXPECT_EQ(complete(program + " train --strategy = pp = pipeline,dp = f", 8), (Words{"fsdp"}));
  EXPECT_EQ(complete(program + " train --offload activations,st", 3), (Words{"activations,stream"}));
  EXPECT_EQ(complete(program + " train --fsdp.wr", 2), (Words{"--fsdp.wrap"}));
}

// A shell in a terminal of its own, to which the words and a tab are typed.
TEST_F(Installed, CompletesInZsh) {
  if (run_command({"zsh", "--version"}).exit_code != 0)
    GTEST_SKIP() << "needs zsh, which is not installed (Debian: zsh)";
  const auto complete = [&](const std::string& typed, const std::string& wanted) {
    const std::string script = R"(
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1='' fpath=($1 \$fpath); autoload -U compinit; compinit -u -d $2; echo rea''dy"
zpty -r -m shell reply '*ready*'
zpty -n -w shell "$3"$'\t'
zpty -r -m shell reply "*$4*" && print found
zpty -d shell
)";
    const CommandResult found =
        run_command({"timeout", "30", "zsh", "-f", "-c", script, "zsh", prefix() + "/share/zsh/vendor-completions",
                     folder_->path("dump"), typed, wanted});
    EXPECT_NE(found.out.find("found"), std::string::npos) << typed << "\n" << found.out << found.err;
  };
  complete("tessera tok", "tokenize");
  complete("tessera train --batch-s", "--batch-size");
  complete("tessera train --dtype=flo", "float32");
  complete("tessera plugins li", "list");
  complete(prefix() + "/bin/tessera train --strategy=fs", "fsdp");
  complete(prefix() + "/bin/tessera train --comm lo", "local");
  complete(prefix() + "/bin/tessera plan --strategy pp=pipeline,dp=fs", "fsdp");
  complete("tessera bench disk --checkp", "--checkpoint-size");
}

TEST(Packages, HaveTheProgramAndTheHeadersApart) {
  if (run_command({"dpkg-shlibdeps", "--version"}).exit_code != 0)
    GTEST_SKIP() << "needs dpkg-shlibdeps, which is not installed (Debian: dpkg-dev)";
  const TempFolder folder;
  const std::string cpack = fs::path(TESSERA_CMAKE).parent_path().string() + "/cpack";
  const CommandResult packed = in_folder(
      folder.path(), cpack + " --config " + binary_dir() + "/CPackConfig.cmake -B " + folder.path() +
                         " -D CPACK_COMPONENTS_ALL='runtime;plugin-api' -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip");
  ASSERT_EQ(packed.exit_code, 0) << packed.out << packed.err;
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (entry.path().extension() == ".deb") {
      const std::string name = entry.path().filename().string();
      EXPECT_EQ(run_command({"dpkg", "-x", entry.path(), folder.path(name.substr(0, name.find('_')))}).exit_code, 0);
      contents[name.substr(0, name.find('_'))] =
          run_command({"dpkg-deb", "--field", entry.path(), "Package", "Depends", "Architecture"}).out;
    }
  ASSERT_EQ(contents.size(), 2u) << packed.out;
  for (const char* library : {"libc6", "libgloo0", "libdnnl", "libboost-program-options", "libspdlog"})
    EXPECT_NE(contents.at("tessera").find(library), std::string::npos) << contents.at("tessera");
  EXPECT_NE(contents.at("libtessera-dev").find("Architecture: all"), std::string::npos);
  expect_works(folder.path("tessera/usr/bin/tessera"), folder.path("tessera/usr"));
  EXPECT_NE(file_bytes(folder.path("tessera/usr/share/doc/tessera/copyright")).find("Apache License"),
            std::string::npos);
  EXPECT_TRUE(fs::exists(folder.path("libtessera-dev/usr/share/doc/tessera/LICENSE")));
  EXPECT_FALSE(fs::exists(folder.path("tessera/usr/include")));
  EXPECT_TRUE(fs::exists(folder.path("libtessera-dev/usr/include/tessera/core.h")));
  EXPECT_FALSE(fs::exists(folder.path("libtessera-dev/usr/bin")));
}

}  // namespace
}  // namespace tessera::testing
