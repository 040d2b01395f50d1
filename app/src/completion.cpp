// SPDX-License-Identifier: Apache-2.0
// `faultline --completion bash|zsh|fish`: prints a script to be sourced.
#include <fmt/format.h>

#include "commands.hpp"

namespace faultline::app {
namespace {

constexpr const char* kCommands =
    "list verify stress race mutants replay explain reduce report compare bench reference doctor";
constexpr const char* kFlags =
    "--backend --variant --config --seed --data --budget --timeout --lenient --no-race "
    "--no-sanitizer --no-follow-ups --fail-on "
    "--quiet --verbose --color --width --run --resume --store --json --html --md --junit --sarif "
    "--csv "
    "--trials --repeats --executions --sweep --intermediates --plan --samples --hot "
    "--graph-launches --inputs --outputs --layout --drop --help";

std::string subject_words(const kernels::SubjectRegistry& registry) {
  std::string words;
  for (const auto& subject : registry.all()) {
    words += (words.empty() ? "" : " ") + subject->name;
    for (const auto& variant : subject->variants) words += " " + subject->name + "@" + variant.name;
  }
  return words;
}

}  // namespace

int completion_command(const Context& context) {
  const std::string subjects = subject_words(context.registry);
  const std::string& shell = context.options.completion_shell;
  if (shell == "fish") {
    fmt::print("complete -c faultline -f -n __fish_use_subcommand -a '{}'\n"
               "complete -c faultline -f -n 'not __fish_use_subcommand' -a '{}'\n",
               kCommands, subjects);
    for (std::string_view flags = kFlags; !flags.empty();) {
      const size_t end = flags.find(' ');
      fmt::print("complete -c faultline -l {}\n",
                 flags.substr(2, end == flags.npos ? end : end - 2));
      flags = end == flags.npos ? std::string_view() : flags.substr(end + 1);
    }
    return 0;
  }
  if (shell == "zsh") fmt::print("autoload -U +X bashcompinit && bashcompinit\n");
  fmt::print(
      "_faultline() {{\n"
      "    local word=${{COMP_WORDS[COMP_CWORD]}}\n"
      "    case $word in\n"
      "        -*) COMPREPLY=($(compgen -W '{}' -- \"$word\")) ;;\n"
      "        *) if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n"
      "           else COMPREPLY=($(compgen -W '{}' -- \"$word\")); fi ;;\n"
      "    esac\n"
      "}}\n"
      "complete -o default -F _faultline faultline\n",
      kFlags, kCommands, subjects);
  return 0;
}

}  // namespace faultline::app
