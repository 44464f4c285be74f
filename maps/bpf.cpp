// SPDX-License-Identifier: Apache-2.0
#include "maps/bpf.h"

#include <linux/bpf.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "loader/base/file.h"

namespace poduplink::bpf {
namespace {

// Of <linux/bpf.h> since 6.6; Debian 12's headers are older than the kernels that are run.
constexpr std::uint32_t attach_tcx_ingress = 46;
constexpr std::uint32_t attach_tcx_egress = 47;
constexpr std::uint32_t link_type_tcx = 11;
constexpr std::uint32_t flag_before = 1U << 3U;
constexpr std::uint32_t flag_after = 1U << 4U;

// The part of union bpf_attr that BPF_LINK_CREATE reads for tcx.
struct LinkCreateAttributes {
  std::uint32_t program_fd;
  std::uint32_t target_ifindex;
  std::uint32_t attach_type;
  std::uint32_t flags;
  std::uint32_t relative_fd;
  std::uint32_t padding;
  std::uint64_t expected_revision;
};

// The part that BPF_PROG_QUERY reads and fills for tcx.
struct QueryAttributes {
  std::uint32_t target_ifindex;
  std::uint32_t attach_type;
  std::uint32_t query_flags;
  std::uint32_t attach_flags;
  std::uint64_t program_ids;
  std::uint32_t count;
  std::uint32_t padding;
  std::uint64_t program_attach_flags;
  std::uint64_t link_ids;
  std::uint64_t link_attach_flags;
  std::uint64_t revision;
};

// The part of struct bpf_link_info that is read; tcx came after Debian 12's headers.
struct LinkInfoBuffer {
  std::uint32_t type;
  std::uint32_t id;
  std::uint32_t program_id;
  std::uint32_t padding;
  std::uint32_t tcx_ifindex;
  std::uint32_t tcx_attach_type;
  std::array<std::uint8_t, 40> rest;
};

template <typename Attributes>
long bpf_call(int command, Attributes& attributes) {
  return ::syscall(SYS_bpf, command, &attributes, sizeof(attributes));
}

std::uint64_t pointer(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

std::uint32_t attach_type(TcxHook hook) { return hook == TcxHook::ingress ? attach_tcx_ingress : attach_tcx_egress; }

// A map's descriptor answers the question for a program too, and its numbers mean something else there. Where
// /proc cannot tell, nothing is said.
Result<> require_kind(int fd, const char* what, std::string_view kind) {
  std::array<char, 64> target{};
  const ssize_t size = ::readlink(formatted("/proc/self/fd/{}", fd).c_str(), target.data(), target.size());
  const std::string_view text(target.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  if (text.empty() || text.ends_with(kind)) return {};
  return fail_errno(EINVAL, "is no {} but {}", what, text);
}

template <typename Info>
Result<Info> known_object_info(int fd, const char* what) {
  Info info{};
  bpf_attr attributes{};
  attributes.info.bpf_fd = static_cast<std::uint32_t>(fd);
  attributes.info.info_len = sizeof(info);
  attributes.info.info = pointer(&info);
  if (bpf_call(BPF_OBJ_GET_INFO_BY_FD, attributes) != 0) return fail_errno(errno, "information on a {}", what);
  return info;
}

template <typename Info>
Result<Info> object_info(int fd, const char* what, std::string_view kind) {
  PDL_TRY(require_kind(fd, what, kind));
  return known_object_info<Info>(fd, what);
}

Result<> element_call(int command, int map_fd, const void* key, const void* value, std::uint64_t flags) {
  bpf_attr attributes{};
  attributes.map_fd = static_cast<std::uint32_t>(map_fd);
  attributes.key = pointer(key);
  attributes.value = pointer(value);
  attributes.flags = flags;
  if (bpf_call(command, attributes) != 0) return Failure(Error{errno, errno_text(errno)});
  return {};
}

}  // namespace

Result<Fd> open_pinned(const std::string& path) {
  bpf_attr attributes{};
  attributes.pathname = pointer(path.c_str());
  Fd fd(static_cast<int>(bpf_call(BPF_OBJ_GET, attributes)));
  if (!fd) return fail_errno(errno, "{}", path);
  return fd;
}

Result<> pin(int fd, const std::string& path) {
  bpf_attr attributes{};
  attributes.pathname = pointer(path.c_str());
  attributes.bpf_fd = static_cast<std::uint32_t>(fd);
  if (bpf_call(BPF_OBJ_PIN, attributes) != 0) return fail_errno(errno, "pinning {}", path);
  return {};
}

Result<bool> is_bpffs(const std::string& folder) {
  struct statfs status{};
  if (::statfs(folder.c_str(), &status) != 0) return fail_errno(errno, "{}", folder);
  return static_cast<std::uint64_t>(status.f_type) == BPF_FS_MAGIC;
}

Result<MapInfo> map_info(int fd) {
  PDL_TRY(require_kind(fd, "map", "map"));
  return known_map_info(fd);
}

Result<MapInfo> known_map_info(int fd) {
  PDL_TRY_ASSIGN(const bpf_map_info info, known_object_info<bpf_map_info>(fd, "map"));
  return MapInfo{.type = info.type,
                 .id = info.id,
                 .key_size = info.key_size,
                 .value_size = info.value_size,
                 .max_entries = info.max_entries,
                 .flags = info.map_flags,
                 .btf_id = info.btf_id,
                 .name = info.name};
}

Result<ProgramInfo> program_info(int fd) {
  PDL_TRY_ASSIGN(const bpf_prog_info info, object_info<bpf_prog_info>(fd, "program", "prog"));
  ProgramInfo program{.type = info.type, .id = info.id, .name = info.name, .tag = {}};
  for (const auto octet : info.tag) program.tag += formatted("{:02x}", octet);
  return program;
}

Result<Fd> program_by_id(std::uint32_t id) {
  bpf_attr attributes{};
  attributes.prog_id = id;
  Fd fd(static_cast<int>(bpf_call(BPF_PROG_GET_FD_BY_ID, attributes)));
  if (!fd) return fail_errno(errno, "program {}", id);
  return fd;
}

Result<> update(int map_fd, const void* key, const void* value, Update how) {
  static_assert(BPF_ANY == 0 && BPF_NOEXIST == 1 && BPF_EXIST == 2);
  return element_call(BPF_MAP_UPDATE_ELEM, map_fd, key, value, static_cast<std::uint64_t>(how));
}

Result<> lookup(int map_fd, const void* key, void* value) {
  return element_call(BPF_MAP_LOOKUP_ELEM, map_fd, key, value, 0);
}

Result<> erase(int map_fd, const void* key) { return element_call(BPF_MAP_DELETE_ELEM, map_fd, key, nullptr, 0); }

Result<> next_key(int map_fd, const void* key, void* next) {
  return element_call(BPF_MAP_GET_NEXT_KEY, map_fd, key, next, 0);
}

Result<bool> lookup_batch(int map_fd, bool first, Batch& batch) {
  bpf_attr attributes{};
  attributes.batch.map_fd = static_cast<std::uint32_t>(map_fd);
  attributes.batch.in_batch = first ? 0 : pointer(batch.cursor.data());
  attributes.batch.out_batch = pointer(batch.cursor.data());
  attributes.batch.keys = pointer(batch.keys);
  attributes.batch.values = pointer(batch.values);
  attributes.batch.count = batch.most;
  const bool more = bpf_call(BPF_MAP_LOOKUP_BATCH, attributes) == 0;
  if (!more && errno != ENOENT) return Failure(Error{errno, errno_text(errno)});
  batch.count = attributes.batch.count;
  return more;
}

bool have_tcx() {
  // Interface 0 exists nowhere: kernels with tcx look for it (ENODEV), older ones refuse the hook first (EINVAL).
  const auto asked = tcx_programs(0, TcxHook::ingress);
  return !asked && asked.error().code == ENODEV;
}

Result<Fd> attach_tcx(int program_fd, int ifindex, TcxHook hook, TcxPlace place) {
  LinkCreateAttributes attributes{};
  attributes.program_fd = static_cast<std::uint32_t>(program_fd);
  attributes.target_ifindex = static_cast<std::uint32_t>(ifindex);
  attributes.attach_type = attach_type(hook);
  // Without a relative program BEFORE is the head of the list and AFTER its tail.
  attributes.flags = place == TcxPlace::head ? flag_before : flag_after;
  Fd fd(static_cast<int>(bpf_call(BPF_LINK_CREATE, attributes)));
  if (!fd) return fail_errno(errno, "tcx link on interface {}", ifindex);
  return fd;
}

Result<> update_link(int link_fd, int program_fd) {
  bpf_attr attributes{};
  attributes.link_update.link_fd = static_cast<std::uint32_t>(link_fd);
  attributes.link_update.new_prog_fd = static_cast<std::uint32_t>(program_fd);
  if (bpf_call(BPF_LINK_UPDATE, attributes) != 0) return fail_errno(errno, "updating a link");
  return {};
}

Result<LinkInfo> link_info(int fd) {
  PDL_TRY(require_kind(fd, "link", "link"));
  return known_link_info(fd);
}

Result<LinkInfo> known_link_info(int fd) {
  PDL_TRY_ASSIGN(const LinkInfoBuffer info, known_object_info<LinkInfoBuffer>(fd, "link"));
  const bool tcx = info.type == link_type_tcx;
  return LinkInfo{.id = info.id, .program_id = info.program_id, .ifindex = tcx ? info.tcx_ifindex : 0, .tcx = tcx};
}

Result<std::vector<TcxProgram>> tcx_programs(int ifindex, TcxHook hook) {
  constexpr std::size_t most = 64;  // BPF_MPROG_MAX of the kernel
  std::array<std::uint32_t, most> programs{};
  std::array<std::uint32_t, most> links{};
  QueryAttributes attributes{};
  attributes.target_ifindex = static_cast<std::uint32_t>(ifindex);
  attributes.attach_type = attach_type(hook);
  attributes.program_ids = pointer(programs.data());
  attributes.link_ids = pointer(links.data());
  attributes.count = most;
  if (bpf_call(BPF_PROG_QUERY, attributes) != 0) return fail_errno(errno, "tcx programs of interface {}", ifindex);
  std::vector<TcxProgram> found;
  for (std::size_t i = 0; i < attributes.count && i < most; ++i) found.push_back({programs[i], links[i]});
  return found;
}

Result<Fd> load_classifier(std::span<const bpf_insn> instructions, const std::string& name) {
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_SCHED_CLS;
  attributes.insns = pointer(instructions.data());
  attributes.insn_cnt = static_cast<std::uint32_t>(instructions.size());
  attributes.license = pointer("Apache-2.0");
  name.copy(static_cast<char*>(attributes.prog_name), sizeof(attributes.prog_name) - 1);
  Fd fd(static_cast<int>(bpf_call(BPF_PROG_LOAD, attributes)));
  if (!fd) return fail_errno(errno, "loading program {}", name);
  return fd;
}

Result<int> run_classifier(int program_fd, int ifindex, std::span<const std::uint8_t> frame) {
  __sk_buff context{};
  context.ifindex = static_cast<std::uint32_t>(ifindex);
  bpf_attr attributes{};
  attributes.test.prog_fd = static_cast<std::uint32_t>(program_fd);
  attributes.test.data_in = pointer(frame.data());
  attributes.test.data_size_in = static_cast<std::uint32_t>(frame.size());
  attributes.test.ctx_in = pointer(&context);
  attributes.test.ctx_size_in = sizeof(context);
  attributes.test.repeat = 1;
  if (bpf_call(BPF_PROG_TEST_RUN, attributes) != 0)
    return fail_errno(errno, "running a program for interface {}", ifindex);
  return static_cast<int>(attributes.test.retval);
}

Result<unsigned> possible_cpus() {
  // "0-3" or "0,2-7": the last number counts. sysfs is not tied to a network namespace here.
  PDL_TRY_ASSIGN(const std::string text, read_file("/sys/devices/system/cpu/possible", 4096));
  const std::size_t end = text.find_last_of("0123456789");
  if (end == std::string::npos) return fail("list of possible CPUs '{}' has no number", text);
  const std::size_t before = text.find_last_not_of("0123456789", end);
  const std::size_t start = before == std::string::npos ? 0 : before + 1;
  unsigned last = 0;
  std::from_chars(text.data() + start, text.data() + end + 1, last);
  return last + 1;
}

}  // namespace poduplink::bpf
