// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/ptx_delay.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <set>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "faultline/core/generator.hpp"
#include "faultline/core/launch_streams.hpp"

namespace faultline::stress {
namespace {

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string_view first_word(std::string_view text) {
  const std::size_t end = text.find_first_of(" \t\r\n;,(");
  return text.substr(0, end);
}

/// What kind of site an opcode is, if it is one, and whether the delay goes behind it.
struct Rule {
  std::string_view prefix;
  DelaySite kind;
  bool behind;
};
// The first that fits counts.
constexpr Rule kRules[] = {
    {"bar.warp.", DelaySite::barrier, true},
    {"bar.arrive", DelaySite::barrier, false},
    {"bar.", DelaySite::barrier, true},
    {"barrier.cluster.arrive", DelaySite::barrier, false},
    {"barrier.cta.arrive", DelaySite::barrier, false},
    {"barrier.arrive", DelaySite::barrier, false},
    {"barrier.", DelaySite::barrier, true},
    {"mbarrier.try_wait", DelaySite::mbarrier, true},
    {"mbarrier.test_wait", DelaySite::mbarrier, true},
    {"mbarrier.", DelaySite::mbarrier, false},
    {"cp.async.wait_", DelaySite::wait, true},
    {"cp.async.bulk.wait_group", DelaySite::wait, true},
    {"wgmma.wait_group", DelaySite::wait, true},
    {"cp.async.bulk.prefetch", DelaySite::copy, false},
    {"cp.async.", DelaySite::copy, false},
    {"cp.reduce.async.", DelaySite::copy, false},
    {"wgmma.", DelaySite::copy, false},
    {"atom.", DelaySite::atomic, false},
    {"red.", DelaySite::atomic, false},
    {"fence.", DelaySite::atomic, false},
    {"membar.", DelaySite::atomic, false},
    {"ld.acquire", DelaySite::atomic, true},
    {"st.release", DelaySite::atomic, false},
    {"ld.shared", DelaySite::shared, false},
    {"st.shared", DelaySite::shared, false},
    {"ldmatrix.", DelaySite::shared, false},
    {"stmatrix.", DelaySite::shared, false},
};

const Rule* rule_of(std::string_view opcode) {
  for (const Rule& rule : kRules) {
    if (opcode.starts_with(rule.prefix)) return &rule;
  }
  // "ld.volatile.shared", "st.relaxed.cta.shared", "wmma.load.a.sync.aligned.row.m16n16k16.shared"
  static constexpr Rule kShared{"", DelaySite::shared, false};
  const bool accesses = opcode.starts_with("ld.") || opcode.starts_with("st.") ||
                        opcode.starts_with("wmma.load") || opcode.starts_with("wmma.store");
  return accesses && opcode.find(".shared") != opcode.npos ? &kShared : nullptr;
}

/// Walks over a PTX text statement by statement.
class Walker {
 public:
  Walker(std::string_view ptx, std::uint32_t kinds) : ptx_(ptx), kinds_(kinds) { find_files(); }

  /// What may poll memory that other blocks write, with the place in the text. Branches back to a
  /// label in front of it make the loop.
  std::vector<PtxSite> polls() {
    watch_polls_ = true;
    run();
    std::vector<PtxSite> looping;
    for (PtxSite& poll : polls_) {
      const bool in_loop =
          std::any_of(branches_.begin(), branches_.end(), [&](const Branch& branch) {
            const auto label = labels_.find({branch.function, branch.label});
            return branch.function == poll.function && branch.at >= poll.offset &&
                   label != labels_.end() && label->second <= poll.offset;
          });
      if (in_loop) looping.push_back(std::move(poll));
    }
    add_deciding_loads(looping);
    return looping;
  }

  /// Where a kernel is defined, from its linkage directive to behind its body.
  struct Kernel {
    std::string name;
    std::size_t begin = 0, end = 0;
  };
  /// Of run().
  const std::vector<Kernel>& kernels() const { return kernels_; }

  std::vector<PtxSite> run() {
    while (at_ < ptx_.size()) {
      skip_blanks();
      if (at_ >= ptx_.size()) break;
      const char c = ptx_[at_];
      if (c == '{') {
        ++depth_;
        ++at_;
      } else if (c == '}') {
        ++at_;
        if (--depth_ == 0) {
          if (is_entry_ && !function_.empty()) kernels_.back().end = at_;
          function_.clear();
        }
      } else if (depth_ == 0) {
        at_top_level();
      } else {
        statement();
      }
    }
    return std::move(sites_);
  }

