// `tessera report`: the record of a run as one page. The run may be going on; the page is of the moment. A page that
// `report` wrote before is replaced, any other file only with --overwrite, and the files of the record never.

#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/concat.h"
#include "base/log.h"
#include "base/output_file.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/outputs.h"
#include "config/usage_error.h"
#include "record/run_folder.h"
#include "report/page.h"

namespace tessera::host {
namespace {

constexpr CommandFlag kFlags[] = {
    {"to", "FILE", "write the page there (default: report.html in FOLDER; -: standard output)"},
    {"overwrite", "", "replace a file that tessera report did not write"}};

constexpr CommandSyntax kSyntax = {"usage: tessera report FOLDER [--to FILE]",
                                   "Writes the record of a run (train --out FOLDER) as one HTML page, which needs no "
                                   "network: curves of loss, gradient "
                                   "norm, learning rate, speed and memory, the timeline of a step, configuration and "
                                   "environment. The run may still go "
                                   "on.",
                                   kFlags, 1, "tessera report runs/record --to page.html"};

/// The files of the record: those that the page is made of, the logs of ranks and the events for TensorBoard.
std::vector<JobInput> files_of(const std::string& folder) {
  std::vector<JobInput> files;
  for (const std::string_view name : {kConfigFile, kMetricsFile, kPlanText, kPlanJson, kStepDrawing})
    files.push_back({"FOLDER", (std::filesystem::path(folder) / name).string()});
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error))
    if (const std::string name = file.path().filename();
        name.starts_with("log.rank") || name.starts_with("events.out."))
      files.push_back({"FOLDER", file.path().string()});
  return files;
}

}  // namespace

const CommandSyntax& report_syntax() {
  return kSyntax;
}

int report_command(std::span<const std::string> arguments) {
  const CommandLine line(kSyntax, arguments);
  if (line.wants_help()) {
    std::cout << help_of(kSyntax);
    return 0;
  }
  const std::string& folder = line.words()[0];
  const RecordedRun run = read_recorded_run(folder, Log());
  const std::string path = line.value("to", (std::filesystem::path(folder) / kReportFile).string());
  const Output output = {.flag = "--to",
                         .path = path,
                         .is_ours = begins_like_report,
                         .overwrite = line.has("overwrite"),
                         .inputs = files_of(folder)};
  refuse_inside_checkpoint("--to", path);
  if (const std::string refusal = refusal_of(output); !refusal.empty()) throw UsageError(refusal);
  const std::string page = report_page(run);
  if (is_standard_output(path)) {
    std::cout << page;
    return 0;
  }
  write_output(output, {page});
  std::cout << "wrote " << printable(path) << '\n';
  return 0;
}

}  // namespace tessera::host
