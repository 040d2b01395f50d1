// SPDX-License-Identifier: Apache-2.0
#include "ptx/parser.hpp"

#include <string>

#include "faultline/simulator/module.hpp"
#include "ptx/cursor.hpp"

namespace faultline::simulator::ptx {
namespace {

class ModuleParser {
 public:
  explicit ModuleParser(Source& source) : source_(source), in_(source, 0, 1) {}

  void run() {
    bool saw_version = false;
    while (!in_.at_end()) {
      const std::string_view word = in_.text();
      if (!saw_version && word != ".version") in_.lexer().fail("PTX starts with .version");
      in_.lexer().take();
      if (word == ".version" || word == ".target" || word == ".address_size") {
        saw_version = true;
        in_.lexer().take();
        while (in_.accept(",")) in_.lexer().take();
      } else if (word == ".file") {
        file();
      } else if (word == ".section") {
        in_.skip_past("{");
        in_.lexer().skip_body();
      } else if (word == ".loc") {
        while (in_.at_number()) in_.lexer().take();
      } else if (word == ".pragma" || word == ".alias") {
        in_.skip_past(";");
      } else if (word == ".visible" || word == ".extern" || word == ".weak" || word == ".common") {
        external_ = word == ".extern";
        continue;
      } else if (word == ".global" || word == ".const" || word == ".shared") {
        variable(word.substr(1));
      } else if (word == ".entry" || word == ".func") {
        function(word == ".entry");
      } else {
        in_.lexer().fail("unknown module-level directive '" + std::string(word.substr(0, 40)) +
                         "'");
      }
      external_ = false;
    }
    if (!saw_version) in_.lexer().fail("the text holds no PTX");
  }

 private:
  void file() {
    const int number = static_cast<int>(in_.take_integer());
    if (in_.lexer().peek().kind != Token::Kind::string) in_.lexer().fail("expected a file name");
    const std::string_view quoted = in_.lexer().take().text;
    source_.files[number] = quoted.substr(1, quoted.size() - 2);
    while (in_.accept(",")) in_.take_integer();
  }

  void variable(std::string_view space) {
    Variable result = in_.variable(space);
    in_.expect(";");
    if (external_ && space != "shared") result.external = true;
    source_.variables.push_back(std::move(result));
  }

  std::vector<Variable> parameter_list() {
    std::vector<Variable> result;
    while (!in_.accept(")")) {
      in_.expect(".param");
      result.push_back(in_.parameter());
      if (in_.text() != ")") in_.expect(",");
    }
    return result;
  }

  void dimensions(int (&values)[3]) {
    for (int i = 0; i < 3; ++i) {
      values[i] = static_cast<int>(in_.take_integer());
      if (!in_.accept(",")) {
        for (++i; i < 3; ++i) values[i] = 1;
      }
    }
  }

  void function(bool is_entry) {
    Function result;
    result.is_entry = is_entry;
    if (!is_entry) {
      while (in_.text().starts_with(".attribute")) in_.skip_past(")");
      if (in_.accept("(")) result.results = parameter_list();
    }
    result.name = in_.take_word("the name of a function");
    if (in_.accept("(")) result.parameters = parameter_list();
    for (const Variable& parameter : result.parameters) {
      const auto align = static_cast<std::uint32_t>(parameter.align);
      result.parameter_bytes = (result.parameter_bytes + align - 1) / align * align;
      result.parameter_offsets.push_back(result.parameter_bytes);
      result.parameter_bytes += static_cast<std::uint32_t>(parameter.size);
    }
    while (in_.text() != "{" && in_.text() != ";") {
      if (in_.at_end()) in_.lexer().fail("a function has neither body nor ';'");
      if (in_.accept(".maxntid")) {
        dimensions(result.max_threads);
      } else if (in_.accept(".reqntid")) {
        dimensions(result.max_threads);
        result.requires_exact_threads = true;
      } else if (in_.accept(".reqnctapercluster")) {
        dimensions(result.cluster);
      } else {
        in_.lexer().take();
      }
    }
    if (in_.accept(";")) {
      source_.functions.try_emplace(result.name, std::move(result));
      return;
    }
    result.has_body = true;
    result.body_line = in_.lexer().peek().line;
    in_.expect("{");
    result.body_begin = in_.lexer().consumed_end();
    in_.lexer().skip_body();
    if (is_entry) source_.entry_order.push_back(result.name);
    source_.functions.insert_or_assign(result.name, std::move(result));
  }

  Source& source_;
  Cursor in_;
  bool external_ = false;
};

}  // namespace

void parse_module(Source& source) {
  if (source.text.starts_with("\x7f"
                              "ELF")) {
    throw ParseError(source.name + ":1: this is an ELF file (a cubin?), not PTX text");
  }
  if (const std::size_t zero = source.text.find('\0'); zero != std::string::npos) {
    throw ParseError(source.name + ":1: a zero byte at offset " + std::to_string(zero) +
                     ": this is a binary file, not PTX text");
  }
  ModuleParser(source).run();
}

}  // namespace faultline::simulator::ptx
