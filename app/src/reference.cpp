// SPDX-License-Identifier: Apache-2.0
// `faultline reference`: the double-precision references on tensors of the user's own.
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/core/problem.hpp"
#include "faultline/reference/deltanet.hpp"
#include "faultline/reference/deltanet_decode.hpp"
#include "faultline/reference/gemv.hpp"
#include "faultline/reference/gla_decode.hpp"
#include "faultline/reports/output.hpp"
#include "memory.hpp"
#include "npy.hpp"

namespace faultline::app {
namespace {

namespace fs = std::filesystem;

/// What a subject's reference reads and computes. `axes` of an array name its extents, head first;
/// 't' stands in the files of decode steps as an extent of 1, or not at all.
struct ArraySpec {
  std::string_view name;
  std::string_view axes;  ///< of 'b' 'h' 't' 'k' (dk) 'v' (dv); gemv: 'n' 'c'
  bool required = true;
};

enum class Kind { forward, backward, decode, gla, gemv };

struct SubjectSpec {
  std::string_view name;
  Kind kind;
  std::vector<ArraySpec> inputs, outputs;
};

constexpr ArraySpec kQ{"q", "bhtk"}, kK{"k", "bhtk"}, kV{"v", "bhtv"}, kBeta{"beta", "bht"},
    kG{"g", "bht"}, kH0{"h0", "bhkv", false}, kDo{"do", "bhtv"}, kDhT{"dhT", "bhkv", false};
constexpr ArraySpec kO{"o", "bhtv"}, kHT{"hT", "bhkv"}, kDq{"dq", "bhtk"}, kDk{"dk", "bhtk"},
    kDv{"dv", "bhtv"}, kDbeta{"dbeta", "bht"}, kDg{"dg", "bht"}, kDh0{"dh0", "bhkv"};

const std::vector<SubjectSpec>& subjects() {
  static const std::vector<SubjectSpec> all{
      {"deltanet_fwd", Kind::forward, {kQ, kK, kV, kBeta, kH0}, {kO, kHT}},
      {"gated_deltanet_fwd", Kind::forward, {kQ, kK, kV, kBeta, kG, kH0}, {kO, kHT}},
      {"deltanet_bwd",
       Kind::backward,
       {kQ, kK, kV, kBeta, kH0, kDo, kDhT},
       {kO, kHT, kDq, kDk, kDv, kDbeta, kDh0}},
      {"gated_deltanet_bwd",
       Kind::backward,
       {kQ, kK, kV, kBeta, kG, kH0, kDo, kDhT},
       {kO, kHT, kDq, kDk, kDv, kDbeta, kDg, kDh0}},
      {"deltanet_decode", Kind::decode, {kQ, kK, kV, kBeta, kH0}, {kO, kHT}},
      {"gated_deltanet_decode", Kind::decode, {kQ, kK, kV, kBeta, kG, kH0}, {kO, kHT}},
      {"gla_decode", Kind::gla, {kQ, kK, kV, {"gk", "bhtk"}, kH0}, {kO, kHT}},
      {"gemv", Kind::gemv, {{"a", "nc"}, {"x", "c"}}, {{"y", "n"}}},
  };
  return all;
}

const SubjectSpec& find_subject(std::string_view name) {
  std::vector<std::string_view> names;
  for (const SubjectSpec& subject : subjects()) {
    if (subject.name == name) return subject;
    names.push_back(subject.name);
  }
  const std::string nearest = core::nearest_name(name, names);
  throw core::UsageError(fmt::format("there is no reference of '{}'{} There are {}", name,
                                     nearest.empty() ? "." : ", did you mean '" + nearest + "'?",
                                     fmt::join(names, ", ")));
}

/// The word for an axis on the command line.
std::string_view axis_word(char axis, Kind kind) {
  switch (axis) {
  case 'b': return "b";
  case 'h': return "h";
  case 't': return "t";
  case 'k': return "dk";
  case 'v': return "dv";
  case 'n': return "n";
  default: return kind == Kind::gemv ? "k" : "";
  }
}

bool is_step(Kind kind) { return kind == Kind::decode || kind == Kind::gla; }

/// Time before heads: [B, T, H, D] instead of [B, H, T, D].
std::string in_layout(std::string_view axes, bool time_first) {
  std::string text(axes);
  if (time_first) {
    const std::size_t h = text.find('h'), t = text.find('t');
    if (h != text.npos && t != text.npos) std::swap(text[h], text[t]);
  }
  return text;
}

/// Row-major elements from one order of axes to another.
template <typename Copy>
void permute(const std::string& from, const std::string& to, const std::map<char, std::int64_t>& n,
             Copy&& copy) {
  std::vector<std::int64_t> index(to.size(), 0);
  std::int64_t total = 1;
  for (const char axis : to) total *= n.at(axis);
  for (std::int64_t target = 0; target < total; ++target) {
    std::int64_t source = 0;
    for (const char axis : from) source = source * n.at(axis) + index[to.find(axis)];
    copy(source, target);
    for (std::size_t i = to.size(); i-- > 0;) {
      if (++index[i] < n.at(to[i])) break;
      index[i] = 0;
    }
  }
}

/// A folder inside the folder of outputs, gone with what is left in it at the end.
class Staging {
 public:
  explicit Staging(const fs::path& outputs) : outputs_(outputs) {
    std::string name = (outputs / ".partial.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw core::EnvironmentError(
          fmt::format("{} cannot be written ({}): give --outputs a folder that can",
                      outputs.string(), std::generic_category().message(errno)));
    }
    path_ = name;
  }
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const fs::path& path() const { return path_; }
  void publish(const std::string& file) const {
    std::error_code error;
    fs::rename(path_ / file, outputs_ / file, error);
    if (error) {
      throw core::EnvironmentError(
          fmt::format("{} cannot be written ({})", (outputs_ / file).string(), error.message()));
    }
  }

