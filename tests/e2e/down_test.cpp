// SPDX-License-Identifier: Apache-2.0
// The home does not carry: down, removed, or with a gateway that is silent. With whenDown "drop" nothing ever leaves by
// another uplink, each packet is counted and told; with "stack" the host's own routing decides.
#include <atomic>
#include <thread>

#include "maps/agent_state.h"
#include "tests/e2e/steps.h"
#include "tests/harness/conversation.h"
#include "tests/harness/event_reader.h"

using namespace poduplink;
using namespace poduplink::harness;
using Catch::Matchers::Equals;

namespace {

std::string config(const Lab& lab, const char* when_down) {
  return services_config(
      lab, formatted(R"({{"uplinks": [{{"name": "eth1"}}, {{"name": "eth2", "whenDown": "{}"}}]}})", when_down));
}

// Every kind of packet that a pod of each mode has: direct, to a service, in fragments. None of them is answered.
void send_all(const Pod& pod, Family family) {
  const IpAddress self = address_of(pod, family);
  value_of(send_udp(*pod.space, {.to = Outside::echo(family), .from = self, .from_port = 5000}));
  value_of(send_ping(*pod.space, {.to = Outside::echo(family), .from = self}));
  value_of(send_udp(*pod.space, {.to = Outside::echo(family), .from = self, .payload = std::string(2000, 'f')}));
  value_of(send_udp(*pod.space, {.to = {service_address(family), service_port}, .from = self, .from_port = 5001}));
}

// What left by the first uplink, for both pods.
std::size_t by_first(const Outside& outside, const Pod& pod) {
  std::size_t packets = 0;
  for (const Family family : families) packets += outside.at(1).count(received_from(address_of(pod, family)));
  return packets;
}

bool is_down(const Lab& lab, std::uint32_t index) {
  const auto uplink = value_of(value_of(lab.tables()).uplinks.find(index));
  return uplink && uplink->state == PDL_STATE_DOWN;
}

struct DownLab {
  explicit DownLab(const char* when_down) : lab(value_of(Lab::create({.uplinks = 2}))), servers(start_servers(*lab)) {
    value_of(lab->start_agent(config(*lab, when_down)));
    (void)value_of(Firewall::install(lab->node(), RuleKind::nftables, remote_service()));
    fast = add_pod(*lab, "fast", {.uplink = 2, .mode = "fast"});
    netfilter = add_pod(*lab, "netfilter", {.uplink = 2, .mode = "netfilter"});
    home = static_cast<std::uint32_t>(link_index(lab->node(), "eth2"));
  }
  void take_down(const std::string& how) const {
    value_of(lab->node().ip(how));
    REQUIRE(eventually([&] { return is_down(*lab, home); }));
  }

