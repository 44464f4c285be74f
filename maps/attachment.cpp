// SPDX-License-Identifier: Apache-2.0
#include "maps/attachment.h"

#include "loader/base/format.h"

namespace poduplink {
namespace {

// FNV-1a with its published 64-bit constants.
constexpr std::uint64_t fnv_offset = 0xcbf29ce484222325;
constexpr std::uint64_t fnv_prime = 0x100000001b3;

// The veth name has room for 48 of the 64 bits.
constexpr std::uint64_t name_mask = 0xffffffffffff;

std::uint64_t add(std::uint64_t hash, const std::string& text) {
  // c_str() ends with a zero octet, which is hashed too: ("ab", "c") and ("a", "bc") differ.
  for (std::size_t i = 0; i <= text.size(); ++i) {
    hash = (hash ^ static_cast<unsigned char>(text.c_str()[i])) * fnv_prime;
  }
  return hash;
}

}  // namespace

std::uint64_t attachment_hash(const AttachmentId& id) {
  const std::uint64_t hash = add(add(add(fnv_offset, id.network), id.container_id), id.if_name);
  return hash == 0 ? 1 : hash;
}

std::string hash_text(std::uint64_t hash) { return formatted("{:016x}", hash); }

std::string host_veth_name(const AttachmentId& id) { return host_veth_name(attachment_hash(id)); }

std::string host_veth_name(std::uint64_t hash) { return formatted("pdl{:012x}", hash & name_mask); }

}  // namespace poduplink
