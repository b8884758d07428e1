// One HTML document: heading, tiles, charts, the drawing of a step, the plan, tables. All but the charts is text made
// here; page.js draws those from the JSON in <script id="run">.
//
// The folder may come from an untrusted source. So every text of it is escaped, the drawing is in a sandboxed frame,
// and the page has a policy that names our script by its hash and allows no other and no network:
//
//     default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-...'

#include "report/page.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/concat.h"
#include "plan/format.h"
#include "report/charts.h"
#include "report/page_parts.h"

namespace tessera::host {
namespace {

// By this line begins_like_report() knows a page, which a later report may replace.
constexpr std::string_view kBegin = "<!DOCTYPE html>\n<!-- a report of tessera -->\n";

/// JSON for a <script>: "<" only occurs in strings, where the escape means the same.
std::string in_script(const std::string& json) {
  std::string result;
  for (const char c : json)
    result += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return result;
}

/// "sha256-<base64>", as a policy names a script.
std::string script_hash(std::string_view script) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned num_bytes = 0;
  EVP_Digest(script.data(), script.size(), hash.data(), &num_bytes, EVP_sha256(), nullptr);
  std::array<unsigned char, 4 * EVP_MAX_MD_SIZE / 3 + 4> text{};
  const int num_chars = EVP_EncodeBlock(text.data(), hash.data(), static_cast<int>(num_bytes));
  return concat("sha256-",
                std::string_view(reinterpret_cast<const char*>(text.data()), static_cast<size_t>(num_chars)));
}

const Curve* curve_of(const RecordedRun& run, const char* name) {
  const auto found = run.curves.find(name);
  return found == run.curves.end() ? nullptr : &found->second;
}

/// Not the mean: the first step and those with a checkpoint say nothing about the others.
std::string median_of(const Curve& curve) {
  std::vector<double> values = curve.values;
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return "";
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return format("%.0f", *middle);
}

std::string tile(const std::string& value, const std::string& what) {
  return value.empty() ? ""
                       : concat("<div class=\"tile\"><b>", escaped_markup(value), "</b><span>", escaped_markup(what),
                                "</span></div>\n");
}

std::string tiles(const RecordedRun& run) {
  std::string text;
  const auto last = [&](const char* name, const char* what) {
    if (const Curve* curve = curve_of(run, name))
      text += tile(format("%.4f", curve->values.back()), concat(what, ", step ", curve->steps.back()));
  };
  last("loss", "training loss");
  last("eval loss", "evaluation loss");
  if (const Curve* curve = curve_of(run, "per_second"))
    text += tile(median_of(*curve), run.items + " per second, median");
  if (run.seconds > 0)
    text +=
        tile(duration_text(run.seconds), run.starts.size() > 1 ? "of training since the last start" : "of training");
  if (const Curve* curve = curve_of(run, "peak_memory_bytes"))
    text += tile(human_bytes(static_cast<uint64_t>(std::max(0.0, curve->values.back()))), "peak memory of rank 0");
  return text;
}

std::string table(const Facts& facts) {
  std::string text = "<table>";
  for (const auto& [name, value] : facts)
    text += concat("<tr><td>", escaped_markup(name), "</td><td>", escaped_markup(value), "</td></tr>\n");
  return text + "</table>";
}

std::string card(const std::string& title, const std::string& content, bool is_open = true) {
  return concat("<details class=\"card\"", is_open ? " open" : "", "><summary>", title, "</summary>", content,
                "</details>\n");
}

/// An attribute of the drawing's first element; 0 without it.
double attribute_of(const std::string& drawing, const std::string& name) {
  const size_t svg = drawing.find("<svg "), at = drawing.find(" " + name + "=\"", svg), end = drawing.find('>', svg);
  return svg == drawing.npos || at == drawing.npos || at > end ? 0 : std::atof(drawing.c_str() + at + name.size() + 3);
}

/// In a frame, since its style is meant for a separate document, and no script in it may run.
std::string timeline(const std::string& drawing) {
  if (drawing.empty())
    return "<div class=\"card\"><pre>This run was recorded without a drawing of its step. To make one: tessera plan "
           "--svg FILE.</pre></div>\n";
  const double width = attribute_of(drawing, "width"), height = attribute_of(drawing, "height");
  const std::string shape =
      width > 0 && height > 0 ? format("aspect-ratio: %.0f / %.0f", width, height) : std::string("height: 600px");
  const std::string inner = "<style>body { margin: 0 } svg { display: block; width: 100%; height: auto }</style>" +
                            drawing.substr(drawing.find("<svg "));
  return concat("<div class=\"card\"><iframe sandbox title=\"one step, as planned\" style=\"", shape, "\" srcdoc=\"",
                escaped_markup(inner), "\"></iframe></div>\n");
}

bool is_complete(const RecordedRun& run) {
  return run.num_steps > 0 && run.last_step >= run.num_steps;
}

std::string starts_table(const RecordedRun& run) {
  Facts facts;
  for (const RunStart& start : run.starts)
    facts.emplace_back(start.started, start.resumed_step ? concat("resumed after step ", start.resumed_step) : "began");
  return table(facts);
}

std::string log_cards(const RecordedRun& run) {
  std::string text = run.logs.empty() ? "" : "<h2>Log</h2>\n";
  for (const LogEnd& log : run.logs)
    text += card(concat("Rank ", log.rank, ", the last lines"), "<pre>" + escaped_markup(log.text) + "</pre>",
                 log.rank > 0 || !is_complete(run));
  return text;
}

std::string heading(const RecordedRun& run) {
  const bool complete = is_complete(run);
  return concat("<h1>", escaped_markup(run.model), "<span class=\"state", complete ? " complete" : "", "\">",
                complete ? concat("complete, ", counted(run.num_steps, "step"))
                         : concat("step ", run.last_step, " of ", run.num_steps),
                "</span></h1>\n<p class=\"what\">", counted(run.world_size, "rank"), ", ", escaped_markup(run.mesh),
                " &middot; ", escaped_markup(run.folder), "</p>\n");
}

std::string footer(const RecordedRun& run) {
  std::string text = "<footer>Written by tessera report from the files in the folder.";
  if (run.num_unreadable)
    text += concat(" ", counted(run.num_unreadable, "line"), " of the metrics could not be read.");
  return text + "</footer>\n";
}

}  // namespace

