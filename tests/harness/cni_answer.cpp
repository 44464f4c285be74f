// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/cni_answer.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

namespace poduplink::harness {
namespace {

using Json = nlohmann::json;

Json parse(const std::string& text) { return Json::parse(text, nullptr, false); }

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const Json& list_of(const Json& object, const char* key) {
  static const Json none = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : none;
}

std::string version_of(const Invocation& invocation) {
  const Json config = parse(invocation.config);
  return config.is_object() ? text_of(config, "cniVersion") : std::string();
}

// The name of the container's interface, which chained plugins do not get by CNI_IFNAME.
std::string interface_of(const Invocation& invocation) {
  const Json config = parse(invocation.config);
  const auto external = config.find("external");
  const std::string name = external == config.end() ? std::string() : text_of(*external, "ifName");
  return name.empty() ? invocation.if_name : name;
}

// A copy of the result without the entries of the result before it, and what is wrong with those.
Json own_part(const Json& result, const Json& before, std::vector<std::string>& faults) {
  Json own = result;
  if (!own.contains("ips")) own["ips"] = Json::array();
  for (const char* key : {"interfaces", "ips", "routes"}) {
    const Json& first = list_of(before, key);
    const Json& all = list_of(result, key);
    if (all.size() < first.size() || !std::equal(first.begin(), first.end(), all.begin())) {
      faults.push_back(formatted("ADD result: {} do not begin with those of prevResult", key));
      continue;
    }
    if (!all.empty()) own[key] = Json(all.begin() + static_cast<std::ptrdiff_t>(first.size()), all.end());
  }
  const auto shift = list_of(before, "interfaces").size();
  for (Json& ip : own["ips"]) {
    if (ip.contains("interface")) ip["interface"] = ip["interface"].get<long>() - static_cast<long>(shift);
  }
  return own;
}

// Collects faults while one ADD result is read.
class ResultReader {
 public:
  ResultReader(const Invocation& invocation, const Json& json, PluginAnswer& answer)
      : invocation_(invocation), whole_(json), json_(json), answer_(answer) {
    const Json config = parse(invocation.config);
    if (config.contains("prevResult")) json_ = own_part(json, config["prevResult"], answer.faults);
  }

  void read() {
    AddResult result;
    result.json = whole_.dump();
    result.cni_version = text_of(json_, "cniVersion");
    const std::string wanted = version_of(invocation_);
    if (result.cni_version != wanted) fault(formatted("cniVersion '{}', asked for '{}'", result.cni_version, wanted));
    check_keys();
    for (const Json& entry : list_of(json_, "interfaces")) result.interfaces.push_back(read_interface(entry));
    for (const Json& entry : list_of(json_, "ips")) result.ips.push_back(read_address(entry));
    result.own = json_.dump();
    check_interfaces(result);
    check_addresses(result);
    answer_.result = std::move(result);
  }

 private:
  void fault(std::string text) { answer_.faults.push_back("ADD result: " + std::move(text)); }

  // No key that the version has not, and nothing that is null or empty where it may be left out.
  void check_keys() {
    const std::string version = version_of(invocation_);
    const bool newest = version == "1.1.0";
    const auto allow = [this](const Json& object, const char* what, std::initializer_list<std::string_view> keys) {
      for (const auto& [key, value] : object.items()) {
        if (std::ranges::find(keys, key) == keys.end()) fault(formatted("{}: key '{}'", what, key));
        if (value.is_null() || (value.is_string() && value.get<std::string>().empty()))
          fault(formatted("{}: key '{}' is {}", what, key, value.dump()));
      }
    };
    allow(json_, "result", {"cniVersion", "interfaces", "ips", "routes", "dns"});
    for (const Json& route : list_of(json_, "routes")) {
      if (newest) {
        allow(route, "route", {"dst", "gw", "mtu", "advmss", "priority", "table", "scope"});
      } else {
        allow(route, "route", {"dst", "gw"});
      }
      const auto dst = Prefix::parse(text_of(route, "dst"));
      if (!dst || dst->subnet().text() != text_of(route, "dst")) fault("route " + route.dump());
    }
    for (const Json& entry : list_of(json_, "interfaces")) allow(entry, "interface", {"name", "mac", "sandbox", "mtu"});
    for (const Json& entry : list_of(json_, "ips")) {
      allow(entry, "address", {"version", "address", "gateway", "interface"});
    }
    if (json_.contains("dns")) allow(json_["dns"], "dns", {"nameservers", "domain", "search", "options"});
  }

  ResultInterface read_interface(const Json& entry) {
    ResultInterface result{text_of(entry, "name"), text_of(entry, "mac"), text_of(entry, "sandbox"), std::nullopt};
    const auto mac = MacAddress::parse(result.mac);
    if (!mac || mac->text() != result.mac) fault(formatted("interface {}: MAC '{}'", result.name, result.mac));
    const auto mtu = entry.find("mtu");
    if (mtu != entry.end()) {
      if (!mtu->is_number_unsigned() || *mtu == 0)
        fault("interface " + result.name + ": mtu " + mtu->dump());
      else
        result.mtu = mtu->get<unsigned>();
      if (version_of(invocation_) != "1.1.0") fault("interface key 'mtu' is new in 1.1.0");
    }
    return result;
  }

