// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/capture.h"

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "loader/net/netns.h"

namespace poduplink::harness {
namespace {

constexpr int receive_buffer = 32 << 20;

struct PacketSocket {
  Fd fd;
  int index = 0;
};

// The socket stays in the namespace; the thread comes back.
Result<PacketSocket> open_packet_socket(const Namespace& space, const std::string& interface, int protocol) {
  PDL_TRY_ASSIGN(const NetnsScope inside, NetnsScope::enter(space.fd()));
  PacketSocket result;
  result.index = static_cast<int>(if_nametoindex(interface.c_str()));
  if (result.index == 0) return fail_errno(ENODEV, "interface {} in {}", interface, space.name());
  // Protocol 0 until it is bound, or frames of other interfaces would come in.
  result.fd.reset(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!result.fd) return fail_errno(errno, "packet socket in {}", space.name());
  setsockopt(result.fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &receive_buffer, sizeof(receive_buffer));
  const int on = 1;
  setsockopt(result.fd.get(), SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = result.index;
  address.sll_protocol = htons(static_cast<std::uint16_t>(protocol));
  if (bind(result.fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return fail_errno(errno, "packet socket on {} in {}", interface, space.name());
  return result;
}

// The kernel takes an outer VLAN tag out of the frame; a capture shows the frame as it was on the wire.
void restore_tag(std::vector<std::uint8_t>& octets, const tpacket_auxdata& extra) {
  if ((extra.tp_status & TP_STATUS_VLAN_VALID) == 0 || octets.size() < 12) return;
  const std::uint16_t type = (extra.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? extra.tp_vlan_tpid : 0x8100;
  const std::array<std::uint8_t, 4> tag{static_cast<std::uint8_t>(type >> 8), static_cast<std::uint8_t>(type & 255),
                                        static_cast<std::uint8_t>(extra.tp_vlan_tci >> 8),
                                        static_cast<std::uint8_t>(extra.tp_vlan_tci & 255)};
  octets.insert(octets.begin() + 12, tag.begin(), tag.end());
}

// False where there is nothing to read for now.
bool read_frame(int fd, Frame& frame) {
  static thread_local std::vector<std::uint8_t> buffer(66000);
  alignas(cmsghdr) std::array<char, 256> control;
  sockaddr_ll from{};
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof(from);
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(fd, &message, MSG_DONTWAIT);
  if (size < 0) return false;
  frame.octets.assign(buffer.begin(), buffer.begin() + size);
  frame.outgoing = from.sll_pkttype == PACKET_OUTGOING;
  frame.seen = std::chrono::steady_clock::now();
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level != SOL_PACKET || item->cmsg_type != PACKET_AUXDATA) continue;
    tpacket_auxdata extra;
    std::memcpy(&extra, CMSG_DATA(item), sizeof(extra));
    frame.checksum_pending = (extra.tp_status & TP_STATUS_CSUMNOTREADY) != 0;
    restore_tag(frame.octets, extra);
  }
  frame.packet = decode(frame.octets);
  return true;
}

}  // namespace

struct Capture::State {
  PacketSocket socket;
  Fd stop;
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<Frame> frames;
  std::size_t lost = 0;
  std::thread reader;

  // Takes what the kernel holds. Whoever looks at the frames calls it first: a packet whose answer has come
  // is here then, whether the reader's thread has had its turn or not.
  void drain() {
    Frame frame;
    while (read_frame(socket.fd.get(), frame)) frames.push_back(std::move(frame));
  }

  void read() {
    for (;;) {
      std::array<pollfd, 2> polled{pollfd{socket.fd.get(), POLLIN, 0}, pollfd{stop.get(), POLLIN, 0}};
      if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
      if (polled[1].revents != 0) return;
      const std::lock_guard hold(mutex);
      drain();
      arrived.notify_all();
    }
  }
};

Capture::Capture(std::unique_ptr<State> state) : state_(std::move(state)) {}
Capture::Capture(Capture&& other) noexcept = default;

Capture& Capture::operator=(Capture&& other) noexcept {
  state_.swap(other.state_);
  return *this;
}

Capture::~Capture() {
  if (!state_) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(state_->stop.get(), &one, sizeof(one));
  state_->reader.join();
}

Result<Capture> Capture::start(const Namespace& space, const std::string& interface) {
  auto state = std::make_unique<State>();
  PDL_TRY_ASSIGN(state->socket, open_packet_socket(space, interface, ETH_P_ALL));
  state->stop.reset(eventfd(0, EFD_CLOEXEC));
  if (!state->stop) return fail_errno(errno, "eventfd");
  State* shared = state.get();
  state->reader = std::thread([shared] { shared->read(); });
  return Capture(std::move(state));
}

std::vector<Frame> Capture::frames() const {
  const std::lock_guard hold(state_->mutex);
  state_->drain();
  return state_->frames;
}

std::vector<Frame> Capture::frames(const FrameTest& test) const {
  std::vector<Frame> chosen;
  const std::lock_guard hold(state_->mutex);
  state_->drain();
  for (const Frame& frame : state_->frames) {
    if (test(frame)) chosen.push_back(frame);
  }
  return chosen;
}

std::size_t Capture::count(const FrameTest& test) const {
  std::size_t number = 0;
  const std::lock_guard hold(state_->mutex);
  state_->drain();
  for (const Frame& frame : state_->frames) number += test(frame) ? 1U : 0U;
  return number;
}

bool Capture::wait_for(const FrameTest& test, std::size_t number, std::chrono::milliseconds timeout) const {
  std::unique_lock hold(state_->mutex);
  std::size_t looked_at = 0;
  std::size_t passed = 0;
  return state_->arrived.wait_for(hold, timeout, [&] {
    for (; looked_at < state_->frames.size(); ++looked_at) passed += test(state_->frames[looked_at]) ? 1U : 0U;
    return passed >= number;
  });
}

void Capture::clear() {
  const std::lock_guard hold(state_->mutex);
  state_->drain();
  state_->frames.clear();
}

std::size_t Capture::lost() const {
  tpacket_stats stats{};
  socklen_t size = sizeof(stats);
  // Reading resets the kernel's counter.
  const std::lock_guard hold(state_->mutex);
  if (getsockopt(state_->socket.fd.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0)
    state_->lost += stats.tp_drops;
  return state_->lost;
}

std::string Capture::text() const {
  std::string lines;
  for (const Frame& frame : frames()) lines += (frame.outgoing ? "out " : "in  ") + frame.packet.text() + "\n";
  return lines;
}

FrameTest received_from(const IpAddress& source) {
  return [source](const Frame& frame) {
    return !frame.outgoing && frame.packet.is_ip() && !frame.packet.is_link_housekeeping() &&
           frame.packet.source == source;
  };
}

FrameTest sent_to(const IpAddress& destination) {
  return [destination](const Frame& frame) { return frame.packet.is_ip() && frame.packet.destination == destination; };
}

FrameTest both(FrameTest one, FrameTest other) {
  return [one = std::move(one), other = std::move(other)](const Frame& frame) { return one(frame) && other(frame); };
}

Result<> send_frame(const Namespace& space, const std::string& interface, std::span<const std::uint8_t> frame) {
  PDL_TRY_ASSIGN(const PacketSocket socket, open_packet_socket(space, interface, 0));
  const ssize_t sent = send(socket.fd.get(), frame.data(), frame.size(), 0);
  if (sent != static_cast<ssize_t>(frame.size())) return fail_errno(errno, "sending a frame by {}", interface);
  return {};
}

Result<> disable_offloads(const Namespace& space, const std::string& interface) {
  PDL_TRY_ASSIGN(const NetnsScope inside, NetnsScope::enter(space.fd()));
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno(errno, "socket in {}", space.name());
  for (const unsigned setting : {unsigned{ETHTOOL_STSO}, unsigned{ETHTOOL_SGSO}, unsigned{ETHTOOL_STXCSUM}}) {
    ethtool_value value{setting, 0};
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&value);
    if (ioctl(socket.get(), SIOCETHTOOL, &request) != 0)
      return fail_errno(errno, "offload {} of {} in {}", setting, interface, space.name());
  }
  return {};
}

}  // namespace poduplink::harness
