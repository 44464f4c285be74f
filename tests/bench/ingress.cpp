// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ingress.h"

#include <bpf/libbpf.h>

#include "loader/net/link.h"
#include "loader/net/tc.h"
#include "tests/bench/must.h"

namespace poduplink::bench {

void attach_at_ingress(const harness::Namespace& space, const std::string& device, const bpf_program* program) {
  Netlink netlink = must(Netlink::open_in(space.fd()));
  const int link = must(find_link_by_name(netlink, device)).index;
  must(ensure_clsact(netlink, link));
  must(set_bpf_filter(netlink, {.link = link,
                                .hook = TcHook::ingress,
                                .priority = 1,
                                .handle = 1,
                                .program_fd = bpf_program__fd(program),
                                .name = bpf_program__name(program)}));
}

}  // namespace poduplink::bench
