// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/fuzz_packets.h"

#include <algorithm>
#include <array>

#include "tests/bpf/oracle_packet.h"

namespace poduplink::tests {
namespace {

// A test run has one page for the frame and for the kernel's own.
constexpr std::size_t largest_frame = 3400;
constexpr std::size_t ethernet_octets = 14;

// A test run refuses (Linux 6.18) an IP header that is cut short.
std::size_t smallest_frame(const Octets& frame) {
  if (frame.at(12) == 0x08 && frame.at(13) == 0x00) return ethernet_octets + 20;
  if (frame.at(12) == 0x86 && frame.at(13) == 0xdd) return ethernet_octets + 40;
  return ethernet_octets;
}

const MacAddress everyone = mac("ff:ff:ff:ff:ff:ff");

// The making of one packet.
class Making {
 public:
  Making(Random random, const oracle::State& state, const Pool& pool, Program program, Family family)
      : random_(random), state_(state), pool_(pool), program_(program), family_(family) {}

  Input make() {
    Input input{.program = program_};
    choose_way(input);
    if (random_.one_in(8)) gso_ = input.gso_size = gso_size();
    input.frame = random_.one_in(40) ? neighbour_question() : ip_frame();
    damage(input.frame);
    return input;
  }

 private:
  // ---- who talks with whom, and where the packet is seen ----

  IpAddress any_peer() {
    const std::size_t dice = random_.below(20);
    if (dice < 9) return random_.pick(pool_.outside);
    if (dice < 12) return random_.pick(pool_.pods);
    if (dice < 13) return random_.pick(pool_.nodes);
    return random_.pick(pool_.special);
  }

  void choose_way(Input& input) {
    src_ = any_peer();
    dst_ = any_peer();
    if (random_.one_in(10)) choose_nated();
    if (random_.one_in(100)) choose_nobody();
    const bool straight = !nobody_ && !random_.one_in(8);
    if (program_ == Program::pod_egress) {
      if (straight && !is_pod(src_)) src_ = random_.pick(pool_.pods);
      input.ifindex = straight && is_pod(src_) ? state_.pods.at(src_).veth : random_.pick({kVethA, kVethB, kVethN});
      device_ = host_mac();
      return;
    }
    input.ifindex = random_.pick({kUplink1, kUplink1, kUplink2, kTransit, kStrict});
    device_ = device_mac(input.ifindex);
    if (program_ == Program::uplink_ingress) {
      if (straight && !is_pod(dst_)) dst_ = random_.pick(pool_.pods);
      return;
    }
    input.ingress_ifindex = random_.pick({0U, unsigned{kVethA}});
    if (straight && !is_pod(src_)) src_ = random_.pick(random_.one_in(3) ? pool_.nodes : pool_.pods);
  }

  // Who has no address yet.
  void choose_nobody() {
    const bool v4 = family_ == Family::v4;
    src_ = ip(v4 ? "0.0.0.0" : random_.pick({"::", "fe80::5"}));
    dst_ = ip(v4 ? "255.255.255.255" : random_.pick({"ff02::1", "fe80::9", "fe80::abcd"}));
    nobody_ = true;
  }

  // The tuple of a NATed flow, in either direction; the ports are used where TCP or UDP is made.
  void choose_nated() {
    auto at = state_.nated.begin();
    std::advance(at, random_.below(state_.nated.size()));
    if (at->src.family() != family_) return;
    nated_ = *at;
    if (random_.one_in(2)) {
      nated_ = {at->protocol, at->dst, at->src, at->dport, at->sport};
    }
    src_ = nated_->src;
    dst_ = nated_->dst;
  }

  [[nodiscard]] bool is_pod(const IpAddress& address) const { return state_.pods.contains(address); }

  unsigned gso_size() {
    const unsigned mtu = random_.pick({600U, 1300U, 1500U});
    const unsigned header = random_.pick({20U, 40U, 48U}) + random_.pick({8U, 20U, 32U});
    const unsigned near = mtu - header + random_.pick({0U, 1U}) - random_.pick({0U, 1U});
    return random_.pick({near, near, near, 1U, 100U, 3000U, 0xffffU});
  }

  // ---- layers ----

  Ethernet ethernet() {
    const MacAddress from = program_ == Program::pod_egress ? pod_mac(kVethA) : router_mac();
    Ethernet eth{from, device_};
    if (random_.one_in(15)) eth.dst = random_.pick({everyone, mac("01:00:5e:00:00:01"), mac("02:dd:00:00:00:01")});
    if (random_.one_in(60)) eth.src = random_.pick({everyone, mac("33:33:00:00:00:01")});
    return eth;
  }

  std::uint8_t ttl() {
    return random_.pick({std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{64}, std::uint8_t{64},
                         std::uint8_t{64}, std::uint8_t{64}, std::uint8_t{255},
                         static_cast<std::uint8_t>(random_.below(256))});
  }

  std::uint16_t any_length() {
    return static_cast<std::uint16_t>(random_.one_in(3) ? random_.below(65536) : random_.below(200));
  }

