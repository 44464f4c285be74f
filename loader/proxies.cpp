// SPDX-License-Identifier: Apache-2.0
#include "loader/proxies.h"

#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "loader/base/log.h"
#include "maps/attachment.h"

namespace poduplink {
namespace {

using Proxy = std::pair<int, IpAddress>;

std::set<Proxy> wanted_proxies(const Records& records, const PodEntries& entries) {
  std::map<IpAddress, const pdl_pod*> by_address;
  for (const auto& [address, pod] : entries) {
    if (address.is_v6()) by_address.emplace(address, &pod);
  }
  std::set<Proxy> wanted;
  for (const auto& [name, file] : records.files()) {
    if (!file.readable || file.record.state != RecordState::ready) continue;
    const std::uint64_t owner = attachment_hash(file.record.id);
    for (const RecordAddress& one : file.record.addresses) {
      if (!one.announced) continue;
      const auto found = by_address.find(one.address.address());
      if (found != by_address.end() && found->second->owner == owner && found->second->home != 0)
        wanted.emplace(static_cast<int>(found->second->home), one.address.address());
    }
  }
  return wanted;
}

}  // namespace

std::vector<std::string> keep_proxy_neighbours(Netlink& netlink, const Records& records, const PodEntries& entries,
                                               std::uint64_t& made) {
  std::set<Proxy> missing = wanted_proxies(records, entries);
  if (missing.empty()) return {};
  const auto present = dump_proxy_neighbours(netlink);
  if (!present) return {present.error().message};
  for (const Neighbour& one : *present) missing.erase({one.link, one.address});
  std::vector<std::string> problems;
  const std::uint64_t before = made;
  for (const auto& [link, address] : missing) {
    const auto added = add_proxy_neighbour(netlink, link, address);
    if (added) {
      ++made;
    } else if (added.error().code != ENODEV) {
      problems.push_back(formatted("proxy on interface {}: {}", link, added.error().message));
    }
  }
  if (made != before) log_info("{} proxy neighbours made again", made - before);
  return problems;
}

}  // namespace poduplink
