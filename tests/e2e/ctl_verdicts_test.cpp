// SPDX-License-Identifier: Apache-2.0
// explain against the truth, over all verdicts: what it says of a packet, and then what becomes of that very packet on
// the wire, in the counters and in the captures of everybody who could get it.
#include <netinet/in.h>

#include "tests/e2e/ctl.h"
#include "tests/e2e/ctl_verdicts.h"
#include "tests/harness/capture.h"
#include "tests/harness/conversation.h"

using namespace poduplink;
using namespace poduplink::harness;
using namespace poduplink::tests;
using Catch::Matchers::Equals;
using nlohmann::json;

namespace {

// Why no packet that explain makes gets a verdict in a family.
const char* why_no_row(unsigned verdict, Family family) {
  if (family == Family::v4) return nullptr;
  switch (verdict) {
    case PDL_VERDICT_not_ip:
    case PDL_VERDICT_in_not_ip:
      return "IPv6 asks for neighbours by IPv6; other frames belong to no family, and explain makes no broken ones";
    case PDL_VERDICT_in_stack_broadcast:
      return "IPv6 has no broadcast addresses";
    default:
      return nullptr;
  }
}

std::vector<Row> all_rows() {
  std::vector<Row> rows = rows_out();
  for (Row& row : rows_in()) rows.push_back(std::move(row));
  return rows;
}

bool has_family(const Row& row, Family family) { return !row.only || *row.only == family; }

std::uint64_t counted(const pdl_verdicts& verdicts, unsigned verdict) {
  std::array<std::uint64_t, PDL_VERDICT_COUNT> numbers{};
  static_assert(sizeof(numbers) == sizeof(verdicts));
  std::memcpy(numbers.data(), &verdicts, sizeof(verdicts));
  return numbers.at(verdict);
}

// "Host unreachable", "address unreachable": what a stack says of an earlier packet when a neighbour has not answered,
// a second or three later.
bool tells_of_silent_neighbour(const Decoded& packet) {
  if (!packet.is_icmp()) return false;
  return packet.protocol == IPPROTO_ICMPV6 ? packet.icmp_type == 1 && packet.icmp_code == 3
                                           : packet.icmp_type == 3 && packet.icmp_code == 1;
}

// But for what comes at any time: asks of neighbours, and what becomes of those without an answer.
bool is_traffic(const Frame& frame) {
  return !frame.packet.is_arp() && !frame.packet.is_link_housekeeping() && !tells_of_silent_neighbour(frame.packet);
}

class Observer {
 public:
  explicit Observer(const VerdictLab& all) {
    for (const unsigned number : all.lab->uplink_numbers())
      captures_.emplace(gateway_name(number), value_of(Capture::start(all.lab->gateway(number), "eth0")));
    for (const Pod* pod : {&all.fast, &all.netfilter, &all.other, &all.guest})
      captures_.emplace(pod->name, value_of(Capture::start(*pod->space, "eth0")));
  }

  static std::string gateway_name(unsigned number) { return formatted("gw{}", number); }
  [[nodiscard]] const Capture& at(const std::string& place) const { return captures_.at(place); }
  [[nodiscard]] std::vector<std::string> places_with(const FrameTest& test) const {
    std::vector<std::string> places;
    for (const auto& [place, capture] : captures_) {
      if (capture.count(test) != 0) places.push_back(place);
    }
    return places;
  }
  void clear() {
    for (auto& [place, capture] : captures_) capture.clear();
  }
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const auto& [place, capture] : captures_) text += place + ":\n" + capture.text();
    return text;
  }

 private:
  std::map<std::string, Capture> captures_;
};

// One row in one family, from the question to the proof.
class Case {
 public:
  Case(const VerdictLab& all, Observer& observer, const Row& row, Family family)
      : all_(&all), observer_(&observer), row_(&row), asked_(row.asked(all, family)), frame_(frame_of(asked_)) {}

  void hold() {
    const std::string name = verdict_name(row_->verdict);
    explain();
    INFO(said_.dump(1));
    CHECK(said_.at("verdict") == name);
    CHECK(said_.at("program") == verdict_program(row_->verdict));
    CHECK(said_.at("lateVerdict") == (row_->late ? json(verdict_name(*row_->late)) : json(nullptr)));
    CHECK(said_.at("outcome") == row_->outcome);
    send();
    INFO(observer_->text());
    look();
  }

