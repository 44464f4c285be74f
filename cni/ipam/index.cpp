// SPDX-License-Identifier: Apache-2.0
#include "cni/ipam/index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "loader/base/file.h"

namespace poduplink::ipam {
namespace {

constexpr std::array<char, 8> magic{'p', 'd', 'l', 'i', 'd', 'x', '1', '\n'};
constexpr std::uint64_t most = std::uint64_t{1} << 20U;  // reservations

// As they lie in the file, in the machine's own byte order: it never leaves the machine.
struct Header {
  std::array<char, 8> magic;
  std::array<char, 40> boot;
  std::int64_t seconds;
  std::int64_t nanoseconds;
  std::uint64_t count;
};
struct Entry {
  std::array<std::uint8_t, 16> address;
  std::uint64_t owner;
  std::uint64_t address_size;
};
static_assert(sizeof(Header) == 72 && sizeof(Entry) == 32);

template <typename T>
void append(std::string& text, const T& part) {
  text.append(reinterpret_cast<const char*>(&part), sizeof(part));
}

// Takes it from the front of a text that is long enough.
template <typename T>
T take(std::string_view& text) {
  T part;
  std::memcpy(&part, text.data(), sizeof(part));
  text.remove_prefix(sizeof(part));
  return part;
}

std::optional<Reservation> reservation_of(const Entry& entry) {
  const std::span<const std::uint8_t, 16> octets(entry.address);
  if (entry.address_size == 16) return Reservation{IpAddress::v6(octets), entry.owner};
  if (entry.address_size == 4) return Reservation{IpAddress::v4(octets.first<4>()), entry.owner};
  return std::nullopt;
}

std::string boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id", 64);
  if (!text) return {};
  text->resize(std::min(text->find('\n'), text->size()));
  return std::move(*text);
}

std::string path_of(const std::string& folder) { return folder + "/" + std::string(index_name); }

bool is_stamp(const std::string& folder, const timespec& stamp) {
  struct stat status{};
  return ::stat(folder.c_str(), &status) == 0 && status.st_mtim.tv_sec == stamp.tv_sec &&
         status.st_mtim.tv_nsec == stamp.tv_nsec;
}

}  // namespace

std::string index_text(const Index& index) {
  Header header{.magic = magic,
                .boot = {},
                .seconds = index.stamp.tv_sec,
                .nanoseconds = index.stamp.tv_nsec,
                .count = index.reservations.size()};
  index.boot.copy(header.boot.data(), header.boot.size() - 1);
  std::string text;
  text.reserve(sizeof(Header) + index.reservations.size() * sizeof(Entry));
  append(text, header);
  for (const Reservation& reservation : index.reservations) {
    const auto octets = reservation.address.octets();
    Entry entry{.address = {}, .owner = reservation.owner, .address_size = octets.size()};
    std::ranges::copy(octets, entry.address.begin());
    append(text, entry);
  }
  return text;
}

std::optional<Index> parse_index(std::string_view text) {
  if (text.size() < sizeof(Header)) return std::nullopt;
  const auto header = take<Header>(text);
  if (header.magic != magic || header.boot.back() != '\0') return std::nullopt;
  if (text.size() % sizeof(Entry) != 0 || text.size() / sizeof(Entry) != header.count) return std::nullopt;
  Index index{.boot = header.boot.data(),
              .stamp = {.tv_sec = header.seconds, .tv_nsec = header.nanoseconds},
              .reservations = {}};
  index.reservations.reserve(header.count);
  while (!text.empty()) {
    const auto reservation = reservation_of(take<Entry>(text));
    if (!reservation) return std::nullopt;
    index.reservations.push_back(*reservation);
  }
  if (!std::ranges::is_sorted(index.reservations, {}, &Reservation::address)) return std::nullopt;
  return index;
}

std::optional<std::vector<Reservation>> read_index(const std::string& folder) {
  const auto fd = open_file(path_of(folder), O_RDONLY);
  if (!fd) return std::nullopt;
  Header header{};
  if (::pread(fd->get(), &header, sizeof(header), 0) != sizeof(header)) return std::nullopt;
  const timespec stamp{.tv_sec = header.seconds, .tv_nsec = header.nanoseconds};
  // Before it is read, so that it was whole then, and after, so that it still is.
  if (!is_stamp(folder, stamp)) return std::nullopt;
  if (header.count > most) return std::nullopt;
  std::string text(sizeof(Header) + header.count * sizeof(Entry), '\0');
  const ssize_t got = ::pread(fd->get(), text.data(), text.size(), 0);
  if (got != static_cast<ssize_t>(text.size()) || !is_stamp(folder, stamp)) return std::nullopt;
  auto index = parse_index(text);
  if (!index || index->boot.empty() || index->boot != boot_id()) return std::nullopt;
  return std::move(index->reservations);
}

void write_index(const std::string& folder, const std::vector<Reservation>& reservations) {
  Index index{.boot = boot_id(), .stamp = {}, .reservations = reservations};
  if (index.boot.empty() || ::clock_gettime(CLOCK_REALTIME, &index.stamp) != 0) return;
  const auto fd = open_file(path_of(folder), O_WRONLY | O_CREAT, 0600);
  const std::string text = index_text(index);
  if (!fd || !write_all(fd->get(), text) || ::ftruncate(fd->get(), static_cast<off_t>(text.size())) != 0) return;
  const std::array<timespec, 2> times{{{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, index.stamp}};
  (void)::utimensat(AT_FDCWD, folder.c_str(), times.data(), 0);
}

}  // namespace poduplink::ipam
