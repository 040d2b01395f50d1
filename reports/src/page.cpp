// SPDX-License-Identifier: Apache-2.0
#include "page.hpp"

#include <algorithm>
#include <numeric>

#include "text.hpp"

namespace faultline::reports {
namespace {

constexpr int kGap = 2;  // blanks between columns

std::string_view escape_of(Style style) {
  switch (style) {
  case Style::plain: return "";
  case Style::bold: return "\x1b[1m";
  case Style::dim: return "\x1b[2m";
  case Style::red: return "\x1b[31m";
  case Style::green: return "\x1b[32m";
  case Style::yellow: return "\x1b[33m";
  case Style::cyan: return "\x1b[36m";
  case Style::fail_badge: return "\x1b[1;37;41m";
  case Style::pass_badge: return "\x1b[1;30;42m";
  case Style::warn_badge: return "\x1b[1;30;43m";
  }
  return "";
}

// Bytes of the first `columns` code points of `text`.
std::size_t bytes_of_columns(std::string_view text, int columns) {
  std::size_t i = 0;
  while (i < text.size()) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80 && columns-- == 0) {
      break;
    }
    ++i;
  }
  return i;
}

// The first `columns` code points of `text`, and the rest.
std::pair<std::string, std::string> split_at(const std::string& text, int columns) {
  const std::size_t i = bytes_of_columns(text, columns);
  return {text.substr(0, i), text.substr(i)};
}

// How many bytes of a word that is wider than `room` go before the break: up to the last '/', ','
// ... that fits, else all that fit.
std::size_t bytes_before_break(std::string_view word, int room) {
  const std::size_t fits = bytes_of_columns(word, room);
  const std::size_t at = word.substr(0, fits).find_last_of("/,;:.-_=(@+");
  const bool good = at != word.npos && at + 1 > fits / 3 && at + 1 < word.size();
  return good ? at + 1 : fits;
}

int columns_of(const Line& line) {
  return std::accumulate(line.begin(), line.end(), 0, [](int sum, const Span& span) {
    return sum + reports::columns_of(span.text);
  });
}

Line printable_line(const Line& line, bool unicode) {
  Line out = line;
  for (auto& span : out) {
    span.text = printable(span.text, unicode);
  }
  return out;
}

std::string blanks(int n) { return std::string(static_cast<std::size_t>(std::max(n, 0)), ' '); }

}  // namespace

Page::Page(const TerminalOptions& options)
    : options_(options),
      width_(std::clamp(options.width, TerminalOptions::kMinimumWidth,
                        TerminalOptions::kMaximumWidth)) {}

std::string Page::glyph(std::string_view unicode, std::string_view ascii) const {
  return std::string(options_.unicode ? unicode : ascii);
}

void Page::blank() {
  if (!last_blank_) {
    text_ += '\n';
    last_blank_ = true;
  }
}

void Page::emit(const Line& line, int indent) {
  std::string plain = blanks(indent);
  std::string styled = plain;
  for (const auto& span : line) {
    plain += span.text;
    const std::string_view escape = options_.color ? escape_of(span.style) : "";
    styled += escape;
    styled += span.text;
    if (!escape.empty() && !span.text.empty()) {
      styled += "\x1b[0m";
    } else if (!escape.empty()) {
      styled.resize(styled.size() - escape.size());
    }
  }
  std::string& chosen = options_.color ? styled : plain;
  while (!chosen.empty() && chosen.back() == ' ') {
    chosen.pop_back();
  }
  text_ += chosen;
  text_ += '\n';
  last_blank_ = chosen.empty();
}

