// SPDX-License-Identifier: Apache-2.0
// What the PTX parser produces: plain data, still close to the text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace faultline::simulator::ptx {

// The fundamental types of PTX (PTX ISA, "Fundamental Types" and "Alternate Floating-Point").
enum class Scalar : std::uint8_t {
  pred,
  b8,
  u8,
  s8,
  b16,
  u16,
  s16,
  f16,
  bf16,
  b32,
  u32,
  s32,
  f32,
  tf32,
  f16x2,
  bf16x2,
  b64,
  u64,
  s64,
  f64,
  b128
};

std::optional<Scalar> parse_scalar(std::string_view text);
std::string_view name_of(Scalar type);
// Size in bytes; a predicate has none and returns 0.
int bytes_of(Scalar type);
bool is_signed(Scalar type);
bool is_float(Scalar type);

// A source position with the position it was inlined at, if any (an index into Source::locations).
struct Location {
  int file = 0;
  int line = 0;
  int column = 0;
  int parent = -1;
  bool operator==(const Location&) const = default;
};

struct Operand {
  enum class Kind : std::uint8_t { reg, immediate, symbol, memory, vector, group, sink };
  Kind kind = Kind::sink;
  int reg = -1;              // reg; memory: base register or -1
  int second_reg = -1;       // `p|q` destinations
  bool second_sink = false;  // `d|_`
  bool negated = false;      // `!p`
  bool is_float = false;     // immediate: bits of an f32 (f32_bits) or f64
  bool is_double = false;
  std::uint64_t immediate = 0;
  std::string_view symbol;  // symbol; memory: base symbol or empty
  std::int64_t offset = 0;
  std::vector<Operand> elements;  // vector and group elements; memory: tensor coordinates
};

struct Statement {
  std::string_view opcode;  // with every modifier, as written
  std::string_view text;    // the whole statement, for reports
  int predicate = -1;
  bool predicate_negated = false;
  std::vector<Operand> operands;
  int location = -1;
  int target = -1;           // bra: index of the statement jumped to
  std::vector<int> targets;  // brx.idx
  int ptx_line = 0;
};

struct Register {
  std::string_view name;
  Scalar type;
};

struct Initializer {
  std::uint64_t byte_offset;
  std::string_view symbol;
  std::int64_t addend;
};

struct Variable {
  std::string_view space;  // shared, global, const, local, param
  std::string_view name;
  int align = 1;
  std::uint64_t size = 0;
  bool external = false;  // `extern .shared`: sized at launch
  std::vector<std::uint8_t> bytes;
  std::vector<Initializer> addresses;
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  bool has_body = false;
  std::vector<Variable> parameters;  // with offsets assigned for entries
  std::vector<std::uint32_t> parameter_offsets;
  std::uint32_t parameter_bytes = 0;
  std::vector<Variable> results;
  std::size_t body_begin = 0;  // offset in the text just behind `{`
  int body_line = 0;
  int max_threads[3] = {0, 0, 0};
  bool requires_exact_threads = false;
  int cluster[3] = {0, 0, 0};
  bool parsed = false;
  std::vector<Register> registers;
  std::vector<Statement> code;
  std::vector<Variable> variables;
};

struct Source {
  std::string text;
  std::string name;  // for error messages
  std::vector<Variable> variables;
  std::map<std::string_view, Function> functions;
  std::vector<std::string_view> entry_order;
  std::map<int, std::string_view> files;
  std::vector<Location> locations;
};

}  // namespace faultline::simulator::ptx