 private:
  fs::path outputs_, path_;
};

/// Ctrl-C ends the command at once while it computes: there is nothing to finish or to report.
class LeaveOnInterrupt {
 public:
  LeaveOnInterrupt() {
    struct sigaction at_once {};
    at_once.sa_handler = SIG_DFL;
    sigemptyset(&at_once.sa_mask);
    sigaction(SIGINT, &at_once, &interrupt_);
    sigaction(SIGTERM, &at_once, &terminate_);
  }
  ~LeaveOnInterrupt() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }
  LeaveOnInterrupt(const LeaveOnInterrupt&) = delete;
  LeaveOnInterrupt& operator=(const LeaveOnInterrupt&) = delete;

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

/// One run of the command.
class ReferenceRun {
 public:
  ReferenceRun(const Options& options, const SubjectSpec& subject)
      : options_(options), subject_(subject), time_first_(options.layout == "bthd") {}

  int run() {
    check_options();
    {
      const LeaveOnInterrupt at_once;
      check_input_folder();
      read_inputs();
      check_memory();
      make_folder(options_.outputs_dir);
      reports::check_writable((fs::path(options_.outputs_dir) / "o.npy").string());
      compute();
    }
    write_outputs();
    return 0;
  }

 private:
  void check_options() {
    if (options_.inputs_dir.empty() || options_.outputs_dir.empty()) {
      throw core::UsageError("`faultline reference` needs --inputs DIR and --outputs DIR");
    }
    if (!options_.drop.empty()) {
      if (subject_.kind != Kind::backward) {
        throw core::UsageError(fmt::format(
            "--drop leaves a term out of a gradient, and {} computes none: use deltanet_bwd or "
            "gated_deltanet_bwd",
            subject_.name));
      }
      dropped_ = reference::parse_delta_terms(options_.drop);
    }
    for (const auto& [name, value] : options_.problem_values()) {
      if (name == "scale") {
        parse_scale(value);
      } else if (name == "chunk" && !options_.drop.empty()) {
        chunk_ = parse_extent(name, value);
      } else {
        given_[axis_named(name)] = parse_extent(name, value);
      }
    }
  }