 private:
  [[nodiscard]] Octets frame_of(const Asked& asked) const {
    const Ethernet ethernet = asked.sender != nullptr
                                  ? Ethernet{asked.sender->mac, asked.to_mac.value_or(MacAddress(PDL_HOST_MAC))}
                                  : Ethernet{all_->lab->uplink(asked.gateway).gateway_mac(),
                                             asked.to_mac.value_or(all_->lab->uplink(asked.gateway).mac())};
    std::vector<Layer> layers{ethernet};
    layers.insert(layers.end(), asked.layers.begin(), asked.layers.end());
    return build(layers);
  }

  [[nodiscard]] bool is_question() const { return std::ranges::count(asked_.options, "--neighbour") != 0; }
  [[nodiscard]] std::string origin() const {
    return asked_.sender != nullptr ? asked_.sender->name : Observer::gateway_name(asked_.gateway);
  }

  // Nothing that is the packet, or an answer, is anywhere while explain runs.
  void explain() {
    const Decoded packet = decode(frame_);
    std::vector<std::string> arguments{"explain", asked_.self.text(), asked_.peer.text()};
    arguments.insert(arguments.end(), asked_.options.begin(), asked_.options.end());
    if (!is_question()) {
      const std::size_t header = packet.tagged ? 18 : 14;
      arguments.insert(arguments.end(), {"--size", std::to_string(frame_.size() - header)});
    }
    quiet_.emplace(*all_->lab);
    observer_->clear();
    said_ = ctl_json(*all_->lab, arguments);
    INFO(observer_->text());
    CHECK_THAT(lines_of(observer_->places_with([&](const Frame& frame) {
                 return is_traffic(frame) || (frame.packet.source == packet.source && is_question() &&
                                              frame.packet.destination == packet.destination);
               })),
               Equals(""));
  }

  // Counts exactly one. What others send meanwhile (the kernel's own questions for neighbours) may be counted under
  // the same verdict: then once more.
  void send() {
    std::string counts;
    for (int attempt = 0; attempt < 3; ++attempt) {
      if (attempt > 0) quiet_.emplace(*all_->lab);
      const pdl_verdicts before = (*quiet_)();
      const auto since = [&](unsigned verdict) { return counted((*quiet_)(), verdict) - counted(before, verdict); };
      observer_->clear();
      value_of(asked_.sender != nullptr ? send_frame(*asked_.sender->space, "eth0", frame_)
                                        : send_frame(all_->lab->gateway(asked_.gateway), "eth0", frame_));
      REQUIRE(eventually([&] { return since(row_->verdict) >= 1; }));
      if (row_->late) CHECK(eventually([&] { return since(*row_->late) >= late_number(); }));
      if (since(row_->verdict) == 1 && (!row_->late || since(*row_->late) == late_number())) return;
      counts += quiet_->text() + "\n";
    }
    FAIL_CHECK("never counted exactly once; since explain was asked:\n" << counts);
  }

  // A packet that the stack fragments comes by uplink_egress in two.
  [[nodiscard]] std::uint64_t late_number() const {
    return row_->verdict == PDL_VERDICT_too_big && row_->outcome == "leaves" ? 2 : 1;
  }

  // The packet itself, as it arrives somewhere.
  [[nodiscard]] FrameTest arrived() const {
    const Decoded packet = decode(frame_);
    const auto ends = asked_.leaves_as.value_or(
        std::pair(packet.source.value_or(IpAddress()), packet.destination.value_or(IpAddress())));
    return [=, protocol = packet.protocol](const Frame& frame) {
      return !frame.outgoing && frame.packet.is_ip() && frame.packet.source == ends.first &&
             frame.packet.destination == ends.second && frame.packet.protocol == protocol;
    };
  }

  // What a router or an asked neighbour says to the sender.
  [[nodiscard]] FrameTest answers() const {
    const Decoded packet = decode(frame_);
    return [=, this](const Frame& frame) {
      if (frame.outgoing) return false;
      const Decoded& answer = frame.packet;
      if (answer.is_arp()) return is_question() && answer.arp_operation == 2 && answer.destination == packet.source;
      if (!answer.is_icmp() || answer.destination != packet.source) return false;
      if (is_question()) return answer.icmp_type == 136;
      return answer.source->is_v4() ? answer.icmp_type == 11 || (answer.icmp_type == 3 && answer.icmp_code == 4)
                                    : answer.icmp_type == 2 || answer.icmp_type == 3;
    };
  }