  std::unique_ptr<Lab> lab;
  std::map<unsigned, EchoServer> servers;
  Pod fast;
  Pod netfilter;
  std::uint32_t home = 0;
};

// Somebody in a namespace who never stops sending, from a thread of its own, also while there is no route yet.
class Flood {
 public:
  explicit Flood(const Namespace& space) {
    for (const char* any : {"0.0.0.0", "::"})
      sockets_.push_back(value_of(Conversation::udp(space, {*IpAddress::parse(any), 0})));
    thread_ = std::thread([this] { run(); });
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  ~Flood() {
    stop_ = true;
    thread_.join();
  }
  // Waits until the kernel took so many more.
  void go_on(std::size_t number = 50) const {
    const std::size_t goal = sent_ + number;
    REQUIRE(eventually([&] { return sent_ >= goal; }));
  }

 private:
  void run() {
    while (!stop_) {
      for (std::size_t i = 0; i < sockets_.size(); ++i)
        sent_ += sockets_[i].send_to(Outside::echo(families[i]), "flood") ? 1U : 0U;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  std::vector<Conversation> sockets_;
  std::atomic<bool> stop_ = false;
  std::atomic<std::size_t> sent_ = 0;
  std::thread thread_;
};

// Sends until an event of this kind has come: no more than a hundred a second are told.
bool told(EventReader& events, const std::function<void()>& send, const std::function<bool(const pdl_event&)>& test) {
  return eventually([&] {
    send();
    return !events.read(test).empty();
  });
}

// Each is told: by the program whose verdict it is, where, with the packet's own ends.
void losses_are_told(const DownLab& down, EventReader& events, pdl_verdict at_veth, pdl_verdict late) {
  for (const Pod* pod : {&down.fast, &down.netfilter}) {
    for (const Family family : families) {
      INFO(pod->name << ' ' << address_of(*pod, family).text());
      const IpAddress self = address_of(*pod, family);
      const auto event_of = [&](unsigned verdict, const std::string& link, const Endpoint& from, const Endpoint& to) {
        const auto index = static_cast<std::uint32_t>(link_index(down.lab->node(), link));
        return [=](const pdl_event& event) {
          return event.verdict == verdict && event.ifindex == index && event.protocol == 17 &&
                 source_of(event) == from.address && event.sport == from.port && destination_of(event) == to.address &&
                 event.dport == to.port;
        };
      };
      const bool fast = pod == &down.fast;
      const auto send = [&] { send_all(*pod, family); };
      CHECK(told(events, send,
                 event_of(fast ? at_veth : late, fast ? pod->host_veth : std::string("eth1"), {self, 5000},
                          Outside::echo(family))));
      CHECK(told(events, send, event_of(late, "eth1", {self, 5001}, {server_address(family), server_port})));
    }
  }
}

void send_all(const DownLab& down) {
  for (const Pod* pod : {&down.fast, &down.netfilter}) {
    for (const Family family : families) send_all(*pod, family);
  }
}

// The home as the lab made it, after it was deleted.
void return_home(const Lab& lab) {
  const Uplink link = lab.uplink(2);
  value_of(lab.node().ip(
      formatted("link add eth2 address {} type veth peer name eth0 address {} netns {}\nlink set eth2 up\n"
                "address add 10.2.0.10/16 dev eth2\naddress add fd00:2::10/64 dev eth2 nodad",
                link.mac().text(), link.gateway_mac().text(), lab.gateway(2).name())));
  value_of(
      lab.gateway(2).ip("link set eth0 up\naddress add 10.2.0.1/16 dev eth0\n"
                        "address add fd00:2::1/64 dev eth0 nodad"));
}

// Whether every entry of the two pods says that its gateway does not answer.
bool gateways_are_silent(const DownLab& down, bool silent) {
  const Tables tables = value_of(down.lab->tables());
  for (const Pod* pod : {&down.fast, &down.netfilter}) {
    for (const Family family : families) {
      const auto entry = value_of(tables.pods.find(address_of(*pod, family)));
      if (!entry || ((entry->flags & PDL_POD_GATEWAY_SILENT) != 0) != silent) return false;
    }
  }
  return true;
}

std::string warnings_of(const Lab& lab) {
  const auto state = value_of(load_agent_state(lab.run_dir()));
  std::string text;
  for (const std::string& warning : state ? state->warnings : std::vector<std::string>()) text += warning + "\n";
  return text;
}

}  // namespace

TEST_CASE(
    "whenDown drop: with its home down or gone, no pod's packet leaves by another uplink; each is counted and told") {
  for (const bool removed : {false, true}) {
    INFO("removed: " << removed);
    const DownLab down("drop");
    Lab& lab = *down.lab;
    const Outside outside = value_of(Outside::watch(lab));
    EventReader events = value_of(EventReader::open(lab));
    {
      // Whatever the moment: the pods send while it happens.
      const Flood one(*down.fast.space);
      const Flood other(*down.netfilter.space);
      one.go_on();
      other.go_on();
      down.take_down(removed ? "link del eth2" : "link set eth2 down");
      one.go_on();
      other.go_on();
    }
    const VerdictsSince verdicts(lab);
    send_all(down);
    INFO(verdicts.text());
    // A family: of the fast pod two direct ones here, a fragment and a call late; four of the other late. The stack
    // gives a datagram up whose first fragment was refused.
    CHECK(eventually([&] { return verdicts().late_uplink_down == 12; }));
    CHECK(verdicts().uplink_down == 4);
    CHECK(verdicts().redirected + verdicts().late_redirected == 0);
    losses_are_told(down, events, PDL_VERDICT_uplink_down, PDL_VERDICT_late_uplink_down);

    // What the node owns goes on: a NodePort by the primary.
    const EchoServer in_pod = echo_in(down.fast, server_port);
    for (const Family family : families) {
      (void)value_of(
          Firewall::install(lab.node(), RuleKind::nftables,
                            {{.address = {}, .port = 30080, .backend = {address_of(down.fast, family), server_port}}}));
      const Datagram request{.to = {address_of(lab.uplink(1), family), 30080}, .from = Outside::address(family)};
      CHECK(value_of(exchange_tcp(lab.gateway(1), request)) == "poduplink");
      CHECK(value_of(exchange_udp(lab.gateway(1), request)) == "poduplink");
    }

    if (removed) {
      return_home(lab);
    } else {
      value_of(lab.node().ip("link set eth2 up\naddress add fd00:2::10/64 dev eth2 nodad"));
    }
    for (const Pod* pod : {&down.fast, &down.netfilter}) {
      for (const Family family : families) {
        const Datagram question{.to = Outside::echo(family), .payload = "again"};
        CHECK(eventually(
            [&] { return exchange_udp(*pod->space, question, std::chrono::milliseconds(200)).has_value(); }));
      }
      CHECK(by_first(outside, *pod) == 0);
    }
    value_of(lab.del_pod("fast"));
    value_of(lab.del_pod("netfilter"));
    value_of(lab.accept_changes({"eth2"}));
    REQUIRE_CLOSED(lab);
  }
}

TEST_CASE("whenDown stack: with its home down, a pod's packets take the host's own way") {
  const DownLab down("stack");
  Lab& lab = *down.lab;
  const Outside outside = value_of(Outside::watch(lab));
  EventReader events = value_of(EventReader::open(lab));
  down.take_down("link set eth2 down");
  const VerdictsSince verdicts(lab);
  send_all(down);
  INFO(verdicts.text());
  CHECK(eventually([&] { return verdicts().late_uplink_down_stack == 20; }));
  CHECK(verdicts().uplink_down_stack == 4);
  CHECK(by_first(outside, down.fast) == 10);
  CHECK(by_first(outside, down.netfilter) == 10);
  CHECK(events.read().empty());
  value_of(lab.node().ip("link set eth2 up\naddress add fd00:2::10/64 dev eth2 nodad"));
  REQUIRE(eventually([&] { return !is_down(lab, down.home); }));
  const std::size_t before = by_first(outside, down.fast);
  for (const Family family : families)
    CHECK(value_of(exchange_udp(*down.fast.space, {.to = Outside::echo(family)})) == "poduplink");
  CHECK(by_first(outside, down.fast) == before);
  REQUIRE_CLOSED(lab);
}

TEST_CASE("A silent gateway: nothing leaves by another uplink, and what is sent in vain is counted and told") {
  const DownLab down("drop");
  Lab& lab = *down.lab;
  const Outside outside = value_of(Outside::watch(lab));
  EventReader events = value_of(EventReader::open(lab));
  silence_gateway(lab, 2);
  const pdl_uplink_stats before = uplink_stats(lab, 2);
  {
    // The first ones: the kernel asks and waits.
    const VerdictsSince verdicts(lab);
    send_all(down);
    INFO(verdicts.text());
    CHECK(eventually([&] { return verdicts().late_redirected == 16; }));
    CHECK(verdicts().redirected == 4);
  }
  REQUIRE(eventually([&] { return gateways_are_silent(down, true); }, std::chrono::seconds(20)));
  CHECK(eventually(
      [&] { return warnings_of(lab).find("gateway 10.2.0.1 does not answer on eth2") != std::string::npos; }));
  const VerdictsSince verdicts(lab);
  send_all(down);
  INFO(verdicts.text());
  CHECK(eventually([&] { return verdicts().late_gateway_silent == 16; }));
  CHECK(verdicts().gateway_silent == 4);
  CHECK(verdicts().redirected + verdicts().late_redirected == 0);
  const pdl_uplink_stats after = uplink_stats(lab, 2);
  CHECK(after.out_redirects - before.out_redirects == 8);
  CHECK(after.late_redirects - before.late_redirects == 32);
  // Sent to the uplink, and not gone out of it.
  CHECK(after.out_packets == before.out_packets);
  losses_are_told(down, events, PDL_VERDICT_gateway_silent, PDL_VERDICT_late_gateway_silent);
  for (const Pod* pod : {&down.fast, &down.netfilter}) stays_inside(*pod, outside);

  // It comes back: what the pods send makes the kernel ask again.
  let_gateway_answer(lab, 2);
  CHECK(eventually([&] {
    send_all(down);
    return gateways_are_silent(down, false);
  }));
  CHECK(eventually([&] { return warnings_of(lab).empty(); }));
  for (const Pod* pod : {&down.fast, &down.netfilter}) {
    for (const Family family : families) {
      talk(*pod->space, Outside::echo(family));
      CHECK_THAT(lines_of(outside.faults_from(address_of(*pod, family), lab.uplink(2))), Equals(""));
    }
  }
  const VerdictsSince again(lab);
  send_all(down);
  // More than were sent: servers answer by now, and the pods refuse what they did not wait for.
  CHECK(eventually([&] { return again().late_redirected >= 16; }));
  INFO(again.text());
  CHECK(again().redirected >= 4);
  CHECK(again().gateway_silent + again().late_gateway_silent == 0);
  REQUIRE_CLOSED(lab);
}

TEST_CASE("D97: from its first moment to its last, a pod that never stops sending leaves by its home alone") {
  auto lab = lab_with_agent({.uplinks = 2});
  const Outside outside = value_of(Outside::watch(*lab));
  for (const char* mode : {"fast", "netfilter"}) {
    INFO(mode);
    for (int round = 0; round < 3; ++round) {
      Pod pod = value_of(lab->make_pod("pod", {.uplink = 2, .mode = mode}));
      {
        const Flood flood(*pod.space);
        value_of(lab->adopt(pod, value_of(lab->call("ADD", pod))));
        flood.go_on();
        REQUIRE(outside.at(2).wait_for(received_from(*pod.v4)));
        lab->keep_pod(pod);
        value_of(lab->del_pod("pod"));
      }
      CHECK(by_first(outside, pod) == 0);
      CHECK(outside.at(1).count([](const Frame& frame) { return frame.packet.destination_port == echo_port; }) == 0);
    }
  }
  REQUIRE_CLOSED(*lab);
}
