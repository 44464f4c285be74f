// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/packet.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace poduplink::tests {
namespace {

constexpr std::size_t ethernet_size = 14;

void put8(Octets& to, unsigned value) { to.push_back(static_cast<std::uint8_t>(value)); }

void put16(Octets& to, unsigned value) {
  put8(to, value >> 8U);
  put8(to, value);
}

void put32(Octets& to, std::uint32_t value) {
  put16(to, value >> 16U);
  put16(to, value);
}

void append(Octets& to, std::span<const std::uint8_t> octets) { to.insert(to.end(), octets.begin(), octets.end()); }

void set16(Octets& in, std::size_t at, unsigned value) {
  in.at(at) = static_cast<std::uint8_t>(value >> 8U);
  in.at(at + 1) = static_cast<std::uint8_t>(value);
}

// Adds the octets up as 16-bit words, without folding.
std::uint64_t add_up(std::span<const std::uint8_t> octets) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < octets.size(); ++i) sum += i % 2 == 0 ? std::uint64_t{octets[i]} << 8U : octets[i];
  return sum;
}

unsigned fold(std::uint64_t sum) {
  while (sum >> 16U != 0) sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<unsigned>(~sum & 0xffffU);
}

std::uint64_t pseudo_header(const IpAddress& src, const IpAddress& dst, unsigned protocol, std::size_t length) {
  return add_up(src.octets()) + add_up(dst.octets()) + protocol + (length & 0xffffU) + (length >> 16U);
}

unsigned icmp_protocol(const Ip* ip) { return ip != nullptr && ip->src.is_v6() ? 58 : 1; }

// The number that a layer before this one writes into its protocol field.
unsigned protocol_of(const Layer& layer, const Ip* ip) {
  if (std::holds_alternative<Tcp>(layer)) return 6;
  if (std::holds_alternative<Udp>(layer)) return 17;
  if (std::holds_alternative<Icmp>(layer)) return icmp_protocol(ip);
  if (std::holds_alternative<Fragment>(layer)) return 44;
  if (const auto* extension = std::get_if<Extension>(&layer)) return extension->type;
  if (const auto* inner = std::get_if<Ip>(&layer)) return inner->src.is_v6() ? 41 : 4;
  return 59;  // no next header; unassigned meaning in IPv4, which is as good
}

unsigned ethertype_of(const Layer& layer) {
  if (const auto* vlan = std::get_if<Vlan>(&layer)) return vlan->type;
  if (const auto* ip = std::get_if<Ip>(&layer)) return ip->src.is_v6() ? 0x86dd : 0x0800;
  if (std::holds_alternative<Arp>(layer)) return 0x0806;
  return 0x88b5;  // for local experiments
}

class Builder {
 public:
  explicit Builder(std::span<const Layer> layers) : layers_(layers) {}

  Octets from(std::size_t at, const Ip* ip) {
    if (at >= layers_.size()) return {};
    const auto* inner = std::get_if<Ip>(&layers_[at]);
    Octets payload = from(at + 1, inner != nullptr ? inner : ip);
    next_ = at + 1 < layers_.size() ? &layers_[at + 1] : nullptr;
    ip_ = ip;
    return std::visit([&](const auto& layer) { return encode(layer, payload); }, layers_[at]);
  }

 private:
  [[nodiscard]] unsigned next_protocol(const Ip* ip) const { return next_ == nullptr ? 59 : protocol_of(*next_, ip); }

  [[nodiscard]] Octets encode(const Ethernet& eth, const Octets& payload) const {
    Octets out;
    append(out, eth.dst.octets());
    append(out, eth.src.octets());
    put16(out, eth.type.value_or(next_ == nullptr ? 0x88b5 : static_cast<std::uint16_t>(ethertype_of(*next_))));
    append(out, payload);
    return out;
  }

  [[nodiscard]] Octets encode(const Vlan& vlan, const Octets& payload) const {
    Octets out;
    put16(out, vlan.id);
    put16(out, next_ == nullptr ? 0x88b5 : ethertype_of(*next_));
    append(out, payload);
    return out;
  }

