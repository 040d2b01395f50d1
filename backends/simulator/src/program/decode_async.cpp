// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies and matrix instructions. PTX ISA, "Data Movement and Conversion Instructions:
// Asynchronous copy", "Tensor copy", "Warp-level Matrix Instructions".
#include "exec/effects.hpp"
#include "program/decoder.hpp"

namespace faultline::simulator {

using ptx::Scalar;

bool Decoder::decode_cp_async() {
  if (mods_.take_any({"ca", "cg"}).empty()) return false;
  if (mods_.take_any({"shared", "shared::cta"}).empty() || !mods_.take("global")) return false;
  const bool policy = mods_.take("L2::cache_hint");
  mods_.take_any({"L2::64B", "L2::128B", "L2::256B"});
  std::size_t count = operand_count() - (policy ? 1 : 0);
  if (count < 3 || count > 4 || operand(2).kind != ptx::Operand::Kind::immediate) return false;
  if (!address_register(operand(0), 0, true) || !address_register(operand(1), 1, false))
    return false;
  out_.bytes = static_cast<std::uint8_t>(operand(2).immediate);
  if (out_.bytes != 4 && out_.bytes != 8 && out_.bytes != 16) return false;
  if (count == 4) {
    const bool ignore = is_register(3) && register_bytes(operand(3)) == 0;
    const auto s = source(operand(3), ignore ? Scalar::pred : Scalar::u32);
    if (!s) return false;
    out_.s[ignore ? 3 : 2] = *s;
    out_.sign_extend = operand(3).negated;
  }
  out_.flow = Flow::visible;
  out_.effect = effects::cp_async();
  program_->uses_cp_async = true;
  return true;
}

bool Decoder::decode_cp_async_group() {
  out_.flow = Flow::visible;
  program_->uses_cp_async = true;
  if (is_op("cp.async.commit_group")) {
    out_.effect = effects::cp_async_commit();
    return true;
  }
  out_.effect = effects::cp_async_wait();
  if (is_op("cp.async.wait_group")) {
    if (operand(0).kind != ptx::Operand::Kind::immediate) return false;
    out_.variant = static_cast<std::uint32_t>(operand(0).immediate);
  } else {
    out_.extra = 1;  // wait_all: uncommitted copies too
  }
  return true;
}

bool Decoder::decode_cp_async_mbarrier() {
  mods_.take("b64");
  out_.variant = mods_.take("noinc") ? 1 : 0;
  out_.space = mods_.take_any({"shared", "shared::cta"}).empty() ? Space::generic : Space::shared;
  if (!address(operand(0), 0)) return false;
  out_.flow = Flow::visible;
  out_.effect = effects::cp_async_mbarrier_arrive();
  program_->uses_cp_async = program_->uses_mbarriers = true;
  return true;
}

bool Decoder::decode_bulk_group() {
  out_.flow = Flow::visible;
  program_->uses_bulk_groups = true;
  if (is_op("cp.async.bulk.commit_group")) {
    out_.effect = effects::bulk_commit();
    return true;
  }
  if (operand(0).kind != ptx::Operand::Kind::immediate) return false;
  out_.variant = static_cast<std::uint32_t>(operand(0).immediate) & 0xff;
  if (mods_.take("read")) out_.variant |= kBulkRead;
  out_.effect = effects::bulk_wait();
  return true;
}

bool Decoder::decode_bulk() {
  const bool policy = mods_.take("L2::cache_hint");
  if (mods_.has("multicast::cluster")) return false;
  const std::size_t count = operand_count() - (policy ? 1 : 0);
  out_.flow = Flow::visible;
  out_.effect = effects::bulk_copy();
  if (mods_.take("bulk_group")) {
    if (!mods_.take("global") || mods_.take_any({"shared::cta"}).empty() || count != 3)
      return false;
    if (!address_register(operand(0), 1, false) || !address_register(operand(1), 0, true))
      return false;
    const auto size = source(operand(2), Scalar::u32);
    if (!size) return false;
    out_.s[2] = *size;
    out_.variant = kBulkToGlobal;
    program_->uses_bulk_groups = true;
    return true;
  }
  if (!mods_.take("mbarrier::complete_tx::bytes") || !mods_.take("global")) return false;
  if (mods_.take_any({"shared::cluster", "shared::cta"}).empty() || count != 4) return false;
  if (!address_register(operand(0), 0, true) || !address_register(operand(1), 1, false) ||
      !address_register(operand(3), 3, true)) {
    return false;
  }
  const auto size = source(operand(2), Scalar::u32);
  if (!size) return false;
  out_.s[2] = *size;
  program_->uses_mbarriers = true;
  return true;
}

bool Decoder::decode_bulk_tensor() {
  const std::string_view dimension = mods_.take_any({"1d", "2d", "3d", "4d", "5d"});
  const bool policy = mods_.take("L2::cache_hint");
  mods_.take("tile");
  if (dimension.empty() || mods_.has("multicast::cluster")) return false;
  const std::size_t rank = static_cast<std::size_t>(dimension[0] - '0');
  const std::size_t count = operand_count() - (policy ? 1 : 0);
  const bool to_global = mods_.take("bulk_group");
  const auto coordinates = [&](const ptx::Operand& map) {
    if (map.kind != ptx::Operand::Kind::memory || map.elements.size() != rank) return false;
    out_.extra = static_cast<std::uint32_t>(program_->extra.size());
    out_.extra_count = static_cast<std::uint32_t>(rank);
    for (const ptx::Operand& coordinate : map.elements) {
      const auto s = source(coordinate, Scalar::s32);
      if (!s) return false;
      program_->extra.push_back(*s);
    }
    return true;
  };
  out_.flow = Flow::visible;
  out_.effect = effects::bulk_tensor_copy();
  if (to_global) {
    if (!mods_.take("global") || !mods_.take("shared::cta") || count != 2) return false;
    out_.variant = kBulkToGlobal;
    program_->uses_bulk_groups = true;
    return coordinates(operand(0)) && address_register(operand(0), 1, false) &&
           address_register(operand(1), 0, true);
  }
  if (!mods_.take("mbarrier::complete_tx::bytes") || !mods_.take("global")) return false;
  if (mods_.take_any({"shared::cluster", "shared::cta"}).empty() || count != 3) return false;
  program_->uses_mbarriers = true;
  return coordinates(operand(1)) && address_register(operand(0), 0, true) &&
         address_register(operand(1), 1, false) && address_register(operand(2), 3, true);
}

namespace {

int matrix_count(Modifiers& mods) {
  const std::string_view count = mods.take_any({"x1", "x2", "x4"});
  return count.empty() ? 1 : count[1] - '0';
}

}  // namespace

bool Decoder::decode_ldmatrix() {
  const bool known =
      mods_.take("sync") && mods_.take("aligned") && mods_.take("m8n8") && mods_.take("b16");
  const int count = matrix_count(mods_);
  out_.sign_extend = mods_.take("trans");
  out_.space = mods_.take_any({"shared", "shared::cta"}).empty() ? Space::generic : Space::shared;
  if (!known || operand_count() != 2 || !address(operand(1), 0)) return false;
  std::vector<ptx::Operand> results = {operand(0)};
  if (operand(0).kind == ptx::Operand::Kind::vector) results = operand(0).elements;
  if (results.size() != static_cast<std::size_t>(count)) return false;
  for (std::size_t k = 0; k < results.size(); ++k) {
    const auto d = destination(results[k], 4);
    if (!d) return false;
    out_.d[k] = *d;
  }
  out_.vector = static_cast<std::uint8_t>(count);
  out_.bytes = 16;
  out_.flow = Flow::convergent;
  out_.effect = effects::load_matrix();
  return true;
}

bool Decoder::decode_stmatrix() {
  const bool known =
      mods_.take("sync") && mods_.take("aligned") && mods_.take("m8n8") && mods_.take("b16");
  const int count = matrix_count(mods_);
  out_.sign_extend = mods_.take("trans");
  out_.space = mods_.take_any({"shared", "shared::cta"}).empty() ? Space::generic : Space::shared;
  if (!known || operand_count() != 2 || !address(operand(0), 0)) return false;
  std::vector<ptx::Operand> values = {operand(1)};
  if (operand(1).kind == ptx::Operand::Kind::vector) values = operand(1).elements;
  if (values.size() != static_cast<std::size_t>(count)) return false;
  out_.extra = static_cast<std::uint32_t>(program_->extra.size());
  for (const ptx::Operand& value : values) {
    const auto s = source(value, Scalar::b32);
    if (!s) return false;
    program_->extra.push_back(*s);
  }
  out_.vector = static_cast<std::uint8_t>(count);
  out_.bytes = 16;
  out_.flow = Flow::convergent;
  out_.effect = effects::store_matrix();
  return true;
}

// Operands go to Program::extra as D, A, B, C.
bool Decoder::decode_mma() {
  if (!mods_.take("sync") || !mods_.take("aligned") || !mods_.take("row") || !mods_.take("col"))
    return false;
  const std::string_view shape = mods_.take_any({"m16n8k4", "m16n8k8", "m16n8k16"});
  const auto c = mods_.take_last_type();
  const auto b = mods_.take_last_type();
  const auto a = mods_.take_last_type();
  const auto d = mods_.take_last_type();
  if (shape.empty() || !a || !b || !c || !d || *a != *b || *c != *d || operand_count() != 4)
    return false;
  MmaShape mma{};
  mma.k = shape == "m16n8k16" ? 16 : shape == "m16n8k8" ? 8 : 4;
  if (*a == Scalar::f16 && mma.k >= 8)
    mma.type = MmaType::f16;
  else if (*a == Scalar::bf16 && mma.k >= 8)
    mma.type = MmaType::bf16;
  else if (*a == Scalar::tf32 && mma.k <= 8)
    mma.type = MmaType::tf32;
  else
    return false;
  mma.half_accumulators = *c == Scalar::f16;
  if (*c != Scalar::f32 && !(mma.half_accumulators && mma.type == MmaType::f16)) return false;
  const std::size_t scale = mma.type == MmaType::tf32 ? 2 : 1;
  const std::size_t a_count = scale * static_cast<std::size_t>(mma.k) / 4;
  const std::size_t b_count = a_count / 2;
  const std::size_t c_count = mma.half_accumulators ? 2 : 4;
  const std::size_t counts[4] = {c_count, a_count, b_count, c_count};
  out_.extra = static_cast<std::uint32_t>(program_->extra.size());
  for (std::size_t k = 0; k < 4; ++k) {
    std::vector<ptx::Operand> list = {operand(k)};
    if (operand(k).kind == ptx::Operand::Kind::vector) list = operand(k).elements;
    if (list.size() != counts[k]) return false;
    for (const ptx::Operand& element : list) {
      const auto reg =
          k == 0 ? destination(element, 4)
                 : source(element, (k == 3 && !mma.half_accumulators) ? Scalar::f32 : Scalar::b32);
      if (!reg) return false;
      program_->extra.push_back(*reg);
    }
  }
  out_.variant = mma_variant(mma);
  out_.flow = Flow::convergent;
  out_.effect = effects::multiply_matrix();
  return true;
}

}  // namespace faultline::simulator
