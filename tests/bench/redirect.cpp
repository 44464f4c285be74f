// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/redirect.h"

#include <bpf/libbpf.h>

#include <cerrno>
#include <cstring>

#include "loader/net/link.h"
#include "redirect.skel.h"
#include "tests/bench/ingress.h"
#include "tests/bench/must.h"

namespace poduplink::bench {
namespace {

struct Destroy {
  void operator()(pdl_redirect* skeleton) const { pdl_redirect__destroy(skeleton); }
};

template <typename Field>
void set(Field& field, const IpAddress& address) {
  static_assert(sizeof(field) == 4 || sizeof(field) == 16);
  std::memcpy(&field, address.octets().data(), sizeof(field));
}

}  // namespace

void redirect_all(const harness::Namespace& node, const Redirection& redirection) {
  const std::unique_ptr<pdl_redirect, Destroy> skeleton(pdl_redirect__open());
  if (!skeleton) must(Result<>(fail_errno(errno, "opening the program that redirects")));
  Netlink netlink = must(Netlink::open_in(node.fd()));
  const int veth = must(find_link_by_name(netlink, redirection.veth)).index;
  const int uplink = must(find_link_by_name(netlink, redirection.uplink)).index;
  auto& route = skeleton->rodata->route;
  route.uplink = static_cast<__u32>(uplink);
  route.veth = static_cast<__u32>(veth);
  set(route.gateway4, redirection.gateway4);
  set(route.gateway6, redirection.gateway6);
  set(route.pod4, redirection.pod4);
  set(route.pod6, redirection.pod6);
  if (pdl_redirect__load(skeleton.get()) != 0) must(Result<>(fail_errno(errno, "loading the program that redirects")));
  attach_at_ingress(node, redirection.veth, skeleton->progs.redirect_out);
  attach_at_ingress(node, redirection.uplink, skeleton->progs.redirect_in);
}

}  // namespace poduplink::bench