  [[nodiscard]] static Octets encode(const Arp& arp, const Octets& payload) {
    Octets out;
    put16(out, 1);
    put16(out, 0x0800);
    put8(out, 6);
    put8(out, 4);
    put16(out, arp.operation);
    append(out, arp.sender_mac.octets());
    append(out, arp.sender.octets());
    append(out, arp.target_mac.octets());
    append(out, arp.target.octets());
    append(out, payload);
    return out;
  }

  [[nodiscard]] Octets encode(const Ip& ip, const Octets& payload) const {
    return ip.src.is_v6() ? encode6(ip, payload) : encode4(ip, payload);
  }

  [[nodiscard]] Octets encode4(const Ip& ip, const Octets& payload) const {
    const std::size_t words = 5 + ip.option_words;
    Octets out;
    put8(out, (unsigned{ip.version.value_or(4)} << 4U) | ip.header_words.value_or(static_cast<std::uint8_t>(words)));
    put8(out, ip.tos);
    put16(out, ip.length.value_or(static_cast<std::uint16_t>((words * 4) + payload.size())));
    put16(out, ip.id);
    put16(out, (ip.dont_fragment ? 0x4000U : 0U) | (ip.more_fragments ? 0x2000U : 0U) | (ip.fragment_offset / 8U));
    put8(out, ip.ttl);
    put8(out, ip.protocol.value_or(static_cast<std::uint8_t>(next_protocol(&ip))));
    put16(out, 0);
    append(out, ip.src.octets());
    append(out, ip.dst.octets());
    out.resize(words * 4, 1);
    set16(out, 10, fold(add_up(out)));
    append(out, payload);
    return out;
  }

  [[nodiscard]] Octets encode6(const Ip& ip, const Octets& payload) const {
    Octets out;
    put32(out, std::uint32_t{ip.version.value_or(6)} << 28U);
    put16(out, ip.length.value_or(static_cast<std::uint16_t>(payload.size())));
    put8(out, ip.protocol.value_or(static_cast<std::uint8_t>(next_protocol(&ip))));
    put8(out, ip.ttl);
    append(out, ip.src.octets());
    append(out, ip.dst.octets());
    append(out, payload);
    return out;
  }

  [[nodiscard]] Octets encode(const Extension& extension, const Octets& payload) const {
    // All but authentication count in units of 8 octets beyond the first 8.
    const unsigned length = extension.type == 51 ? (extension.size / 4) - 2 : (extension.size / 8) - 1;
    Octets out;
    put8(out, next_protocol(ip_));
    put8(out, extension.length.value_or(static_cast<std::uint8_t>(length)));
    out.resize(extension.size);
    append(out, payload);
    return out;
  }

  [[nodiscard]] Octets encode(const Fragment& fragment, const Octets& payload) const {
    Octets out;
    put8(out, next_protocol(ip_));
    put8(out, 0);
    put16(out, fragment.offset | (fragment.more ? 1U : 0U));
    put32(out, 0x01020304);
    append(out, payload);
    return out;
  }

  void set_checksum(Octets& out, std::size_t at, unsigned protocol) const {
    if (ip_ == nullptr) return;
    // ICMP for IPv4 alone sums no addresses.
    const std::uint64_t pseudo = protocol == 1 ? 0 : pseudo_header(ip_->src, ip_->dst, protocol, out.size());
    set16(out, at, fold(pseudo + add_up(out)));
  }

  [[nodiscard]] Octets encode(const Tcp& tcp, const Octets& payload) const {
    const unsigned words = 5U + tcp.option_words;
    Octets out;
    put16(out, tcp.sport);
    put16(out, tcp.dport);
    put32(out, 1);
    put32(out, 1);
    put8(out, words << 4U);
    put8(out, tcp.flags);
    put16(out, 0xffff);
    put32(out, 0);
    out.resize(words * std::size_t{4}, 1);
    append(out, payload);
    set_checksum(out, 16, 6);
    return out;
  }

  [[nodiscard]] Octets encode(const Udp& udp, const Octets& payload) const {
    Octets out;
    put16(out, udp.sport);
    put16(out, udp.dport);
    put16(out, static_cast<unsigned>(8 + payload.size()));
    put16(out, 0);
    append(out, payload);
    set_checksum(out, 6, 17);
    return out;
  }