  void check_input_folder() const {
    std::error_code error;
    const fs::path inputs(options_.inputs_dir);
    std::vector<std::string> files;
    fs::directory_iterator entry(inputs, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      files.push_back(entry->path().filename().string());
    }
    if (error) {
      throw core::UsageError(fmt::format("--inputs {}: cannot be read as a folder ({})",
                                         inputs.string(), error.message()));
    }
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) check_is_read(file);
  }

  static void make_folder(const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
      throw core::EnvironmentError(fmt::format("{} cannot be made ({}): give --outputs a folder "
                                               "that can be written",
                                               folder.string(), error.message()));
    }
  }

  /// A file that is not read must not be meant: "dht.npy" would silently be a dhT of zero. One with
  /// the name of a tensor that only other subjects read (g for the ungated form), or of an output,
  /// is named and left.
  void check_is_read(const std::string& file) const {
    const fs::path path(file);
    std::string extension = path.extension().string();
    for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (extension != ".npy" && extension != ".npz") return;
    const std::string stem = path.stem().string();
    const bool known = file == stem + ".npy" && is_tensor_name(stem);
    std::vector<std::string_view> taken, absent;
    for (const ArraySpec& input : subject_.inputs) {
      if (file == fmt::format("{}.npy", input.name)) return;
      taken.push_back(input.name);
      const fs::path own = fs::path(options_.inputs_dir) / fmt::format("{}.npy", input.name);
      std::error_code error;
      // Without a required one there will be an error anyway.
      if (!fs::exists(fs::symlink_status(own, error)) && !(known && input.required)) {
        absent.push_back(input.name);
      }
    }
    std::string meant = core::nearest_name(stem, absent);
    for (const std::string_view name : absent) {
      if (is_same_but_for_case(stem, name)) meant = name;
    }
    std::error_code error;
    const bool ours = fs::equivalent(options_.inputs_dir, options_.outputs_dir, error);
    if (known && (meant.empty() || ours)) {
      if (ours && is_output(stem)) return;  // of an earlier call
      fmt::print(stderr, "faultline: {} is not read: {} takes {}\n",
                 (fs::path(options_.inputs_dir) / file).string(), subject_.name,
                 fmt::join(taken, ", "));
      return;
    }
    throw core::UsageError(fmt::format(
        "{} is no input of {} and would not be read: rename it{} or move it elsewhere; the inputs "
        "are {}, each as NAME.npy",
        (fs::path(options_.inputs_dir) / file).string(), subject_.name,
        meant.empty() ? "" : fmt::format(" (to {}.npy?)", meant), fmt::join(taken, ", ")));
  }

  /// Inputs of any subject and outputs of this one.
  bool is_tensor_name(std::string_view name) const {
    const auto is_name = [&](const ArraySpec& spec) { return spec.name == name; };
    for (const SubjectSpec& subject : subjects()) {
      if (std::any_of(subject.inputs.begin(), subject.inputs.end(), is_name)) return true;
    }
    return is_output(name);
  }
  bool is_output(std::string_view name) const {
    return std::any_of(subject_.outputs.begin(), subject_.outputs.end(),
                       [&](const ArraySpec& spec) { return spec.name == name; });
  }

  static bool is_same_but_for_case(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
      return std::tolower(x) == std::tolower(y);
    });
  }

  /// Inputs and outputs in double, which the references hold at once.
  void check_memory() const {
    std::uint64_t elements = 0;
    for (const auto* specs : {&subject_.inputs, &subject_.outputs}) {
      for (const ArraySpec& spec : *specs) {
        elements += static_cast<std::uint64_t>(core::element_count(shape_of(spec.axes)));
      }
    }
    const std::uint64_t needed = elements * sizeof(double);
    const auto available = available_memory();
    if (!available || needed <= *available) return;
    throw core::EnvironmentError(
        fmt::format("out of memory before it began: inputs and outputs of {} take {} in double, "
                    "and {} can be had here: split the batch or the heads over several calls",
                    subject_.name, bytes_text(needed), bytes_text(*available)));
  }

  char axis_named(const std::string& name) const {
    std::string known;
    for (const char axis : all_axes()) {
      const std::string_view word = axis_word(axis, subject_.kind);
      if (word == name) return axis;
      known += fmt::format("{}, ", word);
    }
    if (name == "chunk")
      throw core::UsageError("chunk= belongs to --drop: the recurrence has none");
    throw core::UsageError(fmt::format("the reference of {} does not take '{}': it takes {}{}",
                                       subject_.name, name, known,
                                       subject_.kind == Kind::gemv ? "no other" : "scale"));
  }
  /// Every axis of the inputs, in order of appearance.
  std::string all_axes() const {
    std::string axes;
    for (const ArraySpec& input : subject_.inputs) {
      for (const char axis : input.axes) {
        if (axes.find(axis) == axes.npos) axes += axis;
      }
    }
    return axes;
  }
  std::int64_t parse_extent(const std::string& name, const std::string& text) const {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end || value < 1) {
      throw core::UsageError(fmt::format("{}={}: a whole number from 1 on is needed", name, text));
    }
    return value;
  }
  void parse_scale(const std::string& text) {
    if (subject_.kind == Kind::gemv) axis_named("scale");
    if (text == "auto") {
      scale_.reset();
      scale_is_auto_ = true;
      return;
    }
    double value = 0.0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end || !std::isfinite(value)) {
      throw core::UsageError(fmt::format("scale={}: a finite number or auto is needed", text));
    }
    scale_ = value;
  }

  void read_inputs() {
    for (const ArraySpec& spec : subject_.inputs) {
      const fs::path path = fs::path(options_.inputs_dir) / fmt::format("{}.npy", spec.name);
      std::error_code error;
      if (!spec.required && !fs::exists(fs::symlink_status(path, error))) continue;
      core::Tensor tensor = read_npy(path);
      check_finite(path, tensor);
      take_shape(path, spec, tensor);
      inputs_.emplace(spec.name, head_first(spec, tensor));
    }
    for (const auto& [axis, value] : given_) {
      // An axis that no file has set cannot have been checked: every axis is on a required file.
      if (extents_.at(axis) != value) disagree("the command line", axis, value);
    }
  }

  static void check_finite(const fs::path& path, const core::Tensor& tensor) {
    for (std::int64_t i = 0, n = tensor.size(); i < n; ++i) {
      const double x = tensor.at(i);
      if (core::is_finite(x)) continue;
      core::Shape index(tensor.shape.size());
      std::int64_t rest = i;
      for (std::size_t d = index.size(); d-- > 0;) {
        index[d] = rest % tensor.shape[d];
        rest /= tensor.shape[d];
      }
      throw core::UsageError(fmt::format("{}: holds {} at index {}; inputs must be finite",
                                         path.string(), core::is_nan(x) ? "NaN" : "infinity",
                                         core::to_string(index)));
    }
  }

  [[noreturn]] void disagree(const std::string& where, char axis, std::int64_t value) const {
    throw core::UsageError(fmt::format("{} says {}={}, but {} says {}={}", where,
                                       axis_word(axis, subject_.kind), value, seen_in_.at(axis),
                                       axis_word(axis, subject_.kind), extents_.at(axis)));
  }

  /// Learns or checks the extents. The file of a decode step may leave out T.
  void take_shape(const fs::path& path, const ArraySpec& spec, const core::Tensor& tensor) {
    std::string axes = in_layout(spec.axes, time_first_);
    if (is_step(subject_.kind) && tensor.shape.size() + 1 == axes.size() &&
        axes.find('t') != axes.npos) {
      axes.erase(axes.find('t'), 1);
      steps_without_time_ = steps_without_time_ || spec.name == "q";
      extents_.try_emplace('t', 1);
      seen_in_.try_emplace('t', path.string());
    }
    if (tensor.shape.size() != axes.size()) {
      std::string wanted;
      for (const char axis : axes) {
        wanted += fmt::format("{}{}", wanted.empty() ? "" : ", ", axis_word(axis, subject_.kind));
      }
      throw core::UsageError(fmt::format("{}: has shape {}; [{}] is needed{}", path.string(),
                                         core::to_string(tensor.shape), wanted,
                                         axes.find('t') != axes.npos && axes.find('h') != axes.npos
                                             ? fmt::format(" (--layout {})", options_.layout)
                                             : ""));
    }
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::int64_t extent = tensor.shape[i];
      if (extent < 1) {
        throw core::UsageError(fmt::format("{}: has shape {}, no elements at all", path.string(),
                                           core::to_string(tensor.shape)));
      }
      if (is_step(subject_.kind) && axes[i] == 't' && extent != 1) {
        throw core::UsageError(fmt::format("{}: has shape {}; {} takes one step, t=1",
                                           path.string(), core::to_string(tensor.shape),
                                           subject_.name));
      }
      const auto [known, is_new] = extents_.try_emplace(axes[i], extent);
      seen_in_.try_emplace(axes[i], path.string());
      if (!is_new && known->second != extent) disagree(path.string(), axes[i], extent);
    }
  }

  /// The tensor in the order of the references: head first, T always there.
  core::Tensor head_first(const ArraySpec& spec, const core::Tensor& tensor) const {
    const std::string to(spec.axes), from = in_layout(spec.axes, time_first_);
    core::Tensor result(tensor.dtype, shape_of(to));
    const std::size_t size = core::size_of(tensor.dtype);
    if (from == to) {
      result.bytes = tensor.bytes;
    } else {
      permute(from, to, extents_, [&](std::int64_t source, std::int64_t target) {
        std::copy_n(tensor.bytes.begin() + source * static_cast<std::int64_t>(size), size,
                    result.bytes.begin() + target * static_cast<std::int64_t>(size));
      });
    }
    return result;
  }

  core::Shape shape_of(std::string_view axes) const {
    core::Shape shape;
    for (const char axis : axes) shape.push_back(extents_.at(axis));
    return shape;
  }

  const core::Tensor* find(std::string_view name) const {
    const auto found = inputs_.find(name);
    return found == inputs_.end() ? nullptr : &found->second;
  }

  double scale() const {
    if (scale_) return *scale_;
    const bool by_default = subject_.kind == Kind::gla;
    if (!scale_is_auto_ && !by_default) return 1.0;
    return 1.0 / std::sqrt(static_cast<double>(extents_.at('k')));
  }

  void compute() {
    switch (subject_.kind) {
    case Kind::forward:
    case Kind::backward:
    case Kind::decode: compute_delta(); return;
    case Kind::gla: compute_gla(); return;
    case Kind::gemv: {
      const reference::GemvBound bound{};
      results_.emplace("y", reference::gemv(*find("a"), *find("x"), bound).expected);
      return;
    }
    }
  }

  void compute_delta() {
    const reference::DeltaInputs in = reference::delta_inputs({.q = find("q"),
                                                               .k = find("k"),
                                                               .v = find("v"),
                                                               .beta = find("beta"),
                                                               .g = find("g"),
                                                               .h0 = find("h0"),
                                                               .d_o = find("do"),
                                                               .dhT = find("dhT")},
                                                              scale());
    reference::DeltaOutputs out;
    if (subject_.kind != Kind::backward) {
      out = reference::recurrent_forward(in);
    } else if (options_.drop.empty()) {
      out = reference::recurrent_backward(in);
    } else {
      out = reference::chunkwise_backward(in, {.chunk = chunk_, .dropped = dropped_}).outputs;
    }
    for (const ArraySpec& output : subject_.outputs) {
      results_.emplace(output.name, out[*reference::parse_delta_output(output.name)]);
    }
  }

  void compute_gla() {
    const auto without_time = [&](std::string_view name) {
      core::Tensor tensor = *find(name);
      tensor.shape.erase(tensor.shape.begin() + 2);
      return tensor;
    };
    const core::Tensor q = without_time("q"), k = without_time("k"), v = without_time("v"),
                       gk = without_time("gk");
    const core::Tensor state =
        find("h0") != nullptr ? *find("h0") : core::Tensor(core::Dtype::f64, shape_of("bhkv"));
    const std::vector<core::ReferenceTensor> out = reference::gla_decode(
        {.q = q, .k = k, .v = v, .gk = gk, .state = state}, scale(), reference::GlaBound{});
    results_.emplace("o", out[0].expected);
    results_.emplace("hT", out[1].expected);
  }

  /// All of them or none: they are written to a folder beside their place, then renamed.
  void write_outputs() const {
    const fs::path directory(options_.outputs_dir);
    make_folder(directory);
    const Staging staging(directory);
    for (const ArraySpec& output : subject_.outputs) {
      const auto [shape, values] = in_user_layout(output);
      const std::string file = fmt::format("{}.npy", output.name);
      write_npy(staging.path() / file, shape, values, directory / file);
    }
    for (const ArraySpec& output : subject_.outputs) {
      staging.publish(fmt::format("{}.npy", output.name));
    }
    print_problem();
    for (const ArraySpec& output : subject_.outputs) print_output(output);
  }

  std::pair<core::Shape, std::vector<double>> in_user_layout(const ArraySpec& output) const {
    const std::vector<double>& head_first = results_.at(output.name);
    const std::string from(output.axes);
    std::string to = in_layout(output.axes, time_first_);
    std::vector<double> values(head_first.size());
    permute(from, to, extents_, [&](std::int64_t source, std::int64_t target) {
      values[static_cast<std::size_t>(target)] = head_first[static_cast<std::size_t>(source)];
    });
    if (steps_without_time_ && to.find('t') != to.npos) to.erase(to.find('t'), 1);
    return {shape_of(to), std::move(values)};
  }

  void print_output(const ArraySpec& output) const {
    const std::vector<double>& values = results_.at(output.name);
    const auto finite = std::count_if(values.begin(), values.end(), core::is_finite);
    if (finite != static_cast<std::ptrdiff_t>(values.size())) {
      fmt::print(stderr,
                 "faultline: {} of {} values of {} are not finite: the recurrence grows without "
                 "limit where beta |k|^2 > 2\n",
                 static_cast<std::ptrdiff_t>(values.size()) - finite, values.size(), output.name);
    }
    std::string axes = in_layout(output.axes, time_first_);
    if (steps_without_time_ && axes.find('t') != axes.npos) axes.erase(axes.find('t'), 1);
    if (!options_.quiet) {
      fmt::print("  {:<5} {} float64\n", output.name, core::to_string(shape_of(axes)));
    }
  }

  void print_problem() const {
    if (options_.quiet) return;
    std::string line(subject_.name);
    for (const char axis : all_axes()) {
      line += fmt::format(" {}={}", axis_word(axis, subject_.kind), extents_.at(axis));
    }
    if (subject_.kind != Kind::gemv) line += fmt::format(" scale={}", scale());
    if (options_.drop.empty()) {
      fmt::print("{}, in double by the definition\n", line);
    } else {
      fmt::print("{}, in double by the chunkwise form, chunk {}, without {}\n", line, chunk_,
                 reference::to_string(dropped_));
    }
    for (const ArraySpec& input : subject_.inputs) {
      if (find(input.name) == nullptr) fmt::print("  no {}.npy: zero\n", input.name);
    }
    fmt::print("  written to {}:\n", options_.outputs_dir);
  }

  const Options& options_;
  const SubjectSpec& subject_;
  bool time_first_;
  bool steps_without_time_ = false;  ///< decode: q, and so o, have no T
  bool scale_is_auto_ = false;
  std::optional<double> scale_;
  std::int64_t chunk_ = 64;
  reference::DeltaTermSet dropped_;
  std::map<char, std::int64_t> given_, extents_;
  std::map<char, std::string> seen_in_;
  std::map<std::string_view, core::Tensor> inputs_;
  std::map<std::string_view, std::vector<double>> results_;
};

}  // namespace

int reference_command(const Context& context) {
  const Options& options = context.options;
  if (options.words.empty()) {
    std::vector<std::string_view> names;
    for (const SubjectSpec& subject : subjects()) names.push_back(subject.name);
    throw core::UsageError(
        fmt::format("which reference? One of {}; e.g. `faultline reference deltanet_bwd "
                    "--inputs DIR --outputs DIR`",
                    fmt::join(names, ", ")));
  }
  return ReferenceRun(options, find_subject(options.subject())).run();
}

}  // namespace faultline::app
