// SPDX-License-Identifier: Apache-2.0
#include "cni/ipam/index.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "loader/base/file.h"

namespace poduplink::ipam {
namespace {

constexpr std::array<char, 8> magic{'p', 'd', 'l', 'i', 'd', 'x', '1', '\n'};
constexpr std::uint64_t most = std::uint64_t{1} << 20U;  // reservations
constexpr std::size_t room = 64;                         // more than a verb adds

// Behind it lie the reservations as they lie in memory: the file never leaves the machine, and not the boot.
struct Header {
  std::array<char, 8> magic;
  std::array<char, 40> boot;
  std::int64_t seconds;
  std::int64_t nanoseconds;
  std::uint64_t count;
};
static_assert(sizeof(Header) == 72 && sizeof(Header) % alignof(Reservation) == 0);
// Another layout is another magic.
static_assert(std::is_trivially_copyable_v<Reservation> && sizeof(Reservation) == 32);

std::size_t file_size(std::uint64_t count) { return sizeof(Header) + count * sizeof(Reservation); }

timespec stamp_of(const Header& header) { return {.tv_sec = header.seconds, .tv_nsec = header.nanoseconds}; }

bool is_before(const Reservation& one, const Reservation& other) { return one.address < other.address; }

std::string boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id", 64);
  if (!text) return {};
  text->resize(std::min(text->find('\n'), text->size()));
  return std::move(*text);
}

std::string path_of(const std::string& folder) { return folder + "/" + std::string(index_name); }

bool bears_stamp(const std::string& folder, const timespec& stamp) {
  struct stat status{};
  return ::stat(folder.c_str(), &status) == 0 && status.st_mtim.tv_sec == stamp.tv_sec &&
         status.st_mtim.tv_nsec == stamp.tv_nsec;
}

void set_stamp(const std::string& folder, const timespec& stamp) {
  const std::array<timespec, 2> times{{{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, stamp}};
  (void)::utimensat(AT_FDCWD, folder.c_str(), times.data(), 0);
}

bool is_of_this_boot(const Header& header) {
  const std::string boot = boot_id();
  return header.magic == magic && header.boot.back() == '\0' && !boot.empty() && boot == header.boot.data();
}

// One that holds and is whole. Nothing is in the way of reading it between two looks at the folder.
std::optional<Header> read_header(const Fd& file, const std::string& folder) {
  Header header{};
  if (::pread(file.get(), &header, sizeof(header), 0) != sizeof(header)) return std::nullopt;
  if (header.count > most || !bears_stamp(folder, stamp_of(header)) || !is_of_this_boot(header)) return std::nullopt;
  return header;
}

}  // namespace

std::string index_text(const Index& index) {
  Header header{.magic = magic,
                .boot = {},
                .seconds = index.stamp.tv_sec,
                .nanoseconds = index.stamp.tv_nsec,
                .count = index.reservations.size()};
  index.boot.copy(header.boot.data(), header.boot.size() - 1);
  std::string text(file_size(header.count), '\0');
  std::memcpy(text.data(), &header, sizeof(header));
  if (header.count > 0) {
    std::memcpy(text.data() + sizeof(header), index.reservations.data(), header.count * sizeof(Reservation));
  }
  return text;
}

std::optional<Index> parse_index(std::string_view text) {
  Header header{};
  if (text.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, text.data(), sizeof(header));
  if (header.magic != magic || header.boot.back() != '\0') return std::nullopt;
  if (header.count > most || text.size() != file_size(header.count)) return std::nullopt;
  Index index{.boot = header.boot.data(), .stamp = stamp_of(header), .reservations = {}};
  index.reservations.resize(header.count);
  if (header.count > 0) {
    std::memcpy(index.reservations.data(), text.data() + sizeof(header), header.count * sizeof(Reservation));
  }
  const auto has_family = [](const Reservation& one) { return one.address.is_v4() || one.address.is_v6(); };
  if (!std::ranges::all_of(index.reservations, has_family)) return std::nullopt;
  if (!std::ranges::is_sorted(index.reservations, is_before)) return std::nullopt;
  return index;
}

std::optional<std::vector<Reservation>> read_index(const std::string& folder) {
  const auto file = open_file(path_of(folder), O_RDONLY);
  if (!file) return std::nullopt;
  const auto header = read_header(*file, folder);
  if (!header) return std::nullopt;
  std::string text(file_size(header->count), '\0');
  if (::pread(file->get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return std::nullopt;
  // Still the same, or somebody has been writing meanwhile.
  if (!bears_stamp(folder, stamp_of(*header))) return std::nullopt;
  auto index = parse_index(text);
  return index ? std::optional(std::move(index->reservations)) : std::nullopt;
}

// ---- Ledger ----------------------------------------------------------------------------------

namespace {

Header& header_of(void* map) { return *static_cast<Header*>(map); }

Reservation* reservations_of(void* map) {
  return reinterpret_cast<Reservation*>(static_cast<char*>(map) + sizeof(Header));
}

}  // namespace

std::optional<Ledger> Ledger::open(const std::string& folder) {
  auto file = open_file(path_of(folder), O_RDWR);
  if (!file) return std::nullopt;
  const auto header = read_header(*file, folder);
  struct stat status{};
  if (!header || ::fstat(file->get(), &status) != 0) return std::nullopt;
  if (static_cast<std::size_t>(status.st_size) != file_size(header->count)) return std::nullopt;
  const std::size_t size = file_size(header->count + room);
  void* map = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0);
  if (map == MAP_FAILED) return std::nullopt;
  return Ledger(folder, std::move(*file), map, size);
}

Ledger::Ledger(Ledger&& other) noexcept
    : folder_(std::move(other.folder_)),
      file_(std::move(other.file_)),
      map_(std::exchange(other.map_, nullptr)),
      map_size_(other.map_size_),
      copy_(std::move(other.copy_)) {}

Ledger::~Ledger() {
  if (map_ != nullptr) ::munmap(map_, map_size_);
}

std::span<const Reservation> Ledger::all() const {
  if (map_ == nullptr) return copy_;
  return {reservations_of(map_), header_of(map_).count};
}

void Ledger::leave_the_map() {
  const auto now = all();
  copy_.assign(now.begin(), now.end());
  ::munmap(map_, map_size_);
  map_ = nullptr;
}

void Ledger::insert(const Reservation& reservation) {
  const auto now = all();
  const auto place = std::ranges::upper_bound(now, reservation, is_before) - now.begin();
  if (map_ != nullptr) {
    const std::size_t size = file_size(now.size() + 1);
    // With its place on the disk: writing to a map for which there is none ends the process.
    if (size > map_size_ || ::posix_fallocate(file_.get(), 0, static_cast<off_t>(size)) != 0) leave_the_map();
  }
  if (map_ == nullptr) {
    copy_.insert(copy_.begin() + place, reservation);
    return;
  }
  Reservation* const first = reservations_of(map_);
  std::move_backward(first + place, first + now.size(), first + now.size() + 1);
  first[place] = reservation;
  ++header_of(map_).count;
}

void Ledger::erase(const Reservation& reservation) {
  const auto now = all();
  const auto place = std::ranges::find(now, reservation) - now.begin();
  if (place == std::ssize(now)) return;
  if (map_ == nullptr) {
    copy_.erase(copy_.begin() + place);
    return;
  }
  Reservation* const first = reservations_of(map_);
  std::move(first + place + 1, first + now.size(), first + place);
  --header_of(map_).count;
}

void Ledger::settle() {
  timespec stamp{};
  if (::clock_gettime(CLOCK_REALTIME, &stamp) != 0) return;
  if (map_ != nullptr) {
    Header& header = header_of(map_);
    if (::ftruncate(file_.get(), static_cast<off_t>(file_size(header.count))) != 0) return;
    header.seconds = stamp.tv_sec;
    header.nanoseconds = stamp.tv_nsec;
    set_stamp(folder_, stamp);
    return;
  }
  const Index index{.boot = boot_id(), .stamp = stamp, .reservations = copy_};
  const std::string text = index_text(index);
  const auto file = open_file(path_of(folder_), O_WRONLY | O_CREAT, 0600);
  if (index.boot.empty() || !file || !write_all(file->get(), text)) return;
  if (::ftruncate(file->get(), static_cast<off_t>(text.size())) == 0) set_stamp(folder_, stamp);
}

}  // namespace poduplink::ipam
