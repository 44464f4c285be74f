// SPDX-License-Identifier: Apache-2.0
// The identity of an attachment and the names derived from it. Owner of every piece of state.
#pragma once

#include <cstdint>
#include <string>

namespace poduplink {

// As the runtime names it: CNI network name, CNI_CONTAINERID, CNI_IFNAME.
struct AttachmentId {
  std::string network;
  std::string container_id;
  std::string if_name;

  friend bool operator==(const AttachmentId&, const AttachmentId&) = default;
  friend auto operator<=>(const AttachmentId&, const AttachmentId&) = default;
};

// 64-bit FNV-1a over the three names, each followed by a zero octet. Never 0, which means "none" in the maps.
std::uint64_t attachment_hash(const AttachmentId& id);

// Sixteen hex digits: the name of the record file.
std::string hash_text(std::uint64_t hash);

// The host side of the veth: "pdl" and twelve hex digits of the hash.
std::string host_veth_name(const AttachmentId& id);
// The same from the hash alone, as a map entry's owner has it.
std::string host_veth_name(std::uint64_t hash);

}  // namespace poduplink