std::string report_page(const RecordedRun& run) {
  std::string page =
      concat(kBegin, "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
             "script-src '",
             script_hash(kPageScript), "'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
             escaped_markup(run.model), ": a run of Tessera</title>\n<style>", kPageStyle,
             "</style>\n</head>\n<body>\n<main>\n", heading(run));
  page += concat("<div class=\"tiles\">\n", tiles(run), "</div>\n<h2>Curves</h2>\n");
  page += run.curves.empty() ? "<p class=\"what\">No step has ended yet.</p>\n" : "";
  page += concat("<div class=\"charts\" id=\"charts\"></div>\n<h2>One step, as planned</h2>\n", timeline(run.drawing));
  if (!run.plan.empty())
    page += concat("<h2>Plan</h2>\n", card("Memory and traffic", "<pre>" + escaped_markup(run.plan) + "</pre>", false));
  page += concat("<h2>Run</h2>\n<div class=\"columns\">\n<div>", card("Environment", table(run.environment)), "<br>",
                 card("Starts", starts_table(run)), "</div>\n",
                 run.settings.empty() ? "" : card("Configuration", table(run.settings)), "</div>\n");
  return concat(page, log_cards(run), footer(run), "</main>\n<script type=\"application/json\" id=\"run\">",
                in_script(charts_json(run)), "</script>\n<script>", kPageScript, "</script>\n</body>\n</html>\n");
}

bool begins_like_report(std::string_view begin) {
  return begin.starts_with(kBegin);
}

}  // namespace tessera::host