  Ip ip_header(const IpAddress& src, const IpAddress& dst) {
    Ip header{.src = src, .dst = dst, .ttl = ttl(), .dont_fragment = random_.one_in(2)};
    if (random_.one_in(16)) header.more_fragments = true;
    if (random_.one_in(16)) header.fragment_offset = static_cast<std::uint16_t>(8 * random_.below(100));
    if (random_.one_in(12)) header.option_words = static_cast<unsigned>(1 + random_.below(10));
    if (random_.one_in(25)) header.protocol = other_protocol();
    if (random_.one_in(100)) header.version = static_cast<std::uint8_t>(random_.below(16));
    if (random_.one_in(80)) header.header_words = static_cast<std::uint8_t>(random_.below(16));
    if (random_.one_in(50)) header.length = any_length();
    return header;
  }

  std::uint8_t other_protocol() {
    constexpr std::array<std::uint8_t, 17> protocols{0, 1, 2, 4, 6, 17, 41, 43, 44, 47, 50, 51, 58, 59, 60, 132, 255};
    return random_.pick(protocols);
  }

  Layer extension() {
    constexpr std::array<std::uint8_t, 7> types{0, 0, 43, 44, 51, 60, 60};
    const std::uint8_t type = random_.pick(types);
    if (type == 44) {
      const auto offset = static_cast<std::uint16_t>(random_.one_in(2) ? 0 : 8 * random_.below(200));
      return Fragment{offset, random_.one_in(2)};
    }
    Extension made{.type = type, .size = static_cast<unsigned>(8 * (1 + random_.below(3)))};
    if (type == 51 && random_.one_in(2)) made.size += 4;
    if (random_.one_in(25)) made.length = static_cast<std::uint8_t>(random_.below(256));
    return made;
  }

  void add_extensions(std::vector<Layer>& layers) {
    if (family_ == Family::v4 || !random_.one_in(4)) return;
    for (std::size_t count = random_.pick({1U, 1U, 1U, 2U, 2U, 3U, 7U, 8U, 9U, 10U}); count > 0; --count) {
      layers.push_back(extension());
    }
  }

  std::uint16_t port() {
    return random_.pick({nat_port, plain_port, backend_port, std::uint16_t{53}, std::uint16_t{67}, std::uint16_t{68},
                         std::uint16_t{4001}, std::uint16_t{80}, static_cast<std::uint16_t>(random_.below(65536))});
  }

  // TCP or UDP; `back`: of the other direction.
  Layer ports(bool tcp, bool back) {
    std::uint16_t sport = port();
    std::uint16_t dport = port();
    if (nated_ && !random_.one_in(6)) {
      tcp = nated_->protocol == 6;
      sport = back ? nated_->dport : nated_->sport;
      dport = back ? nated_->sport : nated_->dport;
    }
    if (nobody_ || random_.one_in(20)) {
      sport = 68;
      dport = 67;
    }
    if (!tcp) return Udp{sport, dport};
    return Tcp{.sport = sport,
               .dport = dport,
               .option_words = static_cast<std::uint8_t>(random_.one_in(2) ? 0 : random_.below(11))};
  }

  Raw payload() {
    if (!random_.one_in(4)) return Raw(random_.below(40));
    const std::size_t base = random_.pick({540U, 580U, 1240U, 1280U, 1440U, 1480U, 1900U, 3000U, 60U});
    return Raw(base + random_.below(60));
  }

  void add_transport(std::vector<Layer>& layers) {
    const std::size_t dice = random_.below(20);
    if (dice < 12) {
      layers.push_back(ports(dice < 6, false));
    } else if (dice < 18) {
      add_icmp(layers);
      return;
    }
    layers.emplace_back(payload());
  }

  void add_icmp(std::vector<Layer>& layers) {
    constexpr std::array<std::uint8_t, 10> types4{0, 3, 3, 4, 5, 8, 9, 11, 12, 13};
    constexpr std::array<std::uint8_t, 15> types6{1, 1, 2, 3, 4, 127, 128, 129, 131, 132, 133, 134, 135, 137, 143};
    Icmp icmp{.type = family_ == Family::v4 ? random_.pick(types4) : random_.pick(types6)};
    if (random_.one_in(20)) icmp.type = static_cast<std::uint8_t>(random_.below(256));
    if (random_.one_in(10)) icmp.rest = static_cast<std::uint32_t>(random_.next());
    layers.emplace_back(icmp);
    const bool error = family_ == Family::v4
                           ? icmp.type == 3 || icmp.type == 4 || icmp.type == 5 || icmp.type == 11 || icmp.type == 12
                           : icmp.type < 128;
    if (error && !random_.one_in(20)) add_quote(layers);
    layers.emplace_back(payload());
  }

  // Most quotes are of the flow that the error belongs to.
  void add_quote(std::vector<Layer>& layers) {
    IpAddress src = dst_;
    IpAddress dst = src_;
    if (random_.one_in(3)) (program_ == Program::uplink_ingress ? dst : src) = any_peer();
    if (random_.one_in(12)) std::swap(src, dst);
    layers.emplace_back(ip_header(src, dst));
    add_extensions(layers);
    const std::size_t dice = random_.below(10);
    if (dice < 8) layers.push_back(ports(dice < 4, true));
    if (dice == 8) layers.emplace_back(Icmp{.type = static_cast<std::uint8_t>(random_.below(256))});
  }

