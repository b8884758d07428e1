// The folder of --save: which checkpoints are in it, which one is meant, which ones go.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/save_folder.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

using namespace host;
using Steps = std::vector<int64_t>;

void save(const TempFolder& folder, int64_t step, int64_t keep, const std::string& contents = "") {
  const NewCheckpoint checkpoint(folder.path(), step);
  checkpoint.begin();
  folder.write(step_folder_name(step) + ".partial/index.json", contents);
  checkpoint.commit();
  checkpoint.retire_older(keep);
  checkpoint.remove_unnamed();
}

TEST(SaveFolder, NamesHaveEightDigitsOrMore) {
  EXPECT_EQ(step_folder_name(10), "step-00000010");
  EXPECT_EQ(step_folder_name(1234567890), "step-1234567890");
  for (const int64_t step : {int64_t{0}, int64_t{7}, int64_t{123456789}})
    EXPECT_EQ(step_of_name(step_folder_name(step)), step);
  for (const char* name : {"step-10", "step-000000010", "step-0000000x", "step-", "step--0000001",
                           "step-00000010.partial", "latest", "", "step-99999999999999999999"})
    EXPECT_EQ(step_of_name(name), std::nullopt) << name;
}

TEST(SaveFolder, TheNewestStay) {
  const TempFolder folder;
  for (int64_t step = 1; step <= 5; ++step)
    save(folder, step, 2);
  EXPECT_EQ(saved_steps(folder.path()), (Steps{4, 5}));
  save(folder, 6, 0);
  EXPECT_EQ(saved_steps(folder.path()), (Steps{4, 5, 6}));
  EXPECT_EQ(file_bytes(folder.path("latest")), "step-00000006\n");
}

/// A run that went back to step 2 saves step 3 again: later steps are of the run that it left, and stay until then.
TEST(SaveFolder, ARunThatWentBackReplacesWhatItReaches) {
  const TempFolder folder;
  for (int64_t step = 1; step <= 5; ++step)
    save(folder, step, 0, "old");
  save(folder, 3, 2, "new");
  EXPECT_EQ(saved_steps(folder.path()), (Steps{2, 3, 4, 5}));
  EXPECT_EQ(file_bytes(folder.path("step-00000003/index.json")), "new");
  const CheckpointChoice choice = choose_checkpoint(folder.path());
  EXPECT_EQ(choice.folders, (std::vector{folder.path("step-00000003"), folder.path("step-00000002")}));
  EXPECT_FALSE(choice.is_explicit);
  EXPECT_EQ(choice.note, "");
  save(folder, 4, 2, "new");
  EXPECT_EQ(saved_steps(folder.path()), (Steps{3, 4, 5}));
}

TEST(SaveFolder, WhatWasNotFinishedIsNotACheckpoint) {
  const TempFolder folder;
  save(folder, 1, 0);
  NewCheckpoint(folder.path(), 2).begin();
  EXPECT_EQ(saved_steps(folder.path()), Steps{1});
  NewCheckpoint(folder.path(), 2).begin();  // again
  NewCheckpoint(folder.path(), 2).abandon();
  EXPECT_FALSE(std::filesystem::exists(folder.path("step-00000002.partial")));
  NewCheckpoint(folder.path(), 5).begin();
  save(folder, 3, 0);
  EXPECT_FALSE(std::filesystem::exists(folder.path("step-00000005.partial")));
}

TEST(SaveFolder, ACheckpointIsMeantByItsOwnName) {
  const TempFolder folder;
  save(folder, 1, 0);
  save(folder, 2, 0);
  for (const std::string& given :
       {folder.path("step-00000001"), folder.path("step-00000001/"), folder.path("step-00000009")}) {
    const CheckpointChoice choice = choose_checkpoint(given);
    EXPECT_EQ(choice.folders, std::vector{given});
    EXPECT_TRUE(choice.is_explicit);
  }
  std::filesystem::rename(folder.path("step-00000001"), folder.path("mine"));
  EXPECT_TRUE(choose_checkpoint(folder.path("mine")).is_explicit);
  EXPECT_TRUE(choose_checkpoint(folder.path("nowhere")).folders.empty());
}

TEST(SaveFolder, TheBestStaysAndIsMeantByItsName) {
  const TempFolder folder;
  NewCheckpoint(folder.path(), 7).name_best();  // which is not there
  EXPECT_FALSE(std::filesystem::exists(folder.path("best")));
  save(folder, 1, 2);
  NewCheckpoint(folder.path(), 1).name_best();
  for (int64_t step = 2; step <= 5; ++step)
    save(folder, step, 2);
  EXPECT_EQ(saved_steps(folder.path()), (Steps{1, 4, 5}));
  NewCheckpoint(folder.path(), 5).name_best();
  EXPECT_EQ(file_bytes(folder.path("best")), "step-00000005\n");
  save(folder, 6, 2);
  EXPECT_EQ(saved_steps(folder.path()), (Steps{5, 6}));
  for (const char* name : {"best", "best/"}) {
    const CheckpointChoice choice = choose_checkpoint(folder.path(name));
    EXPECT_EQ(choice.folders, std::vector{folder.path("step-00000005")});
    EXPECT_TRUE(choice.is_explicit);
  }
  EXPECT_EQ(choose_checkpoint(folder.path("latest")).folders, std::vector{folder.path("step-00000006")});
  for (const char* text : {"step-5\n", "../../etc\n", ""}) {
    folder.write("best", text);
    expect_error([&] { choose_checkpoint(folder.path("best")); }, {"cannot read the folder", "best"});
  }
}

TEST(SaveFolder, ALatestThatIsWrongIsSaid) {
  const TempFolder folder;
  save(folder, 1, 0);
  save(folder, 2, 0);
  for (const char* text : {"step-00000007\n", "../../etc", ""}) {
    folder.write("latest", text);
    const CheckpointChoice choice = choose_checkpoint(folder.path());
    EXPECT_EQ(choice.folders.front(), folder.path("step-00000002"));
    EXPECT_NE(choice.note.find("the newest step is taken"), std::string::npos) << choice.note;
  }
}

TEST(SaveFolder, AFolderThatCannotBeMadeIsAnError) {
  const TempFolder folder;
  const std::string file = folder.write("file", "x");
  expect_error([&] { NewCheckpoint(file, 1).begin(); }, {"cannot make the folder"});
  expect_error([&] { NewCheckpoint(file + "/x", 1).begin(); }, {"cannot make the folder", "Not a directory"});
}

}  // namespace
}  // namespace tessera::testing
