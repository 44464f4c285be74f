// SPDX-License-Identifier: Apache-2.0
// The step between a node with poduplink's programs and one whose container runtime uses them: the static plugins into
// the folder of CNI plugins, and last of all the conflist, by which the runtime takes the network for ready.
#pragma once

#include <chrono>
#include <string>

#include "loader/base/result.h"
#include "loader/ctl/node.h"
#include "loader/ctl/view.h"

namespace poduplink::ctl {

inline constexpr const char* default_conflist = "/etc/poduplink/cni.conflist";

enum class Part { all, plugins, conflist };

struct CniPlaces {
  std::string bin_dir = "/opt/cni/bin";
  std::string conf_dir = "/etc/cni/net.d";
  std::string conflist_name = "10-poduplink.conflist";

  [[nodiscard]] std::string conflist() const { return conf_dir + "/" + conflist_name; }
};

struct InstallRequest {
  CniPlaces places;
  Part part = Part::all;
  std::string source;                         // folder with the plugins; empty: beside this program, else the package's
  std::string conflist;                       // empty: the default one, if there is one
  bool force = false;                         // over what is not ours, or was changed
  std::chrono::milliseconds ready_within{0};  // waits so long for a ready agent of this build; 0: does not wait
};

// Everything is looked at and written beside its place before the first file is put in place, so that an error leaves
// all as it was. Errors: what is missing, refused or cannot be written, by its path.
Result<View> install_view(const Settings& settings, const InstallRequest& request);

struct UninstallRequest {
  CniPlaces places;
  Part part = Part::all;
  bool force = false;  // although pods are attached
};

// The conflist first, then the plugins; only what is ours. Errors: pods that are attached, whose DEL needs the plugins.
Result<View> uninstall_view(const Settings& settings, const UninstallRequest& request);

}  // namespace poduplink::ctl
