// SPDX-License-Identifier: Apache-2.0
#include "tests/bpf/wire.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/pkt_cls.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace poduplink::tests {
namespace {

constexpr std::size_t slots = 8;
constexpr std::size_t slot_octets = 4096;
constexpr std::size_t data_offset =
    (sizeof(tpacket2_hdr) + TPACKET_ALIGNMENT - 1) / TPACKET_ALIGNMENT * TPACKET_ALIGNMENT;
constexpr __u32 our_priority = 2;
constexpr __u32 tagger_priority = 1;

[[noreturn]] void failed(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
}

Fd packet_socket(unsigned ifindex) {
  // Protocol 0: it receives nothing.
  Fd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!fd.valid()) failed("packet socket");
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = static_cast<int>(ifindex);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) failed("bind of a packet socket");
  return fd;
}

}  // namespace

Sender::Sender(unsigned ifindex) : fd_(packet_socket(ifindex)) {}

void Sender::send(const Octets& frame) const {
  if (::send(fd_.get(), frame.data(), frame.size(), 0) < 0 && errno != ENOBUFS) {
    failed("sending " + std::to_string(frame.size()) + " octets");
  }
}

void Sender::set_mark(unsigned mark) const {
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) != 0) failed("SO_MARK");
}

PageSender::PageSender(unsigned ifindex) : fd_(packet_socket(ifindex)) {
  const int version = TPACKET_V2;
  const tpacket_req ring{
      .tp_block_size = slot_octets, .tp_block_nr = slots, .tp_frame_size = slot_octets, .tp_frame_nr = slots};
  if (::setsockopt(fd_.get(), SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) != 0 ||
      ::setsockopt(fd_.get(), SOL_PACKET, PACKET_TX_RING, &ring, sizeof(ring)) != 0) {
    failed("transmit ring");
  }
  void* area = ::mmap(nullptr, slots * slot_octets, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (area == MAP_FAILED) failed("transmit ring");
  area_ = static_cast<std::uint8_t*>(area);
}

PageSender::~PageSender() { ::munmap(area_, slots * slot_octets); }

void PageSender::send(const Octets& frame) {
  std::uint8_t* slot = area_ + (next_ * slot_octets);
  auto* header = reinterpret_cast<tpacket2_hdr*>(slot);
  if (data_offset + frame.size() > slot_octets) throw std::logic_error("a frame larger than a slot");
  std::memcpy(slot + data_offset, frame.data(), frame.size());
  header->tp_len = static_cast<__u32>(frame.size());
  header->tp_status = TP_STATUS_SEND_REQUEST;
  if (::send(fd_.get(), nullptr, 0, 0) < 0) {
    // Dropped on its way out: the kernel stays at this slot and would send it again.
    if (errno != ENOBUFS) failed("sending by a ring");
    header->tp_status = TP_STATUS_AVAILABLE;
    return;
  }
  const volatile __u32& status = header->tp_status;
  for (int wait = 0; status != TP_STATUS_AVAILABLE && wait < 2000; ++wait) ::poll(nullptr, 0, 1);
  if (status != TP_STATUS_AVAILABLE) throw std::runtime_error("a frame stays in the ring");
  next_ = (next_ + 1) % slots;
}

Attached::Attached(const Datapath& datapath, Program program, unsigned device) : program_(program) {
  hook_.sz = sizeof(hook_);
  hook_.ifindex = static_cast<int>(device);
  hook_.attach_point = program == Program::uplink_egress ? BPF_TC_EGRESS : BPF_TC_INGRESS;
  LIBBPF_OPTS(bpf_tc_opts, options);
  options.prog_fd = datapath.program_fd(program);
  options.handle = 1;
  options.priority = our_priority;
  if (bpf_tc_hook_create(&hook_) != 0 || bpf_tc_attach(&hook_, &options) != 0) failed("attaching a program");
}

Attached::~Attached() {
  hook_.attach_point = static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS);
  bpf_tc_hook_destroy(&hook_);
}

void Attached::tag_frames() {
  constexpr __u8 context = BPF_REG_1;
  constexpr __u8 to_next_program = BPF_REG_0;
  const std::array<bpf_insn, 5> code{{
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = htons(ETH_P_8021Q)},
      {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = BPF_REG_3, .src_reg = context, .off = offsetof(__sk_buff, mark)},
      {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_skb_vlan_push},
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = to_next_program, .imm = TC_ACT_UNSPEC},
      {.code = BPF_JMP | BPF_EXIT},
  }};
  tagger_ = Fd(bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "tagger", "Apache-2.0", code.data(), code.size(), nullptr));
  if (!tagger_.valid()) failed("loading the tagger");
  LIBBPF_OPTS(bpf_tc_opts, options);
  options.prog_fd = tagger_.get();
  options.handle = 1;
  options.priority = tagger_priority;
  if (bpf_tc_attach(&hook_, &options) != 0) failed("attaching the tagger");
}

unsigned Attached::sending_end() const {
  const auto device = static_cast<unsigned>(hook_.ifindex);
  return program_ == Program::uplink_egress ? device : device + peer_offset;
}

}  // namespace poduplink::tests