  // ---- frames ----

  Octets ip_frame() {
    std::vector<Layer> layers{ethernet()};
    if (random_.one_in(60)) {
      const std::uint16_t type = random_.one_in(2) ? 0x8100 : 0x88a8;
      layers.emplace_back(Vlan{static_cast<std::uint16_t>(random_.below(8)), type});
    }
    layers.emplace_back(ip_header(src_, dst_));
    add_extensions(layers);
    add_transport(layers);
    Octets frame = build(layers);
    if (gso_ != 0) make_long(frame);
    return frame;
  }

  // Length 0, and in IPv6 often the jumbo payload option, as segmentation offload has it above 64 KiB.
  void make_long(Octets& frame) {
    if (is_tagged(frame) || !random_.one_in(4)) return;
    const std::size_t length = family_ == Family::v4 ? ethernet_octets + 2 : ethernet_octets + 4;
    frame.at(length) = frame.at(length + 1) = 0;
    if (family_ == Family::v6 && frame.at(20) == 0 && frame.size() > 62) {
      frame.at(56) = 0xc2;
      frame.at(57) = 4;
    }
  }

  [[nodiscard]] static bool is_tagged(const Octets& frame) { return frame.at(12) == 0x81 || frame.at(12) == 0x88; }

  Octets neighbour_question() {
    const IpAddress asked = asked_for();
    Ethernet eth = ethernet();
    if (random_.one_in(2)) eth.dst = family_ == Family::v4 ? everyone : mac("33:33:ff:00:00:05");
    if (family_ == Family::v4) {
      const std::uint16_t operation = random_.one_in(8) ? 2 : 1;
      const IpAddress sender = random_.one_in(8) ? asked : src_;
      const MacAddress own = random_.one_in(8) ? mac("02:ee:00:00:00:09") : eth.src;
      return build({eth, Arp{operation, own, sender, {}, asked}, Raw(random_.below(20))});
    }
    std::vector<Layer> layers{eth, Ip{.src = src_, .dst = dst_, .ttl = 255}};
    if (random_.one_in(8)) layers.emplace_back(Ip{.src = src_, .dst = dst_, .ttl = ttl()});
    if (layers.size() == 3) layers.erase(layers.begin() + 1);
    if (random_.one_in(12)) layers.push_back(extension());
    const auto sender = random_.one_in(3) ? std::nullopt : std::optional(eth.src);
    for (const Layer& layer : solicitation(asked, sender)) layers.push_back(layer);
    if (random_.one_in(8)) layers.emplace_back(Raw(random_.below(20)));
    return build(layers);
  }

  IpAddress asked_for() {
    if (random_.one_in(6)) return any_peer();
    if (program_ == Program::pod_egress) return ip(family_ == Family::v4 ? "169.254.1.1" : "fe80::1");
    return random_.pick(pool_.pods);
  }

  // ---- damage ----

  void damage(Octets& frame) {
    if (random_.one_in(15)) frame.resize(frame.size() + 1 + random_.below(50), 0xee);
    if (random_.one_in(25)) frame.resize(ethernet_octets + random_.below(std::min<std::size_t>(frame.size(), 120)));
    if (random_.below(5) < 2) {
      for (std::size_t changes = 1 + random_.below(4); changes > 0; --changes) change(frame);
    }
    frame.resize(std::clamp(frame.size(), smallest_frame(frame), largest_frame));
  }

  void change(Octets& frame) {
    const std::size_t at = random_.below(std::min<std::size_t>(frame.size(), 130));
    if ((at == 12 || at == 13) && !random_.one_in(8)) return;
    const auto bit = static_cast<std::uint8_t>(1U << random_.below(8));
    const auto any = static_cast<std::uint8_t>(random_.below(256));
    frame.at(at) = random_.one_in(2) ? any : static_cast<std::uint8_t>(frame.at(at) ^ bit);
  }

  Random random_;
  const oracle::State& state_;
  const Pool& pool_;
  Program program_;
  Family family_;
  IpAddress src_, dst_;
  MacAddress device_;
  std::optional<oracle::Tuple> nated_;
  bool nobody_ = false;
  unsigned gso_ = 0;
};

}  // namespace

std::uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

PacketMaker::PacketMaker(const oracle::State& state)
    : state_(state), v4_(make_pool(state, Family::v4)), v6_(make_pool(state, Family::v6)) {}

Input PacketMaker::make(std::uint64_t seed, Program program, std::uint64_t index) const {
  // Neighbouring indexes must not give overlapping sequences.
  Random start(seed + static_cast<std::uint64_t>(program));
  Random random(start.next() ^ Random(index).next());
  const Family family = random.one_in(2) ? Family::v4 : Family::v6;
  return Making(random, state_, family == Family::v4 ? v4_ : v6_, program, family).make();
}

}  // namespace poduplink::tests
