// SPDX-License-Identifier: Apache-2.0
#include "cni/announce.h"

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>

#include "maps/bpf.h"

namespace poduplink {
namespace {

using Frame = std::vector<std::uint8_t>;

constexpr std::uint16_t arp_request = 1;
constexpr std::uint16_t arp_reply = 2;
constexpr std::uint8_t icmpv6 = 58;
constexpr std::uint8_t neighbour_advertisement = 136;
constexpr std::uint8_t override_flag = 0x20;
constexpr std::uint8_t target_link_address = 2;

// 33:33 and the last four octets of ff02::1.
constexpr MacAddress all_nodes_mac(std::array<std::uint8_t, 6>{0x33, 0x33, 0, 0, 0, 1});
constexpr MacAddress broadcast_mac(std::array<std::uint8_t, 6>{0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
constexpr std::array<std::uint8_t, 16> all_nodes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

void put(Frame& frame, std::span<const std::uint8_t> octets) {
  frame.insert(frame.end(), octets.begin(), octets.end());
}

void put16(Frame& frame, std::uint16_t value) {
  frame.push_back(static_cast<std::uint8_t>(value >> 8U));
  frame.push_back(static_cast<std::uint8_t>(value));
}

Frame ethernet(const MacAddress& to, const MacAddress& from, std::uint16_t type) {
  Frame frame;
  put(frame, to.octets());
  put(frame, from.octets());
  put16(frame, type);
  return frame;
}

Frame arp(const IpAddress& address, const MacAddress& mac, std::uint16_t operation) {
  Frame frame = ethernet(broadcast_mac, mac, ETH_P_ARP);
  put16(frame, 1);  // Ethernet
  put16(frame, ETH_P_IP);
  put(frame, std::array<std::uint8_t, 2>{6, 4});
  put16(frame, operation);
  put(frame, mac.octets());
  put(frame, address.octets());
  put(frame, operation == arp_reply ? mac.octets() : MacAddress().octets());
  put(frame, address.octets());
  return frame;
}

// The Internet checksum over the pseudo header of IPv6 and the message.
std::uint16_t icmpv6_checksum(const IpAddress& source, std::span<const std::uint8_t> message) {
  Frame all;
  put(all, source.octets());
  put(all, all_nodes);
  put16(all, 0);
  put16(all, static_cast<std::uint16_t>(message.size()));
  put16(all, 0);
  put16(all, icmpv6);
  put(all, message);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) sum += static_cast<std::uint32_t>(all[i] << 8U | all[i + 1]);
  while (sum > 0xffff) sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<std::uint16_t>(~sum);
}

Frame advertisement(const IpAddress& address, const MacAddress& mac) {
  Frame message{neighbour_advertisement, 0, 0, 0, override_flag, 0, 0, 0};
  put(message, address.octets());
  put(message, std::array<std::uint8_t, 2>{target_link_address, 1});
  put(message, mac.octets());
  const std::uint16_t sum = icmpv6_checksum(address, message);
  message[2] = static_cast<std::uint8_t>(sum >> 8U);
  message[3] = static_cast<std::uint8_t>(sum);

  Frame frame = ethernet(all_nodes_mac, mac, ETH_P_IPV6);
  put(frame, std::array<std::uint8_t, 4>{0x60, 0, 0, 0});
  put16(frame, static_cast<std::uint16_t>(message.size()));
  put(frame, std::array<std::uint8_t, 2>{icmpv6, 255});
  put(frame, address.octets());
  put(frame, all_nodes);
  put(frame, message);
  return frame;
}

// return bpf_clone_redirect(skb, skb->ifindex, 0);
constexpr std::array<bpf_insn, 4> send_by_own_interface{{
    {.code = BPF_LDX | BPF_MEM | BPF_W,
     .dst_reg = BPF_REG_2,
     .src_reg = BPF_REG_1,
     .off = offsetof(__sk_buff, ifindex),
     .imm = 0},
    {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .src_reg = 0, .off = 0, .imm = 0},
    {.code = BPF_JMP | BPF_CALL, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = BPF_FUNC_clone_redirect},
    {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
}};

Result<> send(const Fd& sender, int link, const Frame& frame) {
  PDL_TRY_ASSIGN(const int answer, bpf::run_classifier(sender.get(), link, frame));
  if (answer == 0) return {};
  // Above 0 the queue has dropped it, as that of an interface which is down does.
  const int code = answer < 0 ? -answer : ENOBUFS;
  return Failure(Error{code, errno_text(code)});
}

}  // namespace

std::vector<Frame> announcement_frames(const IpAddress& address, const MacAddress& mac) {
  if (address.is_v6()) return {advertisement(address, mac)};
  return {arp(address, mac, arp_request), arp(address, mac, arp_reply)};
}

void Announcer::prepare() { sender_ = bpf::load_classifier(send_by_own_interface, "announce"); }

Result<> Announcer::announce(const std::vector<Announcement>& announcements) {
  if (announcements.empty()) return {};
  if (!sender_) prepare();
  if (!*sender_) return Failure(sender_->error());
  const Fd& sender = **sender_;
  Result<> outcome;
  for (const auto& [link, address, mac] : announcements) {
    for (const Frame& frame : announcement_frames(address, mac)) {
      const auto sent = send(sender, link, frame);
      if (!sent && outcome)
        outcome = fail_within(sent.error(), formatted("announcing {} by interface {}", address.text(), link));
    }
  }
  return outcome;
}

}  // namespace poduplink
