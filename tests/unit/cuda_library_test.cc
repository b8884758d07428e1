// Where libraries that are opened at run time are looked for. The library of the test lies in no folder that the linker
// searches; each test runs in a process of its own, since what is open stays open.
#include "tessera/cuda_library.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "support/expect_error.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera {
namespace {

constexpr const char* kName = "libtessera_fake.so.7";

class CudaLibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV"})
      unsetenv(name);
    setenv("PATH", "/nonexistent", 1);
    setenv("HOME", folder_.path().c_str(), 1);
  }

  /// Puts the library into the folder `name` of the test's.
  std::string install(const std::string& name) const {
    std::filesystem::create_directories(folder_.path(name));
    std::filesystem::copy(testing::binary_dir("tests/unit/libtessera_fake.so.7"), folder_.path(name + "/" + kName));
    std::filesystem::copy(testing::binary_dir("tests/unit/libtessera_fake_part.so.7"),
                          folder_.path(name + "/libtessera_fake_part.so.7"));
    return folder_.path(name);
  }

  // In a process of its own: whether the library is found in `folder` and opens its part.
  void expect_found_in(const std::string& folder) const {
    EXPECT_EXIT(
        {
          const CudaLibrary library(kName);
          const bool is_whole = library.function<int (*)()>("tessera_fake_is_whole")() != 0;
          std::fprintf(stderr, "path %s whole %d\n", library.path().c_str(), is_whole);
          std::exit(0);
        },
        ::testing::ExitedWithCode(0), "path " + folder + "/" + kName + " whole 1");
  }

  const testing::TempFolder folder_;
};

TEST_F(CudaLibraryTest, IsFoundInCudaHome) {
  const std::string folder = install("toolkit/lib64");
  setenv("CUDA_HOME", folder_.path("toolkit").c_str(), 1);
  expect_found_in(folder);
}

TEST_F(CudaLibraryTest, IsFoundInCudaPathAfterCudaHome) {
  const std::string second = install("second/lib");
  setenv("CUDA_HOME", folder_.path("first").c_str(), 1);
  setenv("CUDA_PATH", folder_.path("second").c_str(), 1);
  expect_found_in(second);
  expect_found_in(install("first/lib"));
}

TEST_F(CudaLibraryTest, IsFoundInTheActiveVirtualEnvironment) {
  const std::string folder = install("venv/lib/python3.11/site-packages/nvidia/cu13/lib");
  setenv("VIRTUAL_ENV", folder_.path("venv").c_str(), 1);
  expect_found_in(folder);
}

TEST_F(CudaLibraryTest, IsFoundAmongTheUsersOwnPackages) {
  expect_found_in(install(".local/lib/python3.12/site-packages/nvidia/cudnn/lib"));
}

TEST_F(CudaLibraryTest, IsFoundBesideThePythonOnPath) {
  const std::string folder = install("env/lib/python3.11/site-packages/nvidia/nccl/lib");
  const std::string python = folder_.write("env/bin/python3", "#!/bin/sh\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  setenv("PATH", ("/nonexistent::" + folder_.path("env/bin")).c_str(), 1);
  expect_found_in(folder);
}

TEST_F(CudaLibraryTest, IsFoundWhereTheLinkOfAVirtualEnvironmentLeads) {
  const std::string folder = install("base/lib/python3.11/dist-packages/nvidia/nccl/lib");
  const std::string python = folder_.write("base/bin/python3.11", "#!/bin/sh\n");
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  std::filesystem::create_directories(folder_.path("venv/bin"));
  std::filesystem::create_symlink(python, folder_.path("venv/bin/python3"));
  setenv("PATH", folder_.path("venv/bin").c_str(), 1);
  expect_found_in(folder);
}

TEST_F(CudaLibraryTest, ACompanionThatIsNotThereIsNotMissed) {
  install("toolkit/lib");
  setenv("CUDA_HOME", folder_.path("toolkit").c_str(), 1);
  EXPECT_EXIT(
      {
        const CudaLibrary library(kName, {"libtessera_companion.so.1", "libtessera_fake_part.so.7"});
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(CudaLibraryTest, ALackSaysWhereWasSearched) {
  setenv("CUDA_HOME", folder_.path("toolkit").c_str(), 1);
  testing::expect_error([] { const CudaLibrary library(kName); },
                        {kName, folder_.path("toolkit/lib64"), "/usr/local/cuda/lib64", "set CUDA_HOME"});
}

TEST_F(CudaLibraryTest, AFileThatIsNoLibraryIsNamed) {
  const std::string path = folder_.write(std::string("toolkit/lib/") + kName, "text");
  setenv("CUDA_HOME", folder_.path("toolkit").c_str(), 1);
  testing::expect_error([] { const CudaLibrary library(kName); }, {path});
}

TEST_F(CudaLibraryTest, AMissingFunctionIsNamed) {
  install("toolkit/lib");
  setenv("CUDA_HOME", folder_.path("toolkit").c_str(), 1);
  EXPECT_EXIT(
      {
        try {
          CudaLibrary(kName).function<int (*)()>("no_such_function");
        } catch (const Error& error) {
          std::fprintf(stderr, "%d %s\n", error.code(), error.what());
        }
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), std::to_string(TSR_E_UNAVAILABLE) + ".*no_such_function");
}

}  // namespace
}  // namespace tessera
