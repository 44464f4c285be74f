// SPDX-License-Identifier: Apache-2.0
// poduplinkctl: the operator's command. Options, output and exit codes; what is found out is in the other files.
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "loader/base/version.h"
#include "loader/ctl/commands.h"
#include "loader/ctl/completion.h"
#include "loader/ctl/install.h"
#include "loader/ctl/render.h"
#include "maps/paths.h"

namespace {

using namespace poduplink;
using namespace poduplink::ctl;

// Exit codes.
constexpr int all_is_well = 0;
constexpr int something_is_wrong = 1;
constexpr int wrong_usage = 2;

struct CommandLine {
  Settings settings{.pin_dir = default_pin_dir, .run_dir = default_run_dir};
  std::string output = "table";
  std::string colour = "auto";
  double watch_seconds = 0;
  std::string word;  // the command's own argument
  ExplainQuestion question;
  bool all = false;
  bool follow = false;
  InstallRequest install;
  UninstallRequest uninstall;
  double ready_seconds = 0;
  std::function<int()> run;

  [[nodiscard]] bool json() const { return output == "json"; }
  [[nodiscard]] bool with_colour() const {
    if (colour != "auto") return colour == "always";
    return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  }
};

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int report(const Error& error) {
  std::fprintf(stderr, "poduplinkctl: %s\n", error.message.c_str());
  return something_is_wrong;
}

int show(const CommandLine& line, const Result<View>& view) {
  if (!view) return report(view.error());
  print(line.json() ? as_json(*view, line.watch_seconds > 0) : as_table(*view, line.with_colour()));
  const int code = view->well ? all_is_well : something_is_wrong;
  // The rows of thousands of pods are not taken apart one by one for a process that ends.
  if (line.watch_seconds <= 0) std::_Exit(code);
  return code;
}

// Once, or with --watch again and again; the first time shows totals, the others rates.
int show_rates(const CommandLine& line, const std::function<Result<View>(Rates&)>& look) {
  Rates rates;
  if (line.watch_seconds <= 0) return show(line, look(rates));
  if (const auto first = look(rates); !first) return report(first.error());
  const bool screen = !line.json() && ::isatty(STDOUT_FILENO) == 1;
  for (;;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(line.watch_seconds));
    if (screen) print("\x1b[H\x1b[2J");
    if (const int code = show(line, look(rates)); code != all_is_well) return code;
    if (!screen && !line.json()) print("\n");
    if (std::ferror(stdout) != 0) return all_is_well;  // whoever read has gone
  }
}

int show_events(const CommandLine& line) {
  const auto done = read_events(line.settings, line.follow, [&](const Json& event) {
    print(line.json() ? as_json(View{.document = event}, true) : event_line(event) + "\n");
    return std::ferror(stdout) == 0;
  });
  return done ? all_is_well : report(done.error());
}

CLI::App* add_command(CLI::App& app, CommandLine& line, const std::string& name, const std::string& what,
                      std::function<int()> run) {
  CLI::App* command = app.add_subcommand(name, what);
  command->callback([&line, run = std::move(run)] { line.run = run; });
  return command;
}

void add_watch(CLI::App* command, CommandLine& line) {
  command->add_option("-w,--watch", line.watch_seconds, "show rates, every so many seconds (1 where none is said)")
      ->type_name("SECONDS")
      ->expected(0, 1)
      ->default_str("1")
      ->check(CLI::Range(0.1, 3600.0));
}

