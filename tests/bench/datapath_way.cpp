// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/datapath_way.h"

#include <utility>

#include "tests/bench/full_node.h"
#include "tests/bench/must.h"
#include "tests/bench/redirect.h"
#include "tests/harness/process.h"

namespace poduplink::bench {
namespace {

using harness::Lab;
using harness::Uplink;

constexpr const char* ptp = "/usr/lib/cni/ptp";

// By what the AWS VPC CNI sorts its rules.
constexpr unsigned to_pod_priority = 512;
constexpr unsigned from_pod_priority = 1536;
constexpr unsigned uplink_table = 102;

std::unique_ptr<Lab> make_lab(const std::string& name) { return must(Lab::create({.name = name, .uplinks = 2})); }

constexpr std::array families{Family::v4, Family::v6};

// The way with its drains, once the pod is there. Neighbours on the uplink never change: a flood cannot make them
// unknown by drowning the question, and no variant is asked a question that another is not.
Way finished(Way way) {
  const Lab& lab = *way.lab;
  const PodEnd& pod = way.pod;
  const Uplink uplink = lab.uplink(pod.uplink);
  for (const Family family : families) {
    must(lab.gateway(pod.uplink)
             .ip(formatted("neighbour replace {} lladdr {} dev eth0 nud permanent", pod.address(family).text(),
                           pod.mac.text())));
  }
  for (const IpAddress& gateway : {uplink.gateway4(), uplink.gateway6()}) {
    must(lab.node().ip(formatted("neighbour replace {} lladdr {} dev {} nud permanent", gateway.text(),
                                 uplink.gateway_mac().text(), uplink.name())));
  }
  way.outside_drain = std::make_unique<Drain>(lab.gateway(pod.uplink), "eth0");
  way.pod_drain = std::make_unique<Drain>(*pod.space, pod.device);
  return way;
}

}  // namespace

Path Way::out(Family family) const {
  return {.from = pod.space,
          .source = pod.address(family),
          .to = &lab->gateway(pod.uplink),
          .destination = must(IpAddress::parse(family == Family::v4 ? harness::outside4 : harness::outside6))};
}

Way host_way() {
  auto lab = make_lab("host");
  const Uplink uplink = lab->uplink(1);
  const PodEnd pod{.space = &lab->node(),
                   .device = uplink.name(),
                   .v4 = uplink.node4(),
                   .v6 = uplink.node6(),
                   .mac = uplink.mac(),
                   .routers = 0};
  return finished({.variant = "host", .lab = std::move(lab), .pod = pod});
}

// ---- poduplink ---------------------------------------------------------------------------------

namespace {

// Pods that are in the maps alone.
class Entries {
 public:
  explicit Entries(const Lab& lab, const PodEnd& pod) : tables_(must(lab.tables())), uplink_(lab.uplink(pod.uplink)) {
    for (const Family family : families) samples_.push_back(must(tables_.pods.find(pod.address(family))).value());
  }

  // So many, the real pod being one of them.
  void set(unsigned pods) {
    for (; present_ < pods; ++present_) {
      for (std::size_t i = 0; i < families.size(); ++i)
        must(tables_.pods.put(filling_pod(uplink_, families.at(i), present_), samples_.at(i)));
    }
    for (; present_ > pods; --present_) {
      for (const Family family : families) must(tables_.pods.erase(filling_pod(uplink_, family, present_ - 1)));
    }
  }