 private:
  std::string_view rest() const { return ptx_.substr(at_); }

  void skip_blanks() {
    for (;;) {
      while (at_ < ptx_.size() && is_blank(ptx_[at_])) ++at_;
      if (rest().starts_with("//")) {
        skip_line();
      } else if (rest().starts_with("/*")) {
        const std::size_t end = ptx_.find("*/", at_ + 2);
        at_ = end == ptx_.npos ? ptx_.size() : end + 2;
      } else {
        return;
      }
    }
  }
  void skip_line() {
    const std::size_t end = ptx_.find('\n', at_);
    at_ = end == ptx_.npos ? ptx_.size() : end + 1;
  }

  /// `.file 1 "path"` may stand anywhere, also behind the code that refers to it.
  void find_files() {
    for (std::size_t at = ptx_.find(".file"); at != ptx_.npos; at = ptx_.find(".file", at + 5)) {
      const std::string_view line = ptx_.substr(at, ptx_.find('\n', at) - at);
      const std::size_t open = line.find('"'), close = line.find('"', open + 1);
      int number = 0;
      if (close == line.npos || !read_number(line.substr(5), number)) continue;
      files_[number] = std::string(line.substr(open + 1, close - open - 1));
    }
  }
  static bool read_number(std::string_view text, int& number) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == text.npos) return false;
    const char* end = text.data() + text.size();
    return std::from_chars(text.data() + begin, end, number).ec == std::errc();
  }

  /// Up to the brace that begins a function's body or a debug section, or the end of a declaration.
  void at_top_level() {
    const std::size_t end = std::min(ptx_.find_first_of("{;", at_), ptx_.size());
    const std::string_view text = ptx_.substr(at_, end - at_);
    // Directives without an end of their own come first in such a text.
    for (const std::string_view keyword : {std::string_view(".entry"), std::string_view(".func")}) {
      const std::size_t found = text.rfind(keyword);
      if (found == text.npos) continue;
      std::string_view name = text.substr(found + keyword.size());
      // ".func (.param .b32 result) name(...)"
      name.remove_prefix(std::min(name.find_first_not_of(" \t\r\n"), name.size()));
      if (name.starts_with("(")) {
        name.remove_prefix(std::min(name.find(')') + 1, name.size()));
        name.remove_prefix(std::min(name.find_first_not_of(" \t\r\n"), name.size()));
      }
      function_ = first_word(name);
      is_entry_ = keyword == ".entry";
      if (is_entry_) kernels_.push_back({function_, at_ + linkage_of(text.substr(0, found)), at_});
      where_ = {};
    }
    at_ = end < ptx_.size() && ptx_[end] == ';' ? end + 1 : end;
  }

  /// Where what stands directly in front of ".entry" begins: ".visible ", ".weak ", or nothing.
  static std::size_t linkage_of(std::string_view before) {
    const std::size_t last = before.find_last_not_of(" \t\r\n");
    for (const std::string_view linkage :
         {std::string_view(".visible"), std::string_view(".weak")}) {
      if (last == before.npos || !before.substr(0, last + 1).ends_with(linkage)) continue;
      return last + 1 - linkage.size();
    }
    return before.size();
  }

  void statement() {
    if (rest().starts_with(".loc")) {
      location(ptx_.substr(at_ + 4, ptx_.find('\n', at_) - at_ - 4));
      return skip_line();
    }
    if (rest().starts_with(".file") || rest().starts_with(".section")) return skip_line();
    const std::size_t begin = at_;
    std::size_t end = ptx_.find_first_of(";:{}", at_);
    // "ld.shared::cta" has two colons, a label one.
    while (end != ptx_.npos && ptx_[end] == ':' && ptx_.substr(end, 2) == "::") {
      end = ptx_.find_first_of(";:{}", end + 2);
    }
    if (end == ptx_.npos) {
      at_ = ptx_.size();
      return;
    }
    // Vector operands have braces: "{%f1, %f2}". They end before the statement does.
    if (ptx_[end] == '{') end = ptx_.find(';', end);
    if (end == ptx_.npos || ptx_[end] == '}') {
      at_ = end == ptx_.npos ? ptx_.size() : end;
      return;
    }
    at_ = end + 1;
    if (ptx_[end] == ':') {
      labels_[{function_, std::string(ptx_.substr(begin, end - begin))}] = begin;
      return;
    }
    std::string_view text = ptx_.substr(begin, end - begin), guard;
    if (text.starts_with("@")) {
      guard = text.substr(0, text.find_first_of(" \t"));
      text.remove_prefix(std::min(text.find_first_of(" \t"), text.size()));
      text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    }
    const std::string_view opcode = first_word(text);
    if (watch_polls_) watch(guard, text, opcode, begin);
    const Rule* rule = rule_of(opcode);
    if (!rule || (kinds_ & bit(rule->kind)) == 0) return;
    sites_.push_back({rule->kind, function_, is_entry_, std::string(opcode), where_,
                      rule->behind ? end + 1 : begin});
  }