// Words with the style of their span. Several blanks count as one; a span that is kept stays one
// piece. Spans with no blank between them stay together.
std::vector<Page::Piece> Page::pieces_of(const Line& line) const {
  std::vector<Piece> pieces;
  for (const auto& span : line) {
    const std::string text = printable(span.text, options_.unicode);
    if (span.keep) {
      pieces.push_back({text, span.style, true});
      continue;
    }
    std::size_t i = 0;
    while (i < text.size()) {
      const bool is_blank = text[i] == ' ';
      std::size_t end = i;
      while (end < text.size() && (text[end] == ' ') == is_blank) {
        ++end;
      }
      pieces.push_back({is_blank ? " " : text.substr(i, end - i), span.style, false});
      i = end;
    }
  }
  return pieces;
}

std::vector<Line> Page::wrap(const Line& line, int first_width, int next_width) const {
  std::vector<Line> lines(1);
  int room = first_width;
  const auto next_line = [&] {
    while (!lines.back().empty() && lines.back().back().text == " ") {
      lines.back().pop_back();
    }
    lines.emplace_back();
    room = next_width;
  };
  const std::vector<Piece> pieces = pieces_of(line);
  for (std::size_t i = 0; i < pieces.size();) {
    if (pieces[i].text == " ") {
      if (!lines.back().empty() && room > 0) {
        lines.back().push_back({" ", pieces[i].style});
        --room;
      }
      ++i;
      continue;
    }
    // A word is all pieces up to the next blank.
    std::size_t end = i;
    int word_columns = 0;
    while (end < pieces.size() && pieces[end].text != " ") {
      word_columns += reports::columns_of(pieces[end].text);
      ++end;
    }
    if (word_columns > room && !lines.back().empty() && word_columns <= next_width) {
      next_line();
    }
    for (; i < end; ++i) {
      // Counted once: a word may be as long as a message of megabytes.
      std::string_view rest = pieces[i].text;
      int columns = reports::columns_of(rest);
      while (columns > room) {
        if (room < 8 && !lines.back().empty()) {
          next_line();
          continue;
        }
        const std::string_view head = rest.substr(0, bytes_before_break(rest, room));
        lines.back().push_back({std::string(head), pieces[i].style});
        columns -= reports::columns_of(head);
        rest.remove_prefix(head.size());
        next_line();
      }
      if (!rest.empty()) {
        room -= columns;
        lines.back().push_back({std::string(rest), pieces[i].style});
      }
    }
  }
  while (!lines.back().empty() && lines.back().back().text == " ") {
    lines.back().pop_back();
  }
  return lines;
}

void Page::heading(std::string_view title, std::string_view remark) {
  blank();
  Line line{{std::string(title), Style::bold}};
  if (!remark.empty()) {
    line.push_back({"  ", Style::plain, true});
    line.push_back({std::string(remark), Style::dim});
  }
  paragraph(line, 0, 2);
}

void Page::paragraph(const Line& line, int indent, int hanging) {
  const auto lines = wrap(line, width_ - indent, width_ - hanging);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    emit(lines[i], i == 0 ? indent : hanging);
  }
}

void Page::verbatim(std::string_view text, int indent) {
  emit({{printable(text, options_.unicode)}}, indent);
}

void Page::cut(const Line& line, int indent) {
  int room = width_ - indent;
  Line out;
  const std::string ellipsis = glyph("\u2026", "...");
  const Line all = printable_line(line, options_.unicode);
  const bool too_wide = columns_of(all) > room;
  if (too_wide) {
    room -= reports::columns_of(ellipsis);
  }
  for (const auto& span : all) {
    auto [head, tail] = split_at(span.text, room);
    room -= reports::columns_of(head);
    out.push_back({head, span.style});
    if (!tail.empty()) {
      break;
    }
  }
  if (too_wide) {
    out.push_back({ellipsis, Style::dim});
  }
  emit(out, indent);
}

int Page::natural_width(const Table& table, int indent, bool unicode) {
  int total = indent;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    int widest = reports::columns_of(printable(table.columns[c].title, unicode));
    for (const auto& row : table.rows) {
      widest = std::max(widest, columns_of(printable_line(row.cells[c], unicode)));
    }
    total += widest + (c > 0 ? kGap : 0);
  }
  return total;
}

