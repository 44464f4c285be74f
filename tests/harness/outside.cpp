// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/outside.h"

namespace poduplink::harness {

Result<Outside> Outside::watch(const Lab& lab) {
  Outside result;
  for (const unsigned number : lab.uplink_numbers()) {
    const Namespace& gateway = lab.gateway(number);
    PDL_TRY_ASSIGN(EchoServer server, EchoServer::start(gateway, {echo(Family::v4), echo(Family::v6)}));
    result.servers_.emplace(number, std::move(server));
    PDL_TRY_ASSIGN(Capture capture, Capture::start(gateway, "eth0"));
    result.captures_.emplace(number, std::move(capture));
  }
  return result;
}

IpAddress Outside::address(Family family) { return *IpAddress::parse(family == Family::v4 ? outside4 : outside6); }

std::map<unsigned, std::vector<Frame>> Outside::packets_from(const IpAddress& source) const {
  std::map<unsigned, std::vector<Frame>> found;
  for (const auto& [number, capture] : captures_) found[number] = capture.frames(received_from(source));
  return found;
}

std::map<unsigned, std::size_t> Outside::count_from(const IpAddress& source) const {
  std::map<unsigned, std::size_t> found;
  for (const auto& [number, capture] : captures_) found[number] = capture.count(received_from(source));
  return found;
}

std::vector<std::string> Outside::faults_from(const IpAddress& source, const Uplink& uplink) const {
  std::vector<std::string> faults;
  for (const auto& [number, frames] : packets_from(source)) {
    if (number != uplink.number && !frames.empty())
      faults.push_back(formatted("{} packets of {} left by eth{}, its home is {}: {}", frames.size(), source.text(),
                                 number, uplink.name(), frames.front().packet.text()));
    if (number != uplink.number) continue;
    if (frames.empty()) faults.push_back(formatted("no packet of {} left by {}", source.text(), uplink.name()));
    for (const Frame& frame : frames) {
      for (const std::string& fault : faults_of(frame, uplink)) faults.push_back(fault + ": " + frame.packet.text());
    }
  }
  for (const auto& [number, capture] : captures_) {
    if (capture.lost() != 0) faults.push_back(formatted("the capture at gw{} lost {} packets", number, capture.lost()));
  }
  return faults;
}

void Outside::clear() {
  for (auto& [number, capture] : captures_) capture.clear();
}

std::vector<std::string> faults_of(const Frame& frame, const Uplink& uplink) {
  std::vector<std::string> faults;
  const Decoded& packet = frame.packet;
  if (packet.ttl != forwarded_ttl) faults.push_back(formatted("TTL {}", packet.ttl));
  if (packet.source_mac != uplink.mac()) faults.push_back("source MAC " + packet.source_mac.text());
  if (packet.destination_mac != uplink.gateway_mac())
    faults.push_back("destination MAC " + packet.destination_mac.text());
  if (!packet.header_checksum_ok) faults.emplace_back("wrong header checksum");
  if (frame.checksum_pending) faults.emplace_back("checksum left to hardware");
  if (!packet.payload_checksum_ok) faults.emplace_back("wrong checksum");
  return faults;
}

}  // namespace poduplink::harness
