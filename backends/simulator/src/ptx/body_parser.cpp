// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <unordered_map>

#include "ptx/cursor.hpp"
#include "ptx/parser.hpp"

namespace faultline::simulator::ptx {
namespace {

// Names of one `{}` block. PTX scopes registers, labels and variables.
struct Scope {
  int parent = -1;
  std::unordered_map<std::string_view, int> registers;
  std::unordered_map<std::string, int> numbered;  // `%r<10>` declares %r0..%r9
  std::unordered_map<std::string_view, int> labels;
  std::unordered_map<std::string_view, std::vector<std::string_view>> branch_tables;
};

class BodyParser {
 public:
  BodyParser(Source& source, Function& function)
      : source_(source),
        function_(function),
        in_(source, function.body_begin, function.body_line) {}

  void run() {
    scopes_.emplace_back();
    while (scope_ >= 0) statement();
    resolve_branches();
  }

 private:
  struct PendingBranch {
    std::size_t statement;
    std::string_view label;
    int scope;
    bool indexed;
  };

  void statement() {
    if (in_.at_end())
      in_.lexer().fail("the body of '" + std::string(function_.name) + "' does not end");
    const Token token = in_.lexer().peek();
    if (in_.accept("}")) {
      scope_ = scopes_[static_cast<std::size_t>(scope_)].parent;
    } else if (in_.accept("{")) {
      scopes_.push_back(Scope{scope_, {}, {}, {}, {}});
      scope_ = static_cast<int>(scopes_.size()) - 1;
    } else if (in_.accept(";")) {
    } else if (in_.accept(".loc")) {
      location();
    } else if (in_.accept(".reg")) {
      registers();
    } else if (in_.accept(".shared") || in_.accept(".local") || in_.accept(".global") ||
               in_.accept(".const")) {
      function_.variables.push_back(in_.variable(token.text.substr(1)));
      in_.expect(";");
    } else if (in_.accept(".param")) {
      function_.variables.push_back(in_.parameter());
      in_.expect(";");
    } else if (in_.accept(".pragma")) {
      in_.skip_past(";");
    } else if (in_.accept(".callprototype") || in_.accept(".calltargets")) {
      in_.skip_past(";");
    } else if (in_.accept(".branchtargets")) {
      std::vector<std::string_view> targets;
      do {
        targets.push_back(in_.take_word("a label"));
      } while (in_.accept(","));
      in_.expect(";");
      current().branch_tables[last_label_] = std::move(targets);
    } else if (token.text[0] == '.') {
      in_.lexer().fail("unknown directive");
    } else if (token.kind == Token::Kind::word && in_.lexer().peek_next().text == ":") {
      in_.lexer().take();
      in_.expect(":");
      last_label_ = token.text;
      current().labels[token.text] = static_cast<int>(function_.code.size());
    } else {
      instruction();
    }
  }

  Scope& current() { return scopes_[static_cast<std::size_t>(scope_)]; }

  void registers() {
    const std::string_view directive = in_.take_word("a register type");
    std::string_view type_name = directive.substr(1);
    const auto type = parse_scalar(type_name);
    if (!type || *type == Scalar::tf32) in_.lexer().fail("unknown register type");
    do {
      const std::string_view name = in_.take_word("a register name");
      if (in_.accept("<")) {
        const std::int64_t count = in_.take_integer();
        in_.expect(">");
        if (count < 0 || count > 1'000'000) in_.lexer().fail("impossible number of registers");
        for (std::int64_t i = 0; i < count; ++i) {
          current().numbered[std::string(name) + std::to_string(i)] = add_register(name, *type);
        }
      } else {
        current().registers[name] = add_register(name, *type);
      }
    } while (in_.accept(","));
    in_.expect(";");
  }

  int add_register(std::string_view name, Scalar type) {
    function_.registers.push_back({name, type});
    return static_cast<int>(function_.registers.size()) - 1;
  }

  int find_register(std::string_view name) const {
    for (int s = scope_; s >= 0; s = scopes_[static_cast<std::size_t>(s)].parent) {
      const Scope& scope = scopes_[static_cast<std::size_t>(s)];
      if (const auto it = scope.registers.find(name); it != scope.registers.end())
        return it->second;
      if (const auto it = scope.numbered.find(std::string(name)); it != scope.numbered.end()) {
        return it->second;
      }
    }
    return -1;
  }

  // .loc file line column [, function_name label[+n], inlined_at file line column]
  void location() {
    const auto triple = [&] {
      Location result;
      result.file = static_cast<int>(in_.take_integer());
      result.line = static_cast<int>(in_.take_integer());
      result.column = static_cast<int>(in_.take_integer());
      return result;
    };
    Location here = triple();
    if (in_.accept(",")) {
      in_.expect("function_name");
      in_.take_word("a label");
      if (in_.accept("+")) in_.take_integer();
      in_.expect(",");
      in_.expect("inlined_at");
      here.parent = latest_at(triple());
    }
    location_ = intern(here);
  }

  // The inlining position is itself described by the latest .loc with the same place.
  int latest_at(const Location& place) {
    const auto key = std::make_tuple(place.file, place.line, place.column);
    const auto it = latest_.find(key);
    return it != latest_.end() ? it->second : intern(place);
  }

  int intern(const Location& location) {
    const auto key =
        std::make_tuple(location.file, location.line, location.column, location.parent);
    auto [it, inserted] = interned_.try_emplace(key, static_cast<int>(source_.locations.size()));
    if (inserted) source_.locations.push_back(location);
    latest_[std::make_tuple(location.file, location.line, location.column)] = it->second;
    return it->second;
  }

