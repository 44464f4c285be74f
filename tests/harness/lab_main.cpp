// SPDX-License-Identifier: Apache-2.0
// poduplink-lab: a node in network namespaces for hands-on work, and the demo.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tests/harness/demo.h"
#include "tests/harness/lab_commands.h"

namespace {

using namespace poduplink;
using namespace poduplink::harness;

constexpr int usage_error = 2;

// "eth2" or "2" is uplink 2.
unsigned uplink_number(const std::string& text) {
  const std::string digits = text.starts_with("eth") ? text.substr(3) : text;
  if (digits.size() != 1 || digits[0] < '1' || digits[0] > '9')
    throw CLI::ValidationError("--uplink", "'" + text + "' is no uplink: eth1 to eth9");
  return static_cast<unsigned>(digits[0] - '0');
}

// "eth2=1400"
void add_mtu(LabOptions& options, const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string octets = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (octets.empty() || octets.size() > 5 || octets.find_first_not_of("0123456789") != std::string::npos)
    throw CLI::ValidationError("--mtu", "'" + text + "' is not of the form eth2=1400");
  options.mtu[uplink_number(text.substr(0, equals))] = static_cast<unsigned>(std::stoul(octets));
}

struct Arguments {
  UpRequest up;
  std::vector<std::string> mtus;
  std::string lab = "lab";
  std::string pod;
  std::string uplink;
  std::string ipam = "poduplink-ipam";
  PodOptions options;
  bool no_ipv6 = false;
  std::vector<std::string> command;
  std::vector<std::string> rest;  // of the command, see split_command()
  bool force = false;
  bool json = false;
  int status = 0;
};

void describe_up(CLI::App& app, Arguments& arguments) {
  CLI::App* up = app.add_subcommand("up", "Build a node with uplinks and gateways and start the agent; it stays up");
  up->add_option("--uplinks", arguments.up.options.uplinks, "Number of uplinks, eth1 to ethN")
      ->check(CLI::Range(1, 9))
      ->capture_default_str();
  up->add_option("--mtu", arguments.mtus, "MTU of an uplink, as eth2=1400; may be given several times");
  up->add_flag("--unlisted-default", arguments.up.options.unlisted_default,
               "The default route leads by eth0, which the agent's configuration does not list");
  up->add_flag("--addressless", arguments.up.options.addressless, "The uplinks have no addresses on the node");
  up->add_option("--agent-config", arguments.up.agent_config, "The agent's configuration (default: lists all uplinks)")
      ->check(CLI::ExistingFile);
  up->add_flag("--no-agent", arguments.up.no_agent, "Start no agent");
  up->callback([&arguments] {
    arguments.up.options.name = arguments.lab;
    for (const std::string& mtu : arguments.mtus) add_mtu(arguments.up.options, mtu);
    arguments.status = lab_up(arguments.up);
  });
}

void describe_add(CLI::App& app, Arguments& arguments) {
  CLI::App* add = app.add_subcommand("add", "Add a pod through the CNI plugin");
  add->add_option("POD", arguments.pod, "Its name")->required();
  add->add_option("--uplink", arguments.uplink, "Its uplink, as eth2 (default: the IPAM's choice, else eth1)");
  add->add_option("--ipam", arguments.ipam, "poduplink-ipam, host-local, or stub (prints only MACs, as Azure's does)")
      ->check(CLI::IsMember({"poduplink-ipam", "host-local", "stub"}))
      ->capture_default_str();
  add->add_option("--mode", arguments.options.mode, "fast (the plugin's default) or netfilter")
      ->check(CLI::IsMember({"fast", "netfilter"}));
  add->add_flag("--no-ipv6", arguments.no_ipv6, "IPv4 alone");
  add->callback([&arguments] {
    const std::map<std::string, Ipam> kinds{
        {"poduplink-ipam", Ipam::poduplink}, {"host-local", Ipam::host_local}, {"stub", Ipam::stub}};
    arguments.options.ipam = kinds.at(arguments.ipam);
    arguments.options.v6 = !arguments.no_ipv6;
    if (!arguments.uplink.empty()) arguments.options.uplink = uplink_number(arguments.uplink);
    arguments.status = lab_add(arguments.lab, arguments.pod, arguments.options);
  });
}

// Takes the words that follow `exec WHERE COMMAND` out of the arguments: they belong to the command, also
// where they look like options.
std::vector<std::string> split_command(std::vector<std::string>& words) {
  std::vector<std::string> rest;
  const auto exec = std::ranges::find(words, "exec");
  const auto is_option = [](const std::string& word) { return word.starts_with('-'); };
  if (words.end() - exec < 3 || std::any_of(exec + 1, exec + 2, is_option)) return rest;
  auto command = exec + 2;
  if (*command == "--" && words.end() - exec > 3) command = words.erase(command);
  if (is_option(*command)) return rest;
  rest.assign(command + 1, words.end());
  words.erase(command + 1, words.end());
  return rest;
}

void describe_exec(CLI::App& app, Arguments& arguments) {
  CLI::App* exec = app.add_subcommand("exec", "Run a command in the network namespace of a pod, the node or a gateway");
  exec->add_option("WHERE", arguments.pod, "A pod's name, node, or gw1 to gwN")->required();
  exec->add_option("COMMAND", arguments.command,
                   "The command and its arguments; the lab's pins are at /sys/fs/bpf/poduplink")
      ->required()
      ->expected(1);
  exec->callback([&arguments] {
    arguments.command.insert(arguments.command.end(), arguments.rest.begin(), arguments.rest.end());
    arguments.status = lab_exec(arguments.lab, arguments.pod, arguments.command);
  });
}

void describe_pod_commands(CLI::App& app, Arguments& arguments) {
  CLI::App* check = app.add_subcommand("check", "Ask the CNI plugin to CHECK a pod");
  check->add_option("POD", arguments.pod, "Its name")->required();
  check->callback([&arguments] { arguments.status = lab_check(arguments.lab, arguments.pod); });
  CLI::App* del = app.add_subcommand("del", "Delete a pod through the CNI plugin");
  del->add_option("POD", arguments.pod, "Its name")->required();
  del->callback([&arguments] { arguments.status = lab_del(arguments.lab, arguments.pod); });
}

void describe_rest(CLI::App& app, Arguments& arguments) {
  app.add_subcommand("status", "Show agent, uplinks and pods")->callback([&arguments] {
    arguments.status = lab_status(arguments.lab);
  });
  CLI::App* down =
      app.add_subcommand("down", "Delete the pods, unload the datapath, take everything down, say what was left");
  down->add_flag("--force", arguments.force, "Remove whatever is there of a lab that is broken");
  down->callback([&arguments] { arguments.status = lab_down(arguments.lab, arguments.force); });
  CLI::App* demo = app.add_subcommand("demo", "Nine pods on three uplinks, each leaving by its own; nothing stays");
  demo->add_flag("--json", arguments.json, "Print one JSON document");
  CLI::App* external =
      demo->add_subcommand("external", "A pod with a cluster network and a second NIC for the outside");
  demo->callback([&arguments, external] {
    arguments.status = external->parsed() ? run_external_demo() : run_demo(arguments.json);
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A node with several uplinks in network namespaces, with poduplink on it. Needs root.", "lab");
  app.footer(
      "Example:\n"
      "  lab up\n"
      "  lab add web --uplink eth2\n"
      "  lab exec web ping -c 1 198.51.100.10\n"
      "  lab exec node bpftool map dump pinned /sys/fs/bpf/poduplink/v1/pods4\n"
      "  lab exec gw2 tcpdump -ni eth0\n"
      "  lab down\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage; exec: the command's own.");
  Arguments arguments;
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--name", arguments.lab, "Name of the lab, so that several can be up")->capture_default_str();
  describe_up(app, arguments);
  describe_add(app, arguments);
  describe_exec(app, arguments);
  describe_pod_commands(app, arguments);
  describe_rest(app, arguments);
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    arguments.rest = split_command(words);
    std::ranges::reverse(words);  // as CLI11 wants them
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : usage_error;
  }
  return arguments.status;
}