  ResultAddress read_address(const Json& entry) {
    ResultAddress result{text_of(entry, "address"), text_of(entry, "gateway"), std::nullopt};
    const auto prefix = Prefix::parse(result.address);
    if (!prefix || prefix->text() != result.address) fault("address '" + result.address + "'");
    if (entry.contains("gateway") && !IpAddress::parse(result.gateway)) fault("gateway '" + result.gateway + "'");
    const auto index = entry.find("interface");
    if (index != entry.end() && index->is_number_integer()) result.interface = index->get<long>();
    const bool old = version_of(invocation_).starts_with("0.");
    const std::string family = text_of(entry, "version");
    if (old && prefix && family != (prefix->family() == Family::v4 ? "4" : "6"))
      fault(formatted("address {}: version '{}'", result.address, family));
    if (!old && entry.contains("version")) fault("address key 'version' ended with 0.4.0");
    return result;
  }

  void check_interfaces(const AddResult& result) {
    if (result.interfaces.empty()) {
      fault("no interfaces");
      return;
    }
    for (std::size_t i = 0; i + 1 < result.interfaces.size(); ++i) {
      if (!result.interfaces[i].sandbox.empty()) fault(result.interfaces[i].name + " has a sandbox");
    }
    const ResultInterface& last = result.interfaces.back();
    const std::string name = interface_of(invocation_);
    if (last.name != name) fault("last interface is " + last.name + ", not " + name);
    if (last.sandbox != invocation_.netns) fault("sandbox '" + last.sandbox + "', not '" + invocation_.netns + "'");
  }

  void check_addresses(const AddResult& result) {
    if (result.ips.empty()) fault("no addresses");
    const long container = static_cast<long>(result.interfaces.size()) - 1;
    for (const ResultAddress& ip : result.ips) {
      if (ip.interface != container)
        fault(formatted("address {}: interface {}, not {}", ip.address, ip.interface.value_or(-1), container));
    }
  }

  const Invocation& invocation_;
  const Json& whole_;
  Json json_;  // what ours added
  PluginAnswer& answer_;
};

void read_error(const Invocation& invocation, const Json& json, PluginAnswer& answer) {
  const auto fault = [&](const std::string& text) { answer.faults.push_back("error document: " + text); };
  const auto code = json.find("code");
  if (code == json.end() || !code->is_number_unsigned() || *code == 0 || *code > 4294967295U) {
    fault("code " + (code == json.end() ? "absent" : code->dump()));
  } else {
    answer.code = code->get<unsigned>();
  }
  answer.message = text_of(json, "msg");
  answer.details = text_of(json, "details");
  if (answer.message.empty()) fault("no msg");
  const std::string version = text_of(json, "cniVersion");
  const std::string wanted = version_of(invocation);
  const bool known =
      wanted == "0.3.0" || wanted == "0.3.1" || wanted == "0.4.0" || wanted == "1.0.0" || wanted == "1.1.0";
  if (version != (known ? wanted : "1.1.0")) fault("cniVersion '" + version + "'");
}

void read_versions(const Json& json, PluginAnswer& answer) {
  if (json.value("supportedVersions", Json()) != Json({"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}))
    answer.faults.push_back("VERSION: " + json.dump());
}

bool prints_a_document(const std::string& verb) { return verb == "ADD" || verb == "VERSION"; }

}  // namespace

std::string PluginAnswer::text() const {
  std::string text = process.text();
  for (const std::string& fault : faults) text += "\nbroken contract: " + fault;
  return text;
}

PluginAnswer read_answer(const Invocation& invocation, Outcome outcome) {
  PluginAnswer answer;
  answer.process = std::move(outcome);
  const Outcome& process = answer.process;
  if (process.timed_out) answer.faults.emplace_back("it did not end");
  if (process.held_open) answer.faults.emplace_back("a child of it kept its output open");
  const bool succeeded = process.status == 0;
  if (succeeded && !prints_a_document(invocation.verb)) {
    if (!process.out.empty()) answer.faults.push_back("output of a successful " + invocation.verb);
    return answer;
  }
  const Json json = parse(process.out);
  if (!json.is_object()) {
    answer.faults.emplace_back("standard output is not one JSON object");
  } else if (!succeeded) {
    read_error(invocation, json, answer);
  } else if (json.contains("code")) {
    answer.faults.emplace_back("an error with exit code 0");
  } else if (invocation.verb == "ADD") {
    ResultReader(invocation, json, answer).read();
  } else {
    read_versions(json, answer);
  }
  return answer;
}

Result<std::string> with_previous_result(const std::string& config, const std::string& result) {
  return merged(config, "{\"prevResult\":" + result + "}");
}

Result<std::string> merged(const std::string& config, const std::string& patch) {
  Json base = parse(config);
  const Json change = parse(patch);
  if (!base.is_object()) return fail("not a JSON object: {}", config);
  if (!change.is_object()) return fail("not a JSON object: {}", patch);
  base.merge_patch(change);
  return base.dump();
}

}  // namespace poduplink::harness