  /// Loads of memory that other blocks may write, in a loop that goes on or ends by what they gave:
  /// it reaches the predicate of a branch back or out by way of the loop's own statements.
  void add_deciding_loads(std::vector<PtxSite>& found) const {
    for (const Branch& back : branches_) {
      const auto label = labels_.find({back.function, back.label});
      if (label == labels_.end() || label->second > back.at) continue;
      const std::size_t begin = label->second, end = back.at;
      std::vector<const PtxSite*> loads;
      for (const PtxSite& load : loads_) {
        if (load.offset >= begin && load.offset <= end) loads.push_back(&load);
      }
      if (loads.empty() || !decide(loads, begin, end)) continue;
      for (const PtxSite* load : loads) {
        if (decide({load}, begin, end)) found.push_back(*load);
      }
    }
  }

  bool decide(const std::vector<const PtxSite*>& loads, std::size_t begin, std::size_t end) const {
    std::set<std::string_view> reached;
    const auto first =
        std::lower_bound(statements_.begin(), statements_.end(), begin,
                         [](const Statement& s, std::size_t at) { return s.at < at; });
    const auto is_reached = [&](std::string_view name) { return reached.contains(name); };
    for (int round = 0; round < 2; ++round) {  // the second for what the loop carries around
      for (auto s = first; s != statements_.end() && s->at <= end; ++s) {
        const bool from_load = std::any_of(loads.begin(), loads.end(),
                                           [&](const PtxSite* l) { return l->offset == s->at; });
        if (from_load || std::any_of(s->read.begin(), s->read.end(), is_reached)) {
          reached.insert(s->written.begin(), s->written.end());
        }
      }
    }
    return std::any_of(branches_.begin(), branches_.end(), [&](const Branch& branch) {
      if (branch.at < begin || branch.at > end || !reached.contains(branch.predicate)) return false;
      const auto to = labels_.find({branch.function, branch.label});
      // Back to the beginning or out of the loop; a way past some of its statements is neither.
      return to != labels_.end() && (to->second <= begin || to->second > end);
    });
  }

  /// The registers in a text of operands.
  static std::vector<std::string_view> registers_of(std::string_view text) {
    std::vector<std::string_view> names;
    for (std::size_t at = text.find('%'); at != text.npos; at = text.find('%', at + 1)) {
      names.push_back(text.substr(at, text.find_first_of(" \t\r\n,;{}[]()|+!", at) - at));
    }
    return names;
  }

  /// `guard`: "@%p1" or "@!%p1" in front of it, or nothing.
  void watch(std::string_view guard, std::string_view text, std::string_view opcode,
             std::size_t begin) {
    const std::string_view operands = text.substr(opcode.size());
    const std::vector<std::string_view> guards = registers_of(guard);
    if (opcode.starts_with("bra")) {
      text.remove_prefix(opcode.size());
      text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
      branches_.push_back({function_, std::string(first_word(text)), begin,
                           guards.empty() ? std::string_view() : guards.front()});
      return;
    }
    // The first operand is written, unless it is an address: "[%rd1]".
    const std::size_t open = std::min(operands.find_first_not_of(" \t\r\n"), operands.size());
    const bool vector = operands.substr(open).starts_with("{");
    const std::size_t comma = std::min(operands.find(vector ? '}' : ',', open), operands.size());
    Statement statement{begin, {}, registers_of(operands.substr(comma))};
    if (!operands.substr(open).starts_with("[")) {
      statement.written = registers_of(operands.substr(0, comma));
    }
    statement.read.insert(statement.read.end(), guards.begin(), guards.end());
    statements_.push_back(std::move(statement));
    if (loads_memory_of_others(opcode)) {
      loads_.push_back(
          {DelaySite::atomic, function_, is_entry_, std::string(opcode), where_, begin});
    }
    if (polls(opcode)) {
      polls_.push_back(
          {DelaySite::atomic, function_, is_entry_, std::string(opcode), where_, begin});
    }
  }
  static bool loads_memory_of_others(std::string_view opcode) {
    if (!opcode.starts_with("ld.")) return false;
    constexpr std::string_view kOthers[] = {".shared", ".param", ".const", ".local", ".nc"};
    return std::none_of(std::begin(kOthers), std::end(kOthers),
                        [&](auto part) { return opcode.find(part) != opcode.npos; });
  }

