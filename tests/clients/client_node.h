// SPDX-License-Identifier: Apache-2.0
// A node whose pods are made by a real runtime: what such a runtime reads and writes (network lists, an image, folders
// of its own, a cgroup), and a look at the pods it made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/harness/require.h"

namespace poduplink::harness {

// One network list: ours with `pod`'s configuration, then the others, each a JSON object with its type.
struct Network {
  std::string name;
  PodOptions pod;
  std::vector<std::string> chained;
};

class ClientNode {
 public:
  // A lab with an agent that is ready. Fails the running test where there is none.
  explicit ClientNode(unsigned uplinks);
  ClientNode(const ClientNode&) = delete;
  ClientNode& operator=(const ClientNode&) = delete;
  // Removes the cgroup.
  ~ClientNode();

  Lab& operator*() { return *lab_; }
  Lab* operator->() { return lab_.get(); }

  // Everything of the runtime lies in here, and goes with the lab.
  [[nodiscard]] std::string folder(const std::string& part = {}) const;
  // Writes NET_D/<name>.conflist and returns its path.
  [[nodiscard]] std::string add_network(const Network& network) const;
  [[nodiscard]] std::string net_d() const { return folder("net.d"); }
  // Where the plugins are, from left to right.
  [[nodiscard]] std::vector<std::string> plugin_folders() const;
  // Folder with a file system of busybox; /bin/idle in it does nothing for long enough.
  [[nodiscard]] std::string image_folder() const { return folder("image"); }
  // Absolute path in every cgroup hierarchy.
  [[nodiscard]] std::string cgroup() const;

  // Runs a program in the node.
  [[nodiscard]] Outcome run(std::vector<std::string> argv, const std::vector<std::string>& environment = {}) const;

  // The interface of a running container, as the kernel has it. The pod's namespace has a name until the last copy of
  // the pod is gone, and so long the namespace itself is there.
  [[nodiscard]] Pod pod_of(pid_t process, const std::string& if_name = "eth0");

  // The result that the runtime's libcni keeps of this pod, in CACHE/results: held against the specification and the
  // kernel, as harness calls of the plugin are.
  void require_result(const std::string& cache, const Pod& pod) const;

  // What the stub IPAM was called with: one line of JSON each (tests/harness/stub_ipam.cpp).
  [[nodiscard]] std::vector<std::string> ipam_calls() const;

  // The container has ended with everything that belongs to it, and nothing of any pod is left. Fails the running test
  // otherwise. `helpers`: processes that stay (a daemon).
  void require_clean(const std::vector<std::string>& helpers = {}) const;

 private:
  void make_image() const;

  std::unique_ptr<Lab> lab_;
  unsigned next_name_ = 1;
};

// What the pod says to the outside leaves by its home and by no other uplink, as a router forwards it, and is answered.
// Seen at the gateway of each uplink.
void require_steered(const Lab& lab, const Pod& pod);

// Where libcni keeps results unless it is told otherwise.
inline constexpr const char* default_cache = "/var/lib/cni";

// Folders that runtimes have wired in (/etc/cni, /opt/cni, /var/lib/cni, /dev/shm) become this program's own: what is
// changed in them is gone with it.
Result<> hide_wired_folders();

}  // namespace poduplink::harness
