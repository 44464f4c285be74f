// SPDX-License-Identifier: Apache-2.0
// The few bpf(2) commands that the static plugins need, without libbpf (whose static archive pulls in libelf).
// The agent uses the same calls for pinned maps and links, and libbpf for loading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/base/fd.h"
#include "loader/base/result.h"

struct bpf_insn;

namespace poduplink::bpf {

// Errors: ENOENT where nothing is pinned, EPERM without CAP_BPF or CAP_SYS_ADMIN.
Result<Fd> open_pinned(const std::string& path);
// Errors: EEXIST where the name is taken, EINVAL or EPERM where the folder is not on a bpffs.
Result<> pin(int fd, const std::string& path);
// True where `folder` lies on a bpffs.
Result<bool> is_bpffs(const std::string& folder);

struct MapInfo {
  std::uint32_t type = 0;
  std::uint32_t id = 0;
  std::uint32_t key_size = 0;
  std::uint32_t value_size = 0;
  std::uint32_t max_entries = 0;
  std::uint32_t flags = 0;
  std::uint32_t btf_id = 0;
  std::string name;
};
Result<MapInfo> map_info(int fd);
// Whether it is a map at all is not looked at: what is none answers with numbers of another meaning, a program with the
// hash of its instructions in the place of the sizes of key and value.
Result<MapInfo> known_map_info(int fd);

struct ProgramInfo {
  std::uint32_t type = 0;
  std::uint32_t id = 0;
  std::string name;
  std::string tag;  // 16 hex digits: hash of the instructions
};
Result<ProgramInfo> program_info(int fd);
Result<Fd> program_by_id(std::uint32_t id);

enum class Update { any, create, replace };  // BPF_ANY, BPF_NOEXIST, BPF_EXIST

// Errors of all: errno of the kernel; ENOENT no such key, EEXIST, E2BIG or ENOSPC map full.
Result<> update(int map_fd, const void* key, const void* value, Update how);
Result<> lookup(int map_fd, const void* key, void* value);
Result<> erase(int map_fd, const void* key);
// The key after `key` (null: the first). Errors: ENOENT after the last.
Result<> next_key(int map_fd, const void* key, void* next);

// Many entries with one call. `cursor` has room for a key and at least 4 octets; `first` starts from the beginning.
// Fills keys and values, which have room for `most` entries, and `count`; false after the last of them.
// Errors: ENOSPC where one hash bucket holds more than `most`; EINTR where entries vanished meanwhile; EINVAL,
// EOPNOTSUPP and 524 where the kernel cannot do it for this kind of map.
struct Batch {
  std::span<std::uint8_t> cursor;
  void* keys = nullptr;
  void* values = nullptr;
  std::uint32_t most = 0;
  std::uint32_t count = 0;
};
Result<bool> lookup_batch(int map_fd, bool first, Batch& batch);

// tcx links, kernel 6.6 and later.
enum class TcxHook { ingress, egress };
// True where the kernel knows tcx; has no side effect.
bool have_tcx();

enum class TcxPlace { head, tail };
// Errors: EOPNOTSUPP/EINVAL below 6.6, ENODEV where the interface is gone.
Result<Fd> attach_tcx(int program_fd, int ifindex, TcxHook hook, TcxPlace place);
// Puts another program into a link, atomically. Errors: ENOLINK where the interface is gone.
Result<> update_link(int link_fd, int program_fd);

struct LinkInfo {
  std::uint32_t id = 0;
  std::uint32_t program_id = 0;
  std::uint32_t ifindex = 0;  // 0: the interface is gone
  bool tcx = false;
};
Result<LinkInfo> link_info(int fd);
// Of a descriptor that link_info() took before: whether it is a link at all is not looked at again.
Result<LinkInfo> known_link_info(int fd);

struct TcxProgram {
  std::uint32_t program_id = 0;
  std::uint32_t link_id = 0;  // 0: attached without a link
};
// Programs on a tcx hook in the order in which they run.
Result<std::vector<TcxProgram>> tcx_programs(int ifindex, TcxHook hook);

// Loads a classifier that needs no map. Errors: EPERM without CAP_BPF and CAP_NET_ADMIN or CAP_SYS_ADMIN, EINVAL,
// EACCES where the verifier refuses it.
Result<Fd> load_classifier(std::span<const bpf_insn> instructions, const std::string& name);
// Runs it once for this Ethernet frame, as if that were on the interface, which is one of the caller's network
// namespace. Returns what it returned. Errors: ENODEV where there is no such interface, EPERM, EINVAL for a frame
// without a header.
Result<int> run_classifier(int program_fd, int ifindex, std::span<const std::uint8_t> frame);

// Possible CPUs of the machine: per-CPU values have one slot each, padded to eight octets.
Result<unsigned> possible_cpus();

}  // namespace poduplink::bpf
