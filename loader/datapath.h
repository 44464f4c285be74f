// SPDX-License-Identifier: Apache-2.0
// This build's programs and maps: loaded over the maps that are pinned already, and pinned. All access to
// libbpf's loader is behind this class.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/base/fd.h"
#include "loader/base/result.h"
#include "loader/config.h"

struct pdl_datapath;

namespace poduplink {

inline constexpr const char* pod_egress_program = "pod_egress";
inline constexpr const char* uplink_ingress_program = "uplink_ingress";
inline constexpr const char* uplink_egress_program = "uplink_egress";

struct DatapathOptions {
  std::string pin_dir;
  MapSizes sizes;  // for maps that are made; adopted ones keep theirs
  bool steer_node = false;
  bool conntrack = false;
};

// Sends libbpf's messages to the log, at debug level. Called once.
void route_libbpf_messages();

class Datapath {
 public:
  // Checks every name under PIN_DIR that will be used, then loads. Changes nothing that others see.
  // Errors: a pin that is something else, by path; the kernel's refusal.
  static Result<Datapath> load(const DatapathOptions& options);

  Datapath(Datapath&& other) noexcept;
  Datapath& operator=(Datapath&& other) noexcept;
  ~Datapath();

  // PIN_DIR/v<ABI>
  [[nodiscard]] const std::string& folder() const { return folder_; }
  // The folder of the version that `current` names, where that is another one's.
  [[nodiscard]] std::optional<std::string> folder_before() const;
  [[nodiscard]] int program_fd(const std::string& name) const;

  // Pins maps where they are not, and puts this build's programs in the place of those pinned.
  // Errors: errno; what this call itself made is taken away again.
  [[nodiscard]] Result<> pin() const;
  // Makes pins of ours again that are missing, and `current`. Returns what was mended. Errors: as pin(); PIN_DIR is on
  // no bpffs; a name is taken by something else.
  [[nodiscard]] Result<std::vector<std::string>> mend_pins() const;
  // PIN_DIR/current -> v<ABI>, atomically.
  [[nodiscard]] Result<> make_current() const;

  // The same program once more, as another object on the same maps: the kernel takes one program only once at
  // a hook, so moving it needs a second to stand in.
  [[nodiscard]] Result<Fd> load_again(const std::string& name) const;

 private:
  Datapath(DatapathOptions options, std::string folder, pdl_datapath* skeleton);
  [[nodiscard]] Result<> make_folders() const;
  // With a descriptor and the path of the pin, until it says no.
  [[nodiscard]] Result<> each_map(const std::function<Result<>(int, const std::string&)>& visit) const;

  struct Destroy {
    void operator()(pdl_datapath* skeleton) const;
  };
  DatapathOptions options_;
  std::string folder_;
  std::unique_ptr<pdl_datapath, Destroy> skeleton_;
};

}  // namespace poduplink
