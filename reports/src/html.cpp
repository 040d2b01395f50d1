// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/html.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cases.hpp"
#include "html_page.hpp"
#include "html_script.hpp"
#include "html_style.hpp"
#include "numbers.hpp"
#include "sha256.hpp"
#include "view.hpp"

namespace faultline::reports {

using core::RunRecord;

void HtmlPage::open_section(std::string_view id, std::string_view title, std::string_view remark,
                            std::string_view in_menu) {
  menu.push_back({std::string(id), std::string(in_menu.empty() ? title : in_menu)});
  out.put("<section id=\"", escaped(id), "\" aria-labelledby=\"", escaped(id),
          "-title\">\n<h2 id=\"", escaped(id), "-title\">", escaped(title));
  if (!remark.empty()) {
    out.put(" <small>", escaped(remark), "</small>");
  }
  out.put("</h2>\n");
}

void HtmlPage::open_scroll(std::string_view label) {
  out.put("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"", escaped(label),
          "\">");
}

void HtmlPage::column(std::string_view title, bool right) {
  out.put(right ? literal("<th scope=\"col\" class=\"num\">") : literal("<th scope=\"col\">"),
          escaped(title), "</th>");
}

void HtmlPage::bullets(const std::vector<std::string>& sentences, bool plain) {
  if (sentences.empty()) {
    return;
  }
  out.put(plain ? literal("<ul class=\"plain\">") : literal("<ul>"));
  for (const auto& sentence : sentences) {
    out.put("<li>", escaped(sentence), "</li>");
  }
  out.put("</ul>\n");
}

void HtmlPage::place(std::string_view text) {
  constexpr std::size_t kKept = 40;  // characters that fit a phone
  while (!text.empty()) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    const std::size_t slash = text.find('/');
    if (slash < blank) {
      out.put(escaped(text.substr(0, slash + 1)), "<wbr>");
      text.remove_prefix(slash + 1);
      continue;
    }
    const bool has_line = blank > 0 && text[blank - 1] >= '0' && text[blank - 1] <= '9';
    if (has_line && blank <= kKept) {
      out.put("<span class=\"kept\">", escaped(text.substr(0, blank)), "</span>",
              escaped(text.substr(blank)));
    } else {
      out.put(escaped(text));
    }
    return;
  }
}

void HtmlPage::name(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("@_"), text.size() - 1) + 1;
    out.put(escaped(text.substr(0, end)));
    text.remove_prefix(end);
    if (!text.empty()) {
      out.put("<wbr>");
    }
  }
}

void HtmlPage::bar(double share) {
  const bool over = !(share <= 1.0);
  out.put("<svg class=\"bar\" aria-hidden=\"true\" focusable=\"false\"><rect width=\"100%\" "
          "height=\"100%\" rx=\"2\"/><rect height=\"100%\" rx=\"2\" class=\"",
          over ? literal("over") : literal("v"), "\" width=\"",
          percent(over ? 1.0 : std::max(0.0, share)), "\"/></svg>");
}

void HtmlPage::more(std::size_t left_out) {
  if (left_out > 0) {
    out.put("<p class=\"note\">", escaped(count_text(left_out)), " more ",
            left_out == 1 ? literal("is") : literal("are"), " in the JSON record.</p>\n");
  }
}