 private:
  Tables tables_;
  Uplink uplink_;
  std::vector<pdl_pod> samples_;
  unsigned present_ = 1;
};

Steered steered_by_programs(const Lab& lab, pdl_mode mode) {
  const pdl_verdicts verdicts = must(must(lab.tables()).stats.verdicts());
  if (mode == PDL_MODE_FAST) return {.out = verdicts.redirected, .in = verdicts.in_redirected};
  return {.out = verdicts.late_redirected, .in = verdicts.in_stack_netfilter};
}

}  // namespace

Way poduplink_way(pdl_mode mode, const Sizes& sizes) {
  const bool fast = mode == PDL_MODE_FAST;
  auto lab = make_lab(fast ? "fast" : "netfilter");
  must(lab->start_agent());
  const harness::Pod added = must(lab->add_pod("pod", {.uplink = 2, .mode = fast ? "fast" : "netfilter"}));
  must(lab->agent().stop());
  const PodEnd pod{.space = added.space.get(),
                   .v4 = added.v4.value(),
                   .v6 = added.v6.value(),
                   .uplink = 2,
                   .mac = lab->uplink(2).mac(),
                   .meets_netfilter = !fast};
  const auto entries = std::make_shared<Entries>(*lab, pod);
  const Lab& node = *lab;
  return finished({.variant = fast ? "poduplink" : "poduplink netfilter",
                   .lab = std::move(lab),
                   .pod = pod,
                   .sizes = sizes,
                   .set_pods = [entries](unsigned pods) { entries->set(pods); },
                   .steered = [&node, mode] { return steered_by_programs(node, mode); }});
}

// ---- others ------------------------------------------------------------------------------------

namespace {

// A veth as the AWS VPC CNI makes it: /32 inside, a gateway that is no address of anybody, whose MAC is known for good.
void add_plain_veth(const Lab& lab, const PodEnd& pod) {
  const MacAddress host_mac(PDL_HOST_MAC);
  must(lab.node().ip(formatted("link add pod0 address {} type veth peer name eth0 netns {}\nlink set pod0 up",
                               host_mac.text(), pod.space->name())));
  must(
      pod.space->ip(formatted("link set eth0 up\n"
                              "address add {0}/32 dev eth0\naddress add {1}/128 dev eth0 nodad\n"
                              "route add 169.254.1.1/32 dev eth0\nroute add default via 169.254.1.1 dev eth0\n"
                              "route add ::/0 via fe80::1 dev eth0\n"
                              "neighbour add 169.254.1.1 lladdr {2} dev eth0 nud permanent\n"
                              "neighbour add fe80::1 lladdr {2} dev eth0 nud permanent",
                              pod.v4.text(), pod.v6.text(), host_mac.text())));
  must(lab.node().ip(formatted("route add {}/32 dev pod0\nroute add {}/128 dev pod0", pod.v4.text(), pod.v6.text())));
}

void add_rules(const Lab& lab, const PodEnd& pod, Family family, unsigned pods) {
  const Uplink uplink = lab.uplink(pod.uplink);
  const IpAddress gateway = family == Family::v4 ? uplink.gateway4() : uplink.gateway6();
  std::string lines =
      formatted("route add default via {} dev {} table {}\n", gateway.text(), uplink.name(), uplink_table);
  for (unsigned number = 1; number <= pods; ++number) {
    // The measured pod's come last, as those of the pod that came last.
    const IpAddress address = number == pods ? pod.address(family) : filling_pod(uplink, family, number);
    const std::string prefix = formatted("{}/{}", address.text(), address.bits());
    lines += formatted("rule add to {} lookup main priority {}\n", prefix, to_pod_priority);
    lines += formatted("rule add from {} lookup {} priority {}\n", prefix, uplink_table, from_pod_priority);
  }
  must(lab.node().run_ok({"ip", family == Family::v4 ? "-4" : "-6", "-batch", "-"}, lines));
}

}  // namespace

Way policy_way(unsigned pods) {
  auto lab = make_lab(formatted("rules-{}", pods));
  const Uplink uplink = lab->uplink(2);
  const PodEnd pod{.space = must(lab->add_namespace("pod")),
                   .v4 = uplink.pod4(1, 1),
                   .v6 = uplink.pod6(1, 1),
                   .uplink = uplink.number,
                   .mac = uplink.mac()};
  add_plain_veth(*lab, pod);
  for (const Family family : families) add_rules(*lab, pod, family, pods);
  return finished({.variant = "policy routing", .lab = std::move(lab), .pod = pod, .sizes = {pods}});
}

Way redirect_way() {
  auto lab = make_lab("redirect");
  const Uplink uplink = lab->uplink(2);
  const PodEnd pod{.space = must(lab->add_namespace("pod")),
                   .v4 = uplink.pod4(1, 1),
                   .v6 = uplink.pod6(1, 1),
                   .uplink = uplink.number,
                   .mac = uplink.mac(),
                   .routers = 0,
                   .meets_netfilter = false};
  add_plain_veth(*lab, pod);
  redirect_all(lab->node(), {.veth = "pod0",
                             .uplink = uplink.name(),
                             .gateway4 = uplink.gateway4(),
                             .gateway6 = uplink.gateway6(),
                             .pod4 = pod.v4,
                             .pod6 = pod.v6});
  return finished({.variant = "redirect alone", .lab = std::move(lab), .pod = pod});
}

Way ptp_way() {
  auto lab = make_lab("ptp");
  const Uplink uplink = lab->uplink(1);
  const PodEnd pod{
      .space = must(lab->add_namespace("pod")), .v4 = uplink.pod4(1, 2), .v6 = uplink.pod6(1, 2), .mac = uplink.mac()};
  const std::string config = formatted(
      R"({{"cniVersion": "1.0.0", "name": "ptp", "type": "ptp", "ipam": {{"type": "host-local", "dataDir": "{}",
        "ranges": [[{{"subnet": "{}/24", "rangeStart": "{}"}}], [{{"subnet": "{}/112", "rangeStart": "{}"}}]],
        "routes": [{{"dst": "0.0.0.0/0"}}, {{"dst": "::/0"}}]}}}})",
      lab->ipam_dir("ptp"), uplink.pod4(1, 0).text(), pod.v4.text(), uplink.pod6(1, 0).text(), pod.v6.text());
  const harness::Outcome added =
      must(harness::run({.argv = {ptp},
                         .environment = {"CNI_COMMAND=ADD", "CNI_CONTAINERID=pod", "CNI_NETNS=" + pod.space->path(),
                                         "CNI_IFNAME=eth0", "CNI_PATH=/usr/lib/cni"},
                         .input = config,
                         .netns_fd = lab->node().fd()}));
  if (!added.ok()) throw std::runtime_error(formatted("{}: {}", ptp, added.text()));
  return finished({.variant = "ptp", .lab = std::move(lab), .pod = pod});
}