  void look() const {
    const std::string outcome = said_.at("outcome");
    const bool lost = said_.at("lost");
    std::vector<std::string> expected;
    if (outcome == "leaves" && !lost) expected = {"gw" + said_.at("leavesBy").get<std::string>().substr(3)};
    if (outcome == "delivered") expected = {pod_with(said_.at("deliveredTo"))};
    for (const std::string& place : expected) {
      CHECK(observer_->at(place).wait_for(arrived()));
      check_arrival(observer_->at(place).frames(arrived()));
    }
    if (outcome == "answered") CHECK(eventually([&] { return !observer_->places_with(answers()).empty(); }));
    CHECK_THAT(lines_of(observer_->places_with(arrived())), Equals(lines_of(expected)));
    if (outcome == "dropped" || outcome == "leaves" || outcome == "delivered")
      CHECK_THAT(lines_of(observer_->places_with(answers())), Equals(""));
    CHECK(lost ==
          (outcome == "dropped" || (outcome == "answered" && !is_question()) || row_->stage == Stage::gateway_silent));
  }

  void check_arrival(const std::vector<Frame>& frames) const {
    if (frames.empty()) return;
    const Decoded& packet = frames.front().packet;
    CHECK(packet.ttl + 1U == decode(frame_).ttl);
    CHECK(packet.header_checksum_ok);
    if (said_.at("outcome") == "leaves") CHECK(said_.at("nextHopMac") == packet.destination_mac.text());
  }

  [[nodiscard]] std::string pod_with(const json& address) const {
    for (const auto& [name, pod] : all_->lab->pods()) {
      for (const Family family : families) {
        if (address_of(pod, family).text() == address.get<std::string>()) return name;
      }
    }
    FAIL("no pod has " << address);
    return {};
  }

  const VerdictLab* all_;
  Observer* observer_;
  const Row* row_;
  Asked asked_;
  Octets frame_;
  std::optional<VerdictsSince> quiet_;
  json said_;
};

void hold_stage(const VerdictLab& all, Observer& observer, Stage stage) {
  for (const Row& row : all_rows()) {
    for (const Family family : families) {
      if (row.stage != stage || !has_family(row, family)) continue;
      INFO(verdict_name(row.verdict) << (family == Family::v4 ? ", IPv4" : ", IPv6"));
      Case(all, observer, row, family).hold();
    }
  }
}

// The kernel has the MAC of every gateway.
void ask_for_gateways(const Lab& lab) {
  for (const unsigned number : lab.uplink_numbers()) {
    value_of(ping(lab.node(), {.to = {lab.uplink(number).gateway4(), 0}}));
    value_of(ping(lab.node(), {.to = {lab.uplink(number).gateway6(), 0}}));
  }
}

// A call of the service by the pod, and calls of a NodePort at two of the node's addresses, all of them tracked.
void nat(VerdictLab& all) {
  const Lab& lab = *all.lab;
  std::vector<Service> services = remote_service();
  for (const Family family : families) services.push_back({{}, 30080, {address_of(all.fast, family), server_port}});
  (void)value_of(Firewall::install(lab.node(), RuleKind::nftables, services));
  for (const Family family : families) {
    all.listeners.push_back(value_of(Conversation::udp(*all.fast.space, {address_of(all.fast, family), calling_port})));
    value_of(all.listeners.back().send_to({service_address(family), service_port}, "call"));
    value_of(all.listeners.back().receive());
    const Conversation server =
        value_of(Conversation::udp(*all.fast.space, {address_of(all.fast, family), server_port}));
    for (const unsigned uplink : {1U, 2U}) {
      value_of(send_udp(lab.gateway(uplink), {.to = {address_of(lab.uplink(uplink), family), 30080},
                                              .from = Outside::address(family),
                                              .from_port = static_cast<std::uint16_t>(6000 + uplink)}));
      value_of(server.receive());
    }
  }
}

void silence(const VerdictLab& all) {
  silence_gateway(*all.lab, 2);
  for (const Family family : families) value_of(send_udp(*all.fast.space, {.to = Outside::echo(family)}));
  for (const Family family : families) {
    REQUIRE(eventually(
        [&] {
          return ctl_json(*all.lab, {"pods", address_of(all.fast, family).text()}).at(0).at("gatewaySilent") == true;
        },
        std::chrono::seconds(20)));
  }
}