// The packet as IP sees it.
void add_packet(CLI::App* explain, ExplainQuestion& question) {
  explain->add_option("--proto", question.protocol, "protocol; icmp: an echo request")
      ->type_name("{udp,tcp,icmp,sctp,gre,esp,ipip,igmp}|NUMBER")
      ->capture_default_str();
  explain->add_option("--sport", question.source_port, "source port, of an echo request its identifier")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  explain->add_option("--dport", question.destination_port, "destination port")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  explain->add_option("--size", question.size, "octets with the IP header")->type_name("OCTETS")->capture_default_str();
  explain->add_option("--ttl", question.hop_limit, "TTL or hop limit")
      ->type_name("NUMBER")
      ->check(CLI::Range(0, 255))
      ->capture_default_str();
  explain->add_flag("--fragmentable", question.fragmentable, "IPv4 without the don't-fragment bit");
  explain->add_option("--fragment", question.fragment, "a fragment: the first of its packet, or a later one")
      ->check(CLI::IsMember({"first", "later"}));
  explain->add_flag("--options", question.options, "with an IPv4 option, or an IPv6 routing header");
  explain->add_option("--extensions", question.extensions, "so many IPv6 extension headers (destination options)")
      ->type_name("NUMBER")
      ->check(CLI::Range(0, 32));
  explain->add_flag("--icmp-error", question.icmp_error,
                    "an ICMP error about the flow: it quotes a packet of the other direction");
  explain->add_option("--quoting", question.quoting, "the error quotes a packet of this address in place of the pod's")
      ->type_name("IP");
}

// Who sends it, and where it is met.
void add_sender(CLI::App* explain, ExplainQuestion& question) {
  explain->add_option("--from", question.from, "source address, where it is not the sender's own")->type_name("IP");
  explain->add_flag("--neighbour", question.neighbour,
                    "the sender asks for the other's MAC, by ARP or neighbour solicitation");
  explain->add_option("--to-mac", question.to_mac, "destination MAC, where it is not the next interface's")
      ->type_name("MAC");
  explain->add_option("--vlan", question.vlan, "with a VLAN tag of this ID")
      ->type_name("ID")
      ->check(CLI::Range(1, 4094));
  explain->add_flag("--inbound", question.inbound,
                    "the packet that DESTINATION sends to the pod, as it arrives at an uplink");
  explain->add_option("--uplink", question.uplink, "where an inbound packet arrives; default: the pod's home")
      ->type_name("NAME");
}

void add_explain(CLI::App& app, CommandLine& line) {
  CLI::App* explain =
      add_command(app, line, "explain", "what would become of a packet of a pod, by the loaded programs; sends nothing",
                  [&line] { return show(line, explain_view(line.settings, line.question)); });
  explain->add_option("POD-ADDRESS", line.question.pod, "the pod's end: the sender, unless it is --inbound")
      ->required()
      ->type_name("ADDRESS");
  explain->add_option("DESTINATION", line.question.destination, "the other end")->required()->type_name("IP");
  add_packet(explain, line.question);
  add_sender(explain, line.question);
}

void add_places(CLI::App* command, CniPlaces& places, Part& part) {
  command->add_option("--cni-bin-dir", places.bin_dir, "the runtime's folder of plugins")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--cni-conf-dir", places.conf_dir, "the runtime's folder of networks")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--conflist-name", places.conflist_name, "name of the conflist there")
      ->type_name("NAME")
      ->check([](const std::string& name) {
        return name.ends_with(".conflist") && !name.contains('/') ? "" : "is no name that ends in .conflist";
      })
      ->capture_default_str();
  command->add_option("--only", part, "only these: plugins, conflist")
      ->transform(
          CLI::Transformer(std::map<std::string, Part>{{"plugins", Part::plugins}, {"conflist", Part::conflist}}));
}

void add_install(CLI::App& app, CommandLine& line) {
  CLI::App* install =
      add_command(app, line, "install",
                  "put the CNI plugins, and last of all the conflist, where the container runtime looks", [&line] {
                    line.install.ready_within = std::chrono::milliseconds(static_cast<long>(line.ready_seconds * 1000));
                    return show(line, install_view(line.settings, line.install));
                  });
  add_places(install, line.install.places, line.install.part);
  install
      ->add_option("--conflist", line.install.conflist,
                   std::string("the network's configuration; default: ") + default_conflist + ", if it is there")
      ->type_name("FILE");
  install
      ->add_option("--source", line.install.source,
                   "folder with the plugins; default: beside this program, else /usr/libexec/poduplink")
      ->type_name("DIR");
  install->add_option("--wait-ready", line.ready_seconds, "wait so many seconds for a ready agent of this version")
      ->type_name("SECONDS")
      ->expected(0, 1)
      ->default_str("60")
      ->check(CLI::Range(0.1, 86400.0));
  install->add_flag("--force", line.install.force, "replace what is not ours or was changed");

  CLI::App* uninstall =
      add_command(app, line, "uninstall", "remove the conflist, then the CNI plugins; refused while pods are attached",
                  [&line] { return show(line, uninstall_view(line.settings, line.uninstall)); });
  add_places(uninstall, line.uninstall.places, line.uninstall.part);
  uninstall->add_flag("--force", line.uninstall.force, "although pods are attached");
}