Way macvlan_way() {
  auto lab = make_lab("macvlan");
  const Uplink uplink = lab->uplink(1);
  const PodEnd pod{.space = must(lab->add_namespace("pod")),
                   .v4 = uplink.pod4(1, 1),
                   .v6 = uplink.pod6(1, 1),
                   .mac = must(MacAddress::parse("02:00:00:00:01:03")),
                   .routers = 0,
                   .meets_netfilter = false};
  must(lab->node().ip(formatted("link add link {} name eth0 address {} netns {} type macvlan mode bridge",
                                uplink.name(), pod.mac.text(), pod.space->name())));
  std::string lines = formatted("link set eth0 up\naddress add {}/16 dev eth0\naddress add {}/64 dev eth0 nodad\n",
                                pod.v4.text(), pod.v6.text());
  for (const IpAddress& gateway : {uplink.gateway4(), uplink.gateway6()}) {
    lines += formatted("route add {} via {}\n", gateway.is_v4() ? "0.0.0.0/0" : "::/0", gateway.text());
    lines +=
        formatted("neighbour add {} lladdr {} dev eth0 nud permanent\n", gateway.text(), uplink.gateway_mac().text());
  }
  must(pod.space->ip(lines));
  return finished({.variant = "macvlan", .lab = std::move(lab), .pod = pod});
}

}  // namespace poduplink::bench
