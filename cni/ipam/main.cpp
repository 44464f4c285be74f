// SPDX-License-Identifier: Apache-2.0
// poduplink-ipam: the IPAM plugin that comes with poduplink. See docs/ipam.md.
#include "cni/ipam/verbs.h"
#include "cni/spec/entry.h"

int main(int argc, char** argv) {
  using namespace poduplink;
  const Plugin plugin{
      .name = "poduplink-ipam",
      .add = [](const Invocation& invocation) { return ipam::add(invocation, &ipam::find_uplink); },
      .del = &ipam::del,
      .check = &ipam::check,
      .gc = &ipam::gc,
      .status = &ipam::status,
  };
  return run_plugin(plugin, argc, argv);
}