void add_commands(CLI::App& app, CommandLine& line) {
  add_command(app, line, "status", "the whole node at a glance, problems first",
              [&line] { return show(line, status_view(line.settings)); });
  add_command(app, line, "doctor", "everything that is not as it should be, what it means and what to do",
              [&line] { return show(line, doctor_view(line.settings)); });
  add_command(app, line, "pods", "pod addresses: uplink, gateway and its MAC, mode, veth, owner",
              [&line] { return show(line, pods_view(line.settings, line.word)); })
      ->add_option("WORD", line.word, "only those whose address, pod, container, uplink, gateway or veth has it")
      ->type_name("");
  add_watch(add_command(
                app, line, "uplinks", "uplinks, how each was chosen or why refused, and their traffic",
                [&line] { return show_rates(line, [&](Rates& rates) { return uplinks_view(line.settings, rates); }); }),
            line);
  add_command(app, line, "exempt", "destinations that the host's own routing decides",
              [&line] { return show(line, exempt_view(line.settings)); });
  CLI::App* stats = add_command(app, line, "stats", "what became of packets, by verdict", [&line] {
    return show_rates(line, [&](Rates& rates) { return stats_view(line.settings, line.all, rates); });
  });
  stats->add_flag("-a,--all", line.all, "verdicts that never happened too");
  add_watch(stats, line);
  add_command(app, line, "events", "sampled drops since events were last read; reading takes them away", [&line] {
    return show_events(line);
  })->add_flag("-f,--follow", line.follow, "go on with those that come");
  add_command(app, line, "flows", "connections that the kernel tracks and that have a pod at an end, and their ways",
              [&line] { return show(line, flows_view(line.settings, line.word)); })
      ->add_option("POD-ADDRESS", line.word, "only those of this pod address")
      ->type_name("ADDRESS");
  add_explain(app, line);
  add_command(app, line, "check-config", "check an agent configuration without an agent",
              [&line] { return show(line, check_config_view(line.word)); })
      ->add_option("FILE", line.word, "configuration file")
      ->type_name("FILE")
      ->required();
  add_install(app, line);
  add_command(app, line, "completion", "print a script that makes the shell complete commands, options and addresses",
              [&app] {
                print(bash_completion(app));
                return all_is_well;
              })
      ->add_option("SHELL", line.word, "bash")
      ->required()
      ->check(CLI::IsMember({"bash"}));
}

}  // namespace

int main(int argc, char** argv) {
  // What is freed is used again, and not given back for pages that have to be filled with zeros anew. 32 MiB is the
  // most.
  constexpr int large = 32 << 20;
  for (const int parameter : {M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD}) ::mallopt(parameter, large);
  CommandLine line;
  CLI::App app(
      "poduplinkctl: looks at poduplink on this node, and installs its plugins\n\nExit codes: 0 all is well, 1 "
      "something is wrong or "
      "cannot be read, 2 wrong usage.",
      "poduplinkctl");
  app.set_version_flag("--version", "poduplinkctl " + build_version());
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("-o,--output", line.output, "table for people, json for programs")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  app.add_option("--color", line.colour, "auto: on a terminal, unless NO_COLOR is set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  app.add_option("--pin-dir", line.settings.pin_dir, "the agent's folder on bpffs")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--run-dir", line.settings.run_dir, "the agent's folder for locks, records and state")
      ->type_name("DIR")
      ->capture_default_str();
  add_commands(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? all_is_well : wrong_usage;
  }
  return line.run();
}
