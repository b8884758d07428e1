// The report of a run as one page.
#pragma once

#include <string>
#include <string_view>

#include "report/recorded_run.h"

namespace tessera::host {

/// An HTML document that needs no other file and no network: charts, which its own script draws from the numbers in
/// <script id="run"> (charts.h), the drawing of a step, the plan, settings and environment. Nothing that the run's
/// files say can run as a script: the document's policy allows the one script by its hash.
std::string report_page(const RecordedRun& run);

/// Whether a file that begins like this is such a page.
bool begins_like_report(std::string_view begin);

}  // namespace tessera::host