void take_down(const Lab& lab) {
  for (const unsigned number : {2U, 3U}) {
    const std::string name = lab.uplink(number).name();
    value_of(lab.node().ip(formatted("link set {} down", name)));
    const auto index = static_cast<std::uint32_t>(link_index(lab.node(), name));
    REQUIRE(eventually([&] { return value_of(value_of(lab.tables()).uplinks.find(index))->state == PDL_STATE_DOWN; }));
  }
}

}  // namespace

namespace poduplink::harness {

IpAddress of_family(Family family, const char* v4, const char* v6) { return ip(family == Family::v4 ? v4 : v6); }

void ask_neighbour(Asked& asked, const IpAddress& sender, const MacAddress& sender_mac, const IpAddress& about) {
  if (sender.is_v4()) {
    asked.layers = {Arp{1, sender_mac, sender, MacAddress(), about}};
    asked.to_mac = mac("ff:ff:ff:ff:ff:ff");
    return;
  }
  const auto last = about.octets().last(3);
  const IpAddress solicited_node = ip("ff02::1:ff00:0");
  Octets group(solicited_node.octets().begin(), solicited_node.octets().end());
  std::ranges::copy(last, group.end() - 3);
  asked.layers = solicitation(about, sender_mac);
  asked.layers.insert(asked.layers.begin(),
                      Ip{.src = sender, .dst = value_of(IpAddress::from_octets(group)), .ttl = 255});
  asked.to_mac = MacAddress({0x33, 0x33, 0xff, last[0], last[1], last[2]});
}

VerdictLab::VerdictLab()
    : lab(value_of(Lab::create({.uplinks = 3, .mtu = {{2, 1400}}}))), servers(start_servers(*lab)) {
  value_of(lab->start_agent(services_config(
      *lab,
      R"({"uplinks": [{"name": "eth1"}, {"name": "eth2", "gateway4": "10.2.0.1", "gateway6": "fd00:2::1"}, {"name": "eth3", "strict": true, "whenDown": "stack"}]})")));
  fast = add_pod(*lab, "fast", {.uplink = 2, .mode = "fast"});
  netfilter = add_pod(*lab, "netfilter", {.uplink = 2, .mode = "netfilter"});
  other = add_pod(*lab, "other", {.uplink = 1, .mode = "fast"});
  guest = add_pod(*lab, "guest", {.uplink = 3, .mode = "fast"});
  for (const Pod* pod : {&fast, &netfilter, &other, &guest}) {
    for (const Family family : families)
      listeners.push_back(value_of(Conversation::udp(*pod->space, {address_of(*pod, family), listening_port})));
  }
  for (const Pod* pod : {&fast, &netfilter}) {
    value_of(lab->node().ip("link set " + pod->host_veth + " mtu 1500"));
    value_of(pod->space->ip("link set eth0 mtu 1500"));
  }
  value_of(lab->node().ip("link set " + other.host_veth + " mtu 1600"));
  value_of(other.space->ip("link set eth0 mtu 1600"));
}

}  // namespace poduplink::harness

TEST_CASE("Every verdict has a packet in the table of explain's test, in each family, or a reason why none can be") {
  for (unsigned verdict = 0; verdict < PDL_VERDICT_COUNT; ++verdict) {
    for (const Family family : families) {
      INFO(verdict_name(verdict) << (family == Family::v4 ? ", IPv4" : ", IPv6"));
      const auto rows = all_rows();
      const bool shown = std::ranges::any_of(rows, [&](const Row& row) {
        return has_family(row, family) && (row.verdict == verdict || row.late == static_cast<pdl_verdict>(verdict));
      });
      CHECK(shown == (why_no_row(verdict, family) == nullptr));
    }
  }
}

TEST_CASE("explain says of every verdict what becomes of its packet, and sends nothing") {
  VerdictLab all;
  Lab& lab = *all.lab;
  ask_for_gateways(lab);
  const Outside outside = value_of(Outside::watch(lab));
  Observer observer(all);
  hold_stage(all, observer, Stage::well);
  nat(all);
  hold_stage(all, observer, Stage::natted);
  silence(all);
  hold_stage(all, observer, Stage::gateway_silent);
  take_down(lab);
  hold_stage(all, observer, Stage::homes_down);
  for (const auto& [name, pod] : std::map(lab.pods())) value_of(lab.del_pod(name));
  value_of(lab.accept_changes({"eth2", "eth3"}));
  REQUIRE_CLOSED(lab);
}