void Page::table(const Table& table, int indent) {
  const std::size_t n = table.columns.size();
  std::vector<int> widths(n);
  for (std::size_t c = 0; c < n; ++c) {
    widths[c] = reports::columns_of(printable(table.columns[c].title, options_.unicode));
    for (const auto& row : table.rows) {
      widths[c] = std::max(widths[c], columns_of(printable_line(row.cells[c], options_.unicode)));
    }
  }
  const auto total = [&] {
    return std::accumulate(widths.begin(), widths.end(), indent + kGap * (static_cast<int>(n) - 1));
  };
  constexpr int kNarrowest = 12;
  constexpr int kFirstOver = 6;  // that the first column, which names the row, has over others
  while (total() > width_) {     // take from the widest column that may wrap
    std::size_t widest = n;
    const auto weight = [&](std::size_t c) { return widths[c] - (c == 0 ? kFirstOver : 0); };
    for (std::size_t c = 0; c < n; ++c) {
      if (table.columns[c].wraps && widths[c] > kNarrowest &&
          (widest == n || weight(c) > weight(widest))) {
        widest = c;
      }
    }
    if (widest == n) {
      break;
    }
    --widths[widest];
  }
  if (total() > width_) {
    for (const auto& row : table.rows) {
      // The name of the row, and all else in one paragraph: "failed 3, of 12, rate 25 %".
      Line line;
      for (std::size_t c = 0; c < n; ++c) {
        if (columns_of(row.cells[c]) == 0) {
          continue;
        }
        if (c == 0) {
          paragraph(row.cells[c], indent, indent + 4);
          continue;
        }
        if (!line.empty()) {
          line.push_back({", ", Style::dim});
        }
        if (!table.columns[c].title.empty()) {
          line.push_back({table.columns[c].title + " ", Style::dim, true});
        }
        line.insert(line.end(), row.cells[c].begin(), row.cells[c].end());
      }
      paragraph(line, indent + 2, indent + 4);
      if (!row.note.empty()) {
        paragraph(row.note, indent + 2, indent + 2);
      }
    }
    return;
  }
  const auto put_row = [&](const std::vector<Line>& cells) {
    std::vector<std::vector<Line>> wrapped(n);
    std::size_t height = 1;
    for (std::size_t c = 0; c < n; ++c) {
      const Line whole = printable_line(cells[c], options_.unicode);
      wrapped[c] = columns_of(whole) <= widths[c] ? std::vector<Line>{whole}
                                                  : wrap(cells[c], widths[c], widths[c]);
      height = std::max(height, wrapped[c].size());
    }
    for (std::size_t r = 0; r < height; ++r) {
      Line line;
      for (std::size_t c = 0; c < n; ++c) {
        const Line empty;
        const Line& cell = r < wrapped[c].size() ? wrapped[c][r] : empty;
        const int padding = widths[c] - columns_of(cell);
        if (c > 0) {
          line.push_back({blanks(kGap)});
        }
        if (table.columns[c].right) {
          line.push_back({blanks(padding)});
        }
        line.insert(line.end(), cell.begin(), cell.end());
        if (!table.columns[c].right) {
          line.push_back({blanks(padding)});
        }
      }
      while (!line.empty() && line.back().text.find_first_not_of(' ') == std::string::npos) {
        line.pop_back();
      }
      emit(line, indent);
    }
  };
  std::vector<Line> titles;
  bool any_title = false;
  for (const auto& column : table.columns) {
    titles.push_back({{column.title, Style::dim}});
    any_title = any_title || !column.title.empty();
  }
  if (any_title) {
    put_row(titles);
  }
  for (const auto& row : table.rows) {
    put_row(row.cells);
    if (!row.note.empty()) {
      paragraph(row.note, indent + 2, indent + 2);
    }
  }
}

}  // namespace faultline::reports
