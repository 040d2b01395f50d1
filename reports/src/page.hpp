// SPDX-License-Identifier: Apache-2.0
// Lines of styled text within a width: the one place that knows about columns, ANSI escapes and
// wrapping.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "faultline/reports/terminal.hpp"

namespace faultline::reports {

enum class Style { plain, bold, dim, red, green, yellow, cyan, fail_badge, pass_badge, warn_badge };

/// A piece of a line. Text is made printable when it reaches the page.
struct Span {
  std::string text;
  Style style = Style::plain;
  bool keep = false;  ///< never broken at its blanks
};
using Line = std::vector<Span>;

struct Column {
  std::string title;
  bool right = false;  ///< numbers
  bool wraps = false;  ///< gives way when the table is too wide
};

struct Table {
  std::vector<Column> columns;
  struct Row {
    std::vector<Line> cells;
    Line note;  ///< printed below the row, indented and wrapped
  };
  std::vector<Row> rows;
};

class Page {
 public:
  explicit Page(const TerminalOptions& options);

  int width() const { return width_; }
  bool unicode() const { return options_.unicode; }
  /// One of two spellings.
  std::string glyph(std::string_view unicode, std::string_view ascii) const;

  void blank();
  /// A heading on a line of its own, with a dim remark that wraps below it when there is no room.
  void heading(std::string_view title, std::string_view remark = {});
  /// Words wrapped at blanks; the first line starts at `indent`, the others at `hanging`.
  void paragraph(const Line& line, int indent = 0, int hanging = 0);
  /// As it is: for commands to copy. May be wider than the page.
  void verbatim(std::string_view text, int indent);
  /// One line, cut at the width with an ellipsis: for context that nobody measures.
  void cut(const Line& line, int indent);
  /// Columns two blanks apart. Columns that wrap give way first; where even that does not fit, each
  /// row becomes its first cell and a paragraph of "title value, title value".
  void table(const Table& table, int indent = 2);
  /// Columns that the table would take if nothing wrapped.
  static int natural_width(const Table& table, int indent, bool unicode);

  const std::string& text() const { return text_; }

 private:
  struct Piece {
    std::string text;
    Style style;
    bool keep;
  };
  std::vector<Piece> pieces_of(const Line& line) const;
  std::vector<Line> wrap(const Line& line, int first_width, int next_width) const;
  void emit(const Line& printable_line, int indent);

  TerminalOptions options_;
  int width_;
  std::string text_;
  bool last_blank_ = true;
};

}  // namespace faultline::reports