namespace {

void fact(HtmlWriter& out, std::string_view name, std::string_view value, bool code = false) {
  if (value.empty()) {
    return;
  }
  out.put("<dt>", escaped(name), "</dt><dd>");
  if (code) {
    out.put("<code>", escaped(value), "</code>");
  } else {
    out.put(escaped(value));
  }
  out.put("</dd>\n");
}

void write_head(HtmlWriter& out, const RunRecord& record) {
  std::string title = outcome_text(record.verdict.outcome);
  const core::Finding* leading = leading_finding(record.verdict);
  if (record.verdict.outcome != core::Outcome::pass && leading) {
    title += fmt::format(" {}", core::name_of(leading->finding));
  }
  title += fmt::format(" - {} {} - faultline", record.command, subject_text(record));
  out.put("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'sha256-",
          escaped(sha256_base64(kStyle)), "'; script-src 'sha256-", escaped(sha256_base64(kScript)),
          "'; base-uri 'none'; form-action 'none'\">\n",
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
          "<meta name=\"referrer\" content=\"no-referrer\">\n<title>", escaped(title),
          "</title>\n<style>");
  out.put_asset(kStyle).put("</style>\n</head>\n");
}

/// What stands above everything: the verdict in a word, whose it is, the theme.
void write_banner(HtmlWriter& out, const RunRecord& record) {
  const core::Verdict& verdict = record.verdict;
  out.put("<header>\n<div class=\"verdict\"><span class=\"badge ",
          escaped(core::name_of(verdict.outcome)), "\">", escaped(outcome_text(verdict.outcome)),
          "</span>");
  if (const core::Finding* first = leading_finding(verdict)) {
    const bool passed = verdict.outcome == core::Outcome::pass;
    out.put("<span class=\"class\">",
            escaped((passed ? std::string(core::name_of(first->severity)) + ": " : std::string()) +
                    std::string(core::name_of(first->finding))),
            "</span>");
  }
  out.put("<span class=\"subject\">", escaped(record.command + " " + subject_text(record)),
          "</span><button type=\"button\" id=\"theme\" hidden>Theme: system</button></div>\n"
          "</header>\n");
}

void write_replay(HtmlWriter& out, const RunRecord& record) {
  if (record.replay_lines.empty()) {
    return;
  }
  constexpr std::size_t kInSight = 2, kMost = 100;
  const std::size_t lines = record.replay_lines.size(), shown = std::min(lines, kMost);
  out.put("<section aria-label=\"Replay\">\n");
  for (std::size_t i = 0; i < shown; ++i) {
    if (i == kInSight) {
      out.put("<details><summary>", number(shown - kInSight), " more to replay</summary>\n");
    }
    if (const std::string label = replay_label(record, record.replay_lines[i]); !label.empty()) {
      out.put("<p class=\"note\">", escaped(label), ":</p>\n");
    }
    out.put("<div class=\"command\"><code id=\"replay", number(i), "\">",
            escaped(record.replay_lines[i]),
            "</code><button type=\"button\" hidden data-copy=\"replay", number(i),
            "\" aria-label=\"Copy replay command ", number(i + 1), "\">Copy</button></div>\n");
  }
  if (shown > kInSight) {
    out.put("</details>\n");
  }
  if (shown < lines) {
    out.put("<p class=\"note\">", number(lines - shown), " more are in the JSON record.</p>\n");
  }
  out.put("</section>\n");
}

void write_summary(HtmlWriter& out, const RunRecord& record) {
  const std::string headline = headline_of(record);
  out.put("<h1>", escaped(headline.empty() ? outcome_text(record.verdict.outcome) : headline),
          "</h1>\n");
  if (record.evidence.interrupted) {
    out.put("<p class=\"alert\">Cut short: the figures below cover what had finished.</p>\n");
  }
  out.put("<dl class=\"facts\">\n");
  fact(out, "Problem", problem_text(record), true);
  fact(out, "Config", record.config, true);
  std::string ran = fmt::format("{}; seed {}", backend_text(record), record.seed);
  if (record.provenance.duration_s > 0.0) {
    ran += "; " + duration_text(record.provenance.duration_s);
  }
  if (record.evidence.backend_is_model || record.provenance.backend.is_model) {
    ran += ". A model: it shows possible orders, not how often a GPU takes them.";
  }
  fact(out, "Ran on", ran);
  fact(out, "Result", fmt::format("{}", fmt::join(key_facts_of(record), "; ")));
  out.put("</dl>\n");
}

void write_menu(HtmlWriter& out, const std::vector<HtmlPage::Entry>& menu) {
  out.put("<nav aria-label=\"Sections\"><ul>");
  for (const HtmlPage::Entry& entry : menu) {
    out.put("<li><a href=\"#", escaped(entry.id), "\">", escaped(entry.title), "</a></li>");
  }
  out.put("<li><a href=\"#run\">Run</a></li></ul></nav>\n");
}

void write_footer(HtmlWriter& out, const RunRecord& record) {
  out.put("<footer id=\"run\">\n<h2>Run</h2>\n<dl class=\"facts\">\n");
  for (const auto& [name, value] : run_facts_of(record)) {
    fact(out, name, value);
  }
  fact(out, "backend", backend_text(record));
  fact(out, "seed", fmt::format("{}", record.seed));
  const core::BackendInfo& backend = record.provenance.backend;
  if (backend.multiprocessors > 0) {
    fact(out, "device",
         fmt::format("{} multiprocessors, L2 {}", backend.multiprocessors,
                     bytes_text(static_cast<double>(backend.l2_bytes))));
  }
  fact(out, "runtime", backend.runtime);
  fact(out, "schema", fmt::format("{}", RunRecord::kSchemaVersion));
  out.put("</dl>\n</footer>\n");
}

}  // namespace

std::string to_html(const core::RunRecord& record) {
  HtmlPage page(record);
  write_findings(page);
  write_races(page);
  write_stops(page);
  write_tiles(page);
  write_errors(page);
  write_evidence_tables(page);
  write_arms(page);
  write_configs(page);
  write_bench(page);
  write_accesses(page);
  write_further_evidence(page);

  HtmlWriter out;
  write_head(out, record);
  out.put("<body>\n<a class=\"skip\" href=\"#main\">Skip to the report</a>\n");
  write_banner(out, record);
  out.put("<main id=\"main\" tabindex=\"-1\">\n");
  write_summary(out, record);
  write_replay(out, record);
  write_menu(out, page.menu);
  out.put(page.out, "</main>\n");
  write_footer(out, record);
  // What was done is said here to those who cannot see it.
  out.put("<p id=\"said\" class=\"unseen\" role=\"status\"></p>\n<script>")
      .put_asset(kScript)
      .put("</script>\n</body>\n</html>\n");
  return out.take();
}

}  // namespace faultline::reports