  /// Sums of real numbers are no flags; what lies in shared memory no other block writes.
  static bool polls(std::string_view opcode) {
    const auto has = [&](std::string_view part) { return opcode.find(part) != opcode.npos; };
    if (has(".shared")) return false;
    if (opcode.starts_with("atom."))
      return !has(".f16") && !has(".bf16") && !has(".f32") && !has(".f64");
    return opcode.starts_with("ld.volatile") || opcode.starts_with("ld.relaxed") ||
           opcode.starts_with("ld.acquire") || opcode.starts_with("ld.mmio") ||
           (opcode.starts_with("ld.") && has(".cv"));
  }

  /// "1 35 3, function_name $L__info_string0, inlined_at 1 59 3"
  void location(std::string_view text) {
    const Line here = read_line(text);
    if (here.second == 0) return;
    const std::size_t inlined = text.find("inlined_at");
    callers_[here] = inlined == text.npos ? Line{} : read_line(text.substr(inlined + 10));
    // The innermost line in the folder of the kernel: a helper from elsewhere is less telling than
    // where the kernel calls it.
    std::vector<Line> chain;
    for (Line line = here; line.second != 0 && chain.size() < kDeepest; line = callers_[line]) {
      chain.push_back(line);
    }
    const auto folder = [&](const Line& line) {
      const std::string& file = files_[line.first];
      return file.substr(0, file.find_last_of('/') + 1);
    };
    const auto own = std::find_if(chain.begin(), chain.end(), [&](const Line& line) {
      return folder(line) == folder(chain.back());
    });
    where_ = {files_[own->first], own->second, {}};
  }

  /// A file's number and a line; 0, 0: none.
  using Line = std::pair<int, int>;
  static Line read_line(std::string_view text) {
    Line line;
    if (!read_number(text, line.first)) return {};
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    text.remove_prefix(std::min(text.find_first_of(" \t"), text.size()));
    return read_number(text, line.second) ? line : Line{};
  }

  static constexpr std::size_t kDeepest = 32;  ///< inlined calls: a chain may not go in a circle
  std::string_view ptx_;
  std::uint32_t kinds_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string function_;
  bool is_entry_ = false;
  core::SourceLocation where_;
  std::map<int, std::string> files_;
  std::map<Line, Line> callers_;  ///< of lines that were inlined
  std::vector<PtxSite> sites_;
  std::vector<Kernel> kernels_;
  struct Branch {
    std::string function, label;
    std::size_t at;
    std::string_view predicate;  ///< empty: always taken
  };
  struct Statement {
    std::size_t at;
    std::vector<std::string_view> written, read;  ///< registers
  };
  bool watch_polls_ = false;
  std::vector<PtxSite> polls_, loads_;
  std::vector<Statement> statements_;  ///< in the order of the text
  std::vector<Branch> branches_;
  std::map<std::pair<std::string, std::string>, std::size_t> labels_;  ///< of a function
};

/// Modules as they are first launched, with the kernels of each that are.
std::vector<std::pair<core::ModuleRef, std::set<std::string>>>
launched(const core::Program& program) {
  std::vector<std::pair<core::ModuleRef, std::set<std::string>>> modules;
  for (const core::Operation& operation : program.operations) {
    const auto* launch = std::get_if<core::LaunchOperation>(&operation.what);
    if (!launch || !launch->module) continue;
    auto known = std::find_if(modules.begin(), modules.end(),
                              [&](const auto& m) { return m.first->hash == launch->module->hash; });
    if (known == modules.end()) {
      known = modules.insert(modules.end(), {launch->module, {}});
    }
    known->second.insert(launch->entry);
  }
  return modules;
}

