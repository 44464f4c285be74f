// SPDX-License-Identifier: Apache-2.0
// What explain tells: steps for people, and the outcome for programs.
#pragma once

#include <string>
#include <utility>

#include "loader/base/format.h"
#include "loader/ctl/view.h"

namespace poduplink::ctl {

class Story {
 public:
  void say(const std::string& title, const std::string& text, Tone tone = Tone::plain) {
    view_.remarks.push_back({tone, formatted("{:<14} {}", title, text)});
    steps_.push_back({{"step", title}, {"text", text}});
  }
  void set(const char* key, Json value) { result_[key] = std::move(value); }

  // How it ends; the last word holds.
  void leaves(const std::string& interface) {
    set("outcome", "leaves");
    set("leavesBy", interface);
  }
  void delivered(const std::string& pod) {
    set("outcome", "delivered");
    set("deliveredTo", pod);
  }
  // In the host's own stack: for the node itself, or for nobody.
  void stays(const std::string& why) {
    set("outcome", "host");
    say("stays", why);
  }
  // Somebody gets an answer that a program or the stack makes.
  void answered(const std::string& how) {
    set("outcome", "answered");
    say("answered", how);
  }
  void dropped(const std::string& why) {
    set("outcome", "dropped");
    lost(why);
  }
  // It does not reach its destination, whatever its outcome is called.
  void lost(const std::string& why) {
    say("lost", why, Tone::bad);
    set("lost", true);
    view_.well = false;
  }

  View finish() && {
    view_.document = {{"steps", steps_}};
    view_.document.update(result_);
    return std::move(view_);
  }

 private:
  View view_;
  Json steps_ = Json::array();
  Json result_{{"outcome", nullptr},     {"lost", false},         {"program", nullptr},    {"verdict", nullptr},
               {"lateVerdict", nullptr}, {"home", nullptr},       {"mtu", nullptr},        {"leavesBy", nullptr},
               {"nextHop", nullptr},     {"nextHopMac", nullptr}, {"deliveredTo", nullptr}};
};

}  // namespace poduplink::ctl
