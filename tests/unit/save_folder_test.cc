// The folder of --save: which checkpoints are in it, which one is meant, which ones go.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/durable_file.h"
#include "checkpoint/save_folder.h"
#include "config/usage_error.h"
#include "storage/folder_lock.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

/// What was synced so far.
static std::vector<std::string> synced;

/// In place of the system's.
extern "C" int fsync(int fd) {
  synced.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)));
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace tessera::testing {
namespace {

using namespace host;
using Steps = std::vector<int64_t>;

void save(const TempFolder& folder, int64_t step, int64_t keep, const std::string& contents = "") {
  const NewCheckpoint checkpoint(folder.path(), step);
  checkpoint.begin();
  folder.write(step_folder_name(step) + ".partial/index.json", contents);
  checkpoint.commit();
  checkpoint.name_latest();
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

/// After a power cut `latest` would name what is not there.
TEST(SaveFolder, IsOnDiskBeforeLatestNamesIt) {
  const TempFolder folder;
  const NewCheckpoint checkpoint(folder.path(), 1);
  checkpoint.begin();
  synced.clear();
  checkpoint.commit();
  checkpoint.name_latest();
  EXPECT_EQ(synced, (std::vector{folder.path("step-00000001.partial"), folder.path(), folder.path("latest.partial"),
                                 folder.path()}));
}

TEST(SaveFolder, IsThereWhenLatestCannotNameIt) {
  const TempFolder folder;
  folder.write("latest/x", "");
  const NewCheckpoint checkpoint(folder.path(), 1);
  checkpoint.begin();
  checkpoint.commit();
  EXPECT_EQ(saved_steps(folder.path()), Steps{1});
  expect_error([&] { checkpoint.name_latest(); }, {"cannot rename ", "latest.partial", "Is a directory"});
  EXPECT_EQ(choose_checkpoint(folder.path()).folders, std::vector{folder.path("step-00000001")});
}

TEST(SaveFolder, TheBestStaysWhereItCannotBeNamed) {
  const TempFolder folder;
  folder.write("best/x", "");
  for (int64_t step = 1; step <= 3; ++step)
    save(folder, step, 0);
  NewCheckpoint(folder.path(), 3).retire_older(1, 1);
  EXPECT_EQ(saved_steps(folder.path()), (Steps{1, 3}));
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
    expect_error([&] { choose_checkpoint(folder.path("best")); }, {"best is a file"});
  }
}

/// A run that begins in a folder of another one: what `best` names there is not its own.
TEST(SaveFolder, ANewRunHasNoBest) {
  const TempFolder folder;
  const NewCheckpoint checkpoint(folder.path(), 1);
  save(folder, 1, 0);
  checkpoint.name_no_best();
  checkpoint.name_best();
  ASSERT_TRUE(std::filesystem::exists(folder.path("best")));
  checkpoint.name_no_best();
  EXPECT_FALSE(std::filesystem::exists(folder.path("best")));
  folder.write("best", "of somebody");
  checkpoint.name_no_best();
  EXPECT_EQ(file_bytes(folder.path("best")), "of somebody");
}

TEST(SaveFolder, AFileIsNotACheckpoint) {
  const TempFolder folder;
  save(folder, 1, 0);
  expect_error<UsageError>(
      [&] { choose_checkpoint(folder.path("step-00000001/index.json")); },
      {"step-00000001/index.json is a file; give the folder of the checkpoint, ", folder.path("step-00000001")});
  expect_error<UsageError>(
      [&] { choose_checkpoint(folder.write("weights.bin", "x")); },
      {"weights.bin is a file; give the folder of a checkpoint, or one that holds step-N folders"});
}

/// Folders of somebody, with names like ours.
TEST(SaveFolder, WhatIsNotOfACheckpointStays) {
  const TempFolder folder;
  EXPECT_EQ(foreign_checkpoint_in(folder.path("nowhere")), "");
  save(folder, 1, 0);
  save(folder, 2, 0);
  EXPECT_EQ(foreign_checkpoint_in(folder.path()), "");
  const std::string note = folder.write("step-00000001/notes.txt", "mine");
  const std::string thesis = folder.write("step-00000009.partial/thesis.txt", "mine");
  EXPECT_NE(foreign_checkpoint_in(folder.path()).find("has the name of a checkpoint, and holds "), std::string::npos);
  for (const int64_t step : {1, 9})
    expect_error([&] { NewCheckpoint(folder.path(), step).begin(); }, {"which no checkpoint has; move it away"});
  NewCheckpoint(folder.path(), 9).abandon();
  save(folder, 3, 1);
  EXPECT_EQ(saved_steps(folder.path()), (Steps{1, 3}));
  EXPECT_EQ(file_bytes(note), "mine");
  EXPECT_EQ(file_bytes(thesis), "mine");
  folder.write("step-00000004", "a file");
  expect_error([&] { NewCheckpoint(folder.path(), 4).begin(); }, {"step-00000004", "is not a folder"});
}

/// What a killed run leaves of a checkpoint is all ours.
TEST(SaveFolder, WhatAKilledRunLeavesGoes) {
  const TempFolder folder;
  for (const char* name : {"index.json", "index.json.partial", "config.json.partial", "rank-00000.safetensors",
                           "rank-00001.safetensors.partial", "rank-1.json", "rank-1.json.partial"})
    folder.write(std::string("step-00000002.partial/") + name, "x");
  save(folder, 1, 0);
  EXPECT_FALSE(std::filesystem::exists(folder.path("step-00000002.partial")));
}

// As a run with --keep removes it beside a reader.
TEST(ChooseCheckpoint, ChoosesAgainWhereTheChosenOneIsGone) {
  const TempFolder folder;
  for (int64_t step = 1; step <= 4; ++step)
    std::filesystem::create_directory(folder.path(step_folder_name(step)));
  int num_removed = 0;
  const auto read = [&](int num_to_remove) {
    return choosing_again([&] {
      const std::string chosen = choose_checkpoint(folder.path()).folders.front();
      return naming_removal(folder.path(), chosen, [&] {
        if (num_removed++ >= num_to_remove) return chosen;
        std::filesystem::remove(chosen);
        throw Error(TSR_E_NOT_FOUND, chosen + " has no index");
      });
    });
  };
  EXPECT_EQ(read(1), folder.path(step_folder_name(3)));
  num_removed = 0;
  expect_error<RemovedCheckpoint>([&] { read(3); }, {"the checkpoint " + folder.path(step_folder_name(1)),
                                                     "was removed while it was read", "run this again"});
}

TEST(ChooseCheckpoint, OtherErrorsStayAsTheyAre) {
  const TempFolder folder;
  const std::string there = folder.path("step-00000001"), gone = folder.path("step-00000002");
  std::filesystem::create_directory(there);
  const auto fail = [](const std::string& sentence) { return [sentence] { throw Error(TSR_E_NOT_FOUND, sentence); }; };
  expect_error([&] { naming_removal(folder.path(), there, fail(there + " has no index")); }, {"has no index"});
  expect_error([&] { naming_removal(gone, gone, fail(gone + " has no index")); }, {"has no index"});
  expect_error([&] { naming_removal(folder.path(), gone, fail("the disk is full")); }, {"the disk is full"});
}

TEST(FolderLock, IsOneRuns) {
  const TempFolder folder;
  constexpr std::chrono::milliseconds kAtOnce(0);
  auto first = std::make_unique<FolderLock>("--save", folder.path(), "save.lock", kAtOnce);
  expect_error([&] { FolderLock("--save", folder.path(), "save.lock", kAtOnce); },
               {"--save " + folder.path() + " is being written by another run (process " + std::to_string(getpid()),
                "; give another folder, or wait for it"});
  EXPECT_TRUE(saved_steps(folder.path()).empty());
  EXPECT_TRUE(choose_checkpoint(folder.path()).folders.empty());
  const FolderLock other("--out", folder.path(), "record.lock", kAtOnce);
  first.reset();
  EXPECT_FALSE(std::filesystem::exists(folder.path("save.lock")));
  const FolderLock second("--save", folder.path(), "save.lock", kAtOnce);
}

/// A run that was killed leaves the file, and not the lock.
TEST(FolderLock, AFileAloneHoldsNothing) {
  const TempFolder folder;
  folder.write("save.lock", "process 1 on elsewhere, and a longer name than ours has\n");
  const FolderLock lock("--save", folder.path(), "save.lock", std::chrono::milliseconds(0));
  const std::string text = file_bytes(folder.path("save.lock"));
  EXPECT_EQ(text.find("elsewhere"), std::string::npos) << text;
}

TEST(FolderLock, IsTakenAnewWhereItWasRemoved) {
  const TempFolder folder;
  constexpr std::chrono::milliseconds kAtOnce(0);
  const std::string runs = folder.path("runs");
  std::filesystem::create_directory(runs);
  FolderLock lock("--save", runs, "save.lock", kAtOnce);
  EXPECT_FALSE(lock.renew(kAtOnce));
  std::filesystem::remove_all(runs);
  std::filesystem::create_directory(runs);
  EXPECT_TRUE(lock.is_lost());
  EXPECT_TRUE(lock.renew(kAtOnce));
  EXPECT_FALSE(lock.is_lost());
  expect_error([&] { FolderLock("--save", runs, "save.lock", kAtOnce); }, {" is being written by another run"});
}

TEST(FolderLock, IsLostToTheRunThatHasTheFolderByNow) {
  const TempFolder folder;
  constexpr std::chrono::milliseconds kAtOnce(0);
  auto first = std::make_unique<FolderLock>("--save", folder.path(), "save.lock", kAtOnce);
  std::filesystem::remove(folder.path("save.lock"));
  auto second = std::make_unique<FolderLock>("--save", folder.path(), "save.lock", kAtOnce);
  for (int i = 0; i < 2; ++i)
    expect_error([&] { first->renew(kAtOnce); },
                 {"--save " + folder.path() + " is being written by another run (process " + std::to_string(getpid()),
                  folder.path("save.lock"), " was removed while this run was using it", "stop one of the two runs"});
  EXPECT_TRUE(first->is_lost());
  second.reset();
  EXPECT_TRUE(first->renew(kAtOnce));
  first->release();
  EXPECT_TRUE(first->is_lost());
  second = std::make_unique<FolderLock>("--save", folder.path(), "save.lock", kAtOnce);
  first.reset();
  EXPECT_TRUE(std::filesystem::exists(folder.path("save.lock"))) << "it is the second one's";
}

TEST(FolderLock, WhereNoFileCanBeMadeNothingIsRefused) {
  const TempFolder folder;
  FolderLock none("--save", folder.path("nowhere"), "save.lock", std::chrono::milliseconds(0));
  EXPECT_FALSE(none.renew());
  for (int i = 0; i < 2; ++i)
    FolderLock("--save", folder.path("nowhere"), "save.lock", std::chrono::milliseconds(0));
}

TEST(DurableFile, WhatFailsLeavesNothing) {
  const TempFolder folder;
  folder.write("taken/x", "");
  expect_error([&] { write_durably(folder.path("taken"), "text"); }, {"cannot rename"});
  EXPECT_FALSE(std::filesystem::exists(folder.path("taken.partial")));
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