std::vector<PtxSite> sites_of(const core::Module& module, const std::set<std::string>& entries,
                              std::uint32_t kinds) {
  std::vector<PtxSite> sites = find_sites(module.ptx, kinds);
  std::erase_if(sites,
                [&](const PtxSite& s) { return s.is_entry && !entries.contains(s.function); });
  return sites;
}

/// A PTX text without the kernels that are not launched: a driver compiles all of a text, and a
/// module may have dozens.
class LaunchedText {
 public:
  LaunchedText(const std::string& ptx, const std::set<std::string>& entries) : ptx_(ptx) {
    // Full debug information names the bodies that it is about.
    if (ptx.find(".debug_info") != ptx.npos) return;
    Walker walker(ptx, 0);
    walker.run();
    for (const Walker::Kernel& kernel : walker.kernels()) {
      if (!entries.contains(kernel.name)) left_out_.push_back(kernel);
    }
  }

  /// Appends the text from `begin` to `end`, without what is left out.
  void append(std::string& to, std::size_t begin, std::size_t end) const {
    for (const Walker::Kernel& kernel : left_out_) {
      if (kernel.end <= begin || kernel.begin >= end) continue;
      if (kernel.begin > begin) to.append(ptx_, begin, kernel.begin - begin);
      begin = std::min(kernel.end, end);
    }
    to.append(ptx_, begin, end - begin);
  }

 private:
  const std::string& ptx_;
  std::vector<Walker::Kernel> left_out_;
};

/// Sleeps in those warps of a block whose bit is set; other blocks begin at other bits.
std::string delay_text(const core::Perturbation& p, std::uint64_t number) {
  const std::uint64_t drawn = core::mix64(p.delay_seed ^ core::mix64(number));
  constexpr int kLeast = 5;
  const int most = std::max(kLeast, static_cast<int>(std::bit_width(p.delay_ns)) - 1);
  const auto choices = static_cast<std::uint64_t>(most - kLeast + 1);
  const std::uint64_t ns = std::uint64_t{1} << (kLeast + static_cast<int>(drawn % choices));
  // Of each eight one sleeps and one does not, at another place at each site: whichever warp it is
  // that must be late, or early, in a block or a grid of one.
  const std::uint32_t warps =
      std::rotl((static_cast<std::uint32_t>(drawn >> 32) | 0x01010101u) & 0x7f7f7f7fu,
                static_cast<int>(drawn >> 24 & 31));
  return fmt::format(
      "\n{{\n.reg .b32 %delay_w, %delay_x, %delay_n;\n.reg .pred %delay_p;\n"
      "mov.u32 %delay_w, %tid.z;\nmov.u32 %delay_n, %ntid.y;\nmov.u32 %delay_x, %tid.y;\n"
      "mad.lo.u32 %delay_w, %delay_w, %delay_n, %delay_x;\n"
      "mov.u32 %delay_n, %ntid.x;\nmov.u32 %delay_x, %tid.x;\n"
      "mad.lo.u32 %delay_w, %delay_w, %delay_n, %delay_x;\n"
      "shr.u32 %delay_w, %delay_w, 5;\nmov.u32 %delay_x, %ctaid.x;\n"
      "mad.lo.u32 %delay_w, %delay_x, 5, %delay_w;\nmov.u32 %delay_x, %ctaid.y;\n"
      "mad.lo.u32 %delay_w, %delay_x, 3, %delay_w;\nmov.u32 %delay_x, %ctaid.z;\n"
      "mad.lo.u32 %delay_w, %delay_x, 7, %delay_w;\nand.b32 %delay_w, %delay_w, 31;\n"
      "mov.u32 %delay_x, {};\nshr.u32 %delay_w, %delay_x, %delay_w;\n"
      "and.b32 %delay_w, %delay_w, 1;\nsetp.ne.u32 %delay_p, %delay_w, 0;\n"
      "@%delay_p nanosleep.u32 {};\n}}\n",
      warps, ns);
}

}  // namespace

std::string_view name_of(DelaySite site) {
  constexpr std::string_view kNames[] = {"barrier", "mbarrier", "wait", "copy", "atomic", "shared"};
  const auto index = static_cast<std::size_t>(site);
  return index < std::size(kNames) ? kNames[index] : "?";
}

std::vector<PtxSite> find_sites(std::string_view ptx, std::uint32_t kinds) {
  return Walker(ptx, kinds).run();
}

