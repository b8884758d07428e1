// The report of a run as one page.
#pragma once

#include <string>
#include <string_view>

#include "report/recorded_run.h"

namespace tessera::host {

/// A self-contained HTML document, which needs no network: charts, drawn by its own script from the numbers in <script
/// id="run"> (charts.h), the drawing of a step, the plan, settings and environment. Nothing in the run's files can run
/// as a script: the content security policy allows only the page's script, by its hash.
std::string report_page(const RecordedRun& run);

/// Whether a file that begins like this is such a page.
bool begins_like_report(std::string_view begin);

}  // namespace tessera::host