  [[nodiscard]] Octets encode(const Icmp& icmp, const Octets& payload) const {
    Octets out;
    put8(out, icmp.type);
    put8(out, icmp.code);
    put16(out, 0);
    put32(out, icmp.rest);
    append(out, payload);
    set_checksum(out, 2, icmp_protocol(ip_));
    return out;
  }

  [[nodiscard]] static Octets encode(const Raw& raw, const Octets& payload) {
    Octets out = raw.octets;
    append(out, payload);
    return out;
  }

  std::span<const Layer> layers_;
  const Layer* next_ = nullptr;
  const Ip* ip_ = nullptr;
};

bool is_v6_frame(const Octets& frame) { return frame.at(12) == 0x86 && frame.at(13) == 0xdd; }

MacAddress mac_at(const Octets& frame, std::size_t at) {
  std::array<std::uint8_t, 6> octets{};
  for (std::size_t i = 0; i < octets.size(); ++i) octets.at(i) = frame.at(at + i);
  return MacAddress{octets};
}

IpAddress address_at(const Octets& frame, std::size_t at, std::size_t size) {
  return IpAddress::from_octets(std::span(frame).subspan(at).first(size)).value();
}

[[noreturn]] void no_literal(std::string_view text) {
  std::fputs(("bad address in a test: " + std::string(text) + "\n").c_str(), stderr);
  std::abort();
}

}  // namespace

IpAddress ip(std::string_view text) {
  auto address = IpAddress::parse(text);
  if (!address) no_literal(text);
  return *address;
}

MacAddress mac(std::string_view text) {
  auto address = MacAddress::parse(text);
  if (!address) no_literal(text);
  return *address;
}

Octets build(const std::vector<Layer>& layers) { return Builder(layers).from(0, nullptr); }

std::vector<Layer> solicitation(const IpAddress& target, const std::optional<MacAddress>& sender) {
  Octets body(target.octets().begin(), target.octets().end());
  if (sender) {
    put8(body, 1);
    put8(body, 1);
    append(body, sender->octets());
  }
  return {Icmp{.type = 135}, Raw{body}};
}

std::uint8_t ttl_of(const Octets& frame) {
  return frame.at(is_v6_frame(frame) ? ethernet_size + 7 : ethernet_size + 8);
}

IpAddress src_of(const Octets& frame) {
  return is_v6_frame(frame) ? address_at(frame, ethernet_size + 8, 16) : address_at(frame, ethernet_size + 12, 4);
}

IpAddress dst_of(const Octets& frame) {
  return is_v6_frame(frame) ? address_at(frame, ethernet_size + 24, 16) : address_at(frame, ethernet_size + 16, 4);
}

MacAddress src_mac_of(const Octets& frame) { return mac_at(frame, 6); }
MacAddress dst_mac_of(const Octets& frame) { return mac_at(frame, 0); }

bool ip_checksum_ok(const Octets& frame) {
  if (is_v6_frame(frame)) return true;
  const std::size_t size = std::size_t{frame.at(ethernet_size)} % 16 * 4;
  return fold(add_up(std::span(frame).subspan(ethernet_size, size))) == 0;
}

bool transport_checksum_ok(const Octets& frame) {
  const bool v6 = is_v6_frame(frame);
  const std::size_t header = v6 ? 40 : std::size_t{frame.at(ethernet_size)} % 16 * 4;
  const std::size_t length =
      v6 ? std::size_t{frame.at(ethernet_size + 4)} * 256 + frame.at(ethernet_size + 5)
         : (std::size_t{frame.at(ethernet_size + 2)} * 256 + frame.at(ethernet_size + 3)) - header;
  const unsigned protocol = frame.at(v6 ? ethernet_size + 6 : ethernet_size + 9);
  const std::uint64_t pseudo = protocol == 1 ? 0 : pseudo_header(src_of(frame), dst_of(frame), protocol, length);
  return fold(pseudo + add_up(std::span(frame).subspan(ethernet_size + header, length))) == 0;
}

}  // namespace poduplink::tests