  Operand operand() {
    Operand result;
    if (in_.accept("{")) return list(Operand::Kind::vector, "}");
    if (in_.accept("(")) return list(Operand::Kind::group, ")");
    if (in_.accept("[")) return memory();
    if (in_.accept("!")) {
      result = operand();
      result.negated = !result.negated;
      return result;
    }
    const bool negative = in_.accept("-");
    if (in_.at_number()) {
      const Number number = in_.take_number();
      result.kind = Operand::Kind::immediate;
      result.is_float = number.is_float;
      result.is_double = number.is_double;
      result.immediate = number.bits;
      if (negative && number.is_double)
        result.immediate ^= std::uint64_t{1} << 63;
      else if (negative && number.is_float)
        result.immediate ^= 0x80000000u;
      else if (negative)
        result.immediate = ~number.bits + 1;
      return result;
    }
    if (negative) in_.lexer().fail("expected a number behind '-'");
    const std::string_view name = in_.take_word("an operand");
    if (name == "_") {
      sink_or_pair(result);
      return result;
    }
    result.reg = find_register(name);
    if (result.reg >= 0) {
      result.kind = Operand::Kind::reg;
      sink_or_pair(result);
      return result;
    }
    result.kind = Operand::Kind::symbol;
    result.symbol = name;
    if (in_.accept("+")) result.offset = in_.take_integer();
    return result;
  }

  void sink_or_pair(Operand& result) {
    if (!in_.accept("|")) return;
    const std::string_view second = in_.take_word("a predicate");
    if (second == "_") {
      result.second_sink = true;
      return;
    }
    result.second_reg = find_register(second);
    if (result.second_reg < 0) in_.lexer().fail("unknown register '" + std::string(second) + "'");
  }

  Operand list(Operand::Kind kind, std::string_view close) {
    Operand result;
    result.kind = kind;
    while (!in_.accept(close)) {
      result.elements.push_back(operand());
      if (in_.text() != close) in_.expect(",");
    }
    return result;
  }

  Operand memory() {
    Operand result;
    result.kind = Operand::Kind::memory;
    const Operand base = operand();
    switch (base.kind) {
    case Operand::Kind::reg: result.reg = base.reg; break;
    case Operand::Kind::symbol:
      result.symbol = base.symbol;
      result.offset = base.offset;
      break;
    case Operand::Kind::immediate: result.offset = static_cast<std::int64_t>(base.immediate); break;
    default: in_.lexer().fail("impossible address");
    }
    if (in_.accept("+"))
      result.offset += in_.take_integer();
    else if (in_.text() == "-")
      result.offset += in_.take_integer();
    if (in_.accept(",")) {
      Operand coordinates = operand();
      result.elements = std::move(coordinates.elements);
    }
    in_.expect("]");
    return result;
  }

  void instruction() {
    Statement result;
    result.location = location_;
    result.ptx_line = in_.lexer().peek().line;
    const std::size_t begin = in_.lexer().peek().begin;
    if (in_.accept("@")) {
      result.predicate_negated = in_.accept("!");
      const std::string_view name = in_.take_word("a predicate");
      result.predicate = find_register(name);
      if (result.predicate < 0) in_.lexer().fail("unknown predicate '" + std::string(name) + "'");
    }
    result.opcode = in_.take_word("an instruction");
    const std::string_view base = result.opcode.substr(0, result.opcode.find('.'));
    if (base == "bra") {
      branches_.push_back({function_.code.size(), in_.take_word("a label"), scope_, false});
    } else {
      while (in_.text() != ";") {
        if (in_.at_end()) in_.lexer().fail("an instruction does not end: ';' is missing");
        result.operands.push_back(operand());
        if (in_.text() != ";") in_.expect(",");
      }
      if (base == "brx" && result.operands.size() == 2) {
        branches_.push_back({function_.code.size(), result.operands[1].symbol, scope_, true});
      }
    }
    in_.expect(";");
    result.text = std::string_view(source_.text).substr(begin, in_.lexer().consumed_end() - begin);
    function_.code.push_back(std::move(result));
  }

  int find_label(std::string_view label, int scope) {
    for (int s = scope; s >= 0; s = scopes_[static_cast<std::size_t>(s)].parent) {
      const auto& labels = scopes_[static_cast<std::size_t>(s)].labels;
      if (const auto it = labels.find(label); it != labels.end()) return it->second;
    }
    in_.lexer().fail("label '" + std::string(label) + "' of '" + std::string(function_.name) +
                     "' does not exist;");
  }

  void resolve_branches() {
    for (const PendingBranch& branch : branches_) {
      Statement& statement = function_.code[branch.statement];
      if (!branch.indexed) {
        statement.target = find_label(branch.label, branch.scope);
        continue;
      }
      for (int s = branch.scope; s >= 0; s = scopes_[static_cast<std::size_t>(s)].parent) {
        const auto& tables = scopes_[static_cast<std::size_t>(s)].branch_tables;
        const auto it = tables.find(branch.label);
        if (it == tables.end()) continue;
        for (const std::string_view label : it->second) {
          statement.targets.push_back(find_label(label, branch.scope));
        }
        break;
      }
    }
  }

  Source& source_;
  Function& function_;
  Cursor in_;
  std::vector<Scope> scopes_;
  int scope_ = 0;
  int location_ = -1;
  std::string_view last_label_;
  std::vector<PendingBranch> branches_;
  std::map<std::tuple<int, int, int, int>, int> interned_;
  std::map<std::tuple<int, int, int>, int> latest_;
};

}  // namespace

void parse_body(Source& source, Function& function) {
  if (function.parsed) return;
  BodyParser(source, function).run();
  function.parsed = true;
}

}  // namespace faultline::simulator::ptx