std::vector<PtxSite> find_sites(const core::Program& program, std::uint32_t kinds) {
  std::vector<PtxSite> all;
  for (const auto& [module, entries] : launched(program)) {
    for (PtxSite& site : sites_of(*module, entries, kinds)) all.push_back(std::move(site));
  }
  return all;
}

std::string polling_instruction(const core::Program& program) {
  for (const auto& [module, entries] : launched(program)) {
    for (const PtxSite& poll : Walker(module->ptx, 0).polls()) {
      if (poll.is_entry && !entries.contains(poll.function)) continue;
      if (poll.where.line == 0) return fmt::format("{} in {}", poll.instruction, poll.function);
      return fmt::format("{} at {}:{}", poll.instruction, poll.where.file, poll.where.line);
    }
  }
  return {};
}

namespace {

/// From the name of a kernel to the end of its body; the whole text when it cannot be made out.
std::string_view kernel_text(std::string_view ptx, const std::string& entry) {
  const std::string name = ".entry " + entry;
  std::size_t at = ptx.find(name);
  while (at != ptx.npos && at + name.size() < ptx.size() && !is_blank(ptx[at + name.size()]) &&
         ptx[at + name.size()] != '(') {
    at = ptx.find(name, at + 1);  // the name of another kernel begins like this one's
  }
  std::size_t end = at == ptx.npos ? ptx.npos : ptx.find('{', at);
  for (int depth = 0; end != ptx.npos; end = ptx.find_first_of("{}", end + 1)) {
    depth += ptx[end] == '{' ? 1 : -1;
    if (depth == 0) return ptx.substr(at, end - at);
  }
  return ptx;
}

}  // namespace

bool uses_shared_memory(const core::Program& program) {
  const auto uses = [](const core::Operation& operation) {
    const auto* launch = std::get_if<core::LaunchOperation>(&operation.what);
    if (!launch) return false;
    if (launch->dynamic_shared_bytes > 0) return true;
    if (!launch->module) return false;
    constexpr std::string_view kShared = ".shared";
    const std::string_view kernel = kernel_text(launch->module->ptx, launch->entry);
    if (kernel.find(kShared) != kernel.npos) return true;
    return kernel.find("call") != kernel.npos &&
           launch->module->ptx.find(kShared) != std::string::npos;
  };
  return std::any_of(program.operations.begin(), program.operations.end(), uses);
}

std::string why_not_dirtied(const core::Program& program) {
  if (!uses_shared_memory(program)) return "no launch uses shared memory";
  return core::launches_in_several_streams(program) ? core::kSeveralStreamsNotDirtied : "";
}

core::Program with_delays(const core::Program& program, const core::Perturbation& perturbation,
                          std::vector<std::pair<std::string, core::ModuleRef>>& made) {
  core::Program changed = program;
  std::uint32_t number = 0;
  for (const auto& [module, entries] : launched(program)) {
    const std::vector<PtxSite> sites = sites_of(*module, entries, perturbation.delay_sites);
    const std::uint32_t first = number;
    number += static_cast<std::uint32_t>(sites.size());
    // The same module may be launched by other kernels of it, or behind other modules.
    const std::string key =
        fmt::format("{} {} {} {} {} {} {}", module->hash, first, fmt::join(entries, " "),
                    perturbation.delay_sites, perturbation.delay_site, perturbation.delay_ns,
                    perturbation.delay_seed);
    auto known =
        std::find_if(made.begin(), made.end(), [&](const auto& m) { return m.first == key; });
    if (known == made.end()) {
      const LaunchedText launched_text(module->ptx, entries);
      std::string text;
      std::size_t copied = 0;
      for (std::size_t i = 0; i < sites.size(); ++i) {
        const std::uint64_t here = first + i + 1;
        if (perturbation.delay_site != 0 && perturbation.delay_site != here) continue;
        launched_text.append(text, copied, sites[i].offset);
        text += delay_text(perturbation, here);
        copied = sites[i].offset;
      }
      launched_text.append(text, copied, module->ptx.size());
      const bool same = copied == 0;
      made.emplace_back(key, same ? module : core::with_ptx(*module, std::move(text)));
      known = made.end() - 1;
    }
    for (core::Operation& operation : changed.operations) {
      auto* launch = std::get_if<core::LaunchOperation>(&operation.what);
      if (launch && launch->module && launch->module->hash == module->hash) {
        launch->module = known->second;
      }
    }
  }
  return changed;
}

}  // namespace faultline::stress
