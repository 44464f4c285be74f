// SPDX-License-Identifier: Apache-2.0
#include "cni/spec/entry.h"
#include "cni/verbs.h"

int main(int argc, char** argv) {
  const poduplink::Plugin plugin{.name = "poduplink",
                                 .add = &poduplink::add_pod,
                                 .del = &poduplink::del_pod,
                                 .check = &poduplink::check_pod,
                                 .gc = &poduplink::collect_garbage,
                                 .status = &poduplink::report_status};
  return poduplink::run_plugin(plugin, argc, argv);
}
