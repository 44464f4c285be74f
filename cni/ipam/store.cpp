// SPDX-License-Identifier: Apache-2.0
#include "cni/ipam/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cni/spec/json.h"
#include "loader/base/file.h"
#include "loader/base/format.h"
#include "loader/base/log.h"

namespace poduplink::ipam {
namespace {

constexpr std::string_view draft_prefix = ".draft-";
constexpr std::string_view hint_prefix = ".last-";
constexpr std::size_t hash_digits = 16;
constexpr std::time_t draft_lifetime = 600;  // seconds, far longer than any ADD may take

std::optional<std::uint64_t> parse_hash(std::string_view text) {
  std::uint64_t hash = 0;
  if (text.size() != hash_digits) return std::nullopt;
  const auto parsed = std::from_chars(text.begin(), text.end(), hash, 16);
  // Printed again: capital letters and the like are no name of ours.
  if (parsed.ec != std::errc() || hash_text(hash) != text) return std::nullopt;
  return hash;
}

}  // namespace

std::string reservation_name(const Reservation& reservation) {
  return reservation.address.text() + "@" + hash_text(reservation.owner);
}

std::optional<Reservation> parse_reservation_name(const std::string& name) {
  const std::size_t at = name.find('@');
  if (at == std::string::npos) return std::nullopt;
  const auto address = IpAddress::parse(std::string_view(name).substr(0, at));
  const auto owner = parse_hash(std::string_view(name).substr(at + 1));
  if (!address || !owner) return std::nullopt;
  const Reservation reservation{*address, *owner};
  // Written again: an address in another form ("FD00::05") is no name of ours, and could not be released by its name.
  if (reservation_name(reservation) != name) return std::nullopt;
  return reservation;
}

std::string owner_text(const AttachmentId& id) {
  nlohmann::json owner = nlohmann::json::object();
  owner["network"] = id.network;
  owner["containerID"] = id.container_id;
  owner["ifname"] = id.if_name;
  return print_json(owner);
}

std::optional<AttachmentId> parse_owner_text(const std::string& text) {
  const auto document = parse_json(text);
  if (!document || !document->is_object()) return std::nullopt;
  const Section root = document->root();
  const auto network = root.text("network");
  const auto container_id = root.text("containerID");
  const auto if_name = root.text("ifname");
  if (!network || !*network || !container_id || !*container_id || !if_name || !*if_name) return std::nullopt;
  return AttachmentId{**network, **container_id, **if_name};
}

Store::Draft::~Draft() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

std::string Store::path_of(const Reservation& reservation) const {
  return folder_ + "/" + reservation_name(reservation);
}

bool Store::exists() const { return ::access(folder_.c_str(), F_OK) == 0; }

Result<> Store::create() const { return make_directories(drafts_folder()); }

Result<Fd> Store::lock() const {
  const std::string path = folder_ + "/lock";
  PDL_TRY_ASSIGN(Fd fd, open_file(path, O_RDWR | O_CREAT, 0600));
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return fail_errno(errno, "lock {}", path);
  }
  return fd;
}

Result<std::vector<Reservation>> Store::list() const {
  if (auto known = read_index(folder_)) return std::move(*known);
  std::vector<Reservation> reservations;
  const auto names = list_directory(folder_);
  if (!names) {
    if (names.error().code == ENOENT) return reservations;
    return Failure(names.error());
  }
  for (const std::string& name : *names) {
    if (const auto reservation = parse_reservation_name(name)) reservations.push_back(*reservation);
  }
  std::ranges::sort(reservations, {}, &Reservation::address);
  return reservations;
}

Result<Ledger> Store::ledger() const {
  if (auto known = Ledger::open(folder_)) return std::move(*known);
  PDL_TRY_ASSIGN(auto reservations, list());
  return Ledger(folder_, std::move(reservations));
}

std::optional<AttachmentId> Store::owner_of(const Reservation& reservation) const {
  const auto text = read_file(path_of(reservation), std::size_t{64} << 10U);
  if (!text) return std::nullopt;
  auto owner = parse_owner_text(*text);
  if (owner && attachment_hash(*owner) != reservation.owner) return std::nullopt;
  return owner;
}

std::optional<timespec> Store::reserved_at(const Reservation& reservation) const {
  struct stat status{};
  if (::stat(path_of(reservation).c_str(), &status) != 0) return std::nullopt;
  return status.st_ctim;  // link(2) sets it; the content is older
}

Result<Store::Draft> Store::draft(const AttachmentId& id) const {
  const std::uint64_t owner = attachment_hash(id);
  std::string path = drafts_folder() + "/" + std::string(draft_prefix) + hash_text(owner) + "-XXXXXX";
  const Fd fd(::mkostemp(path.data(), O_CLOEXEC));
  if (!fd) return fail_errno(errno, "{}", path);
  Draft draft(path, owner);
  PDL_TRY(write_all(fd.get(), owner_text(id)));
  if (::fsync(fd.get()) != 0) return fail_errno(errno, "fsync {}", path);
  return draft;
}

Result<> Store::reserve(const Draft& draft, const std::vector<IpAddress>& addresses) const {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::string path = path_of({addresses[i], draft.owner_});
    if (::link(draft.path_.c_str(), path.c_str()) == 0) continue;
    const int code = errno;
    for (std::size_t j = 0; j < i; ++j) {
      if (const auto undone = release({addresses[j], draft.owner_}); !undone) log_error("{}", undone.error().message);
    }
    return fail_errno(code, "{}", path);
  }
  return {};
}

Result<> Store::release(const Reservation& reservation) const { return remove_file(path_of(reservation)); }

void Store::drop_drafts(std::optional<std::uint64_t> owner) const {
  const std::string owned = std::string(draft_prefix) + (owner ? hash_text(*owner) : "") + "-";
  const auto drop_in = [&](const std::string& folder) {
    const auto names = list_directory(folder);
    if (!names) return;
    for (const std::string& name : *names) {
      if (!name.starts_with(draft_prefix)) continue;
      const std::string path = formatted("{}/{}", folder, name);
      struct stat status{};
      const bool old = ::stat(path.c_str(), &status) == 0 && status.st_mtime + draft_lifetime < ::time(nullptr);
      if (old || (owner && name.starts_with(owned))) ::unlink(path.c_str());
    }
  };
  drop_in(drafts_folder());
  // Where versions up to 0.1 had them, beside thousands of reservations.
  if (!owner) drop_in(folder_);
}

std::optional<IpAddress> Store::last_handed_out(const std::string& run) const {
  const auto text = read_file(folder_ + "/" + std::string(hint_prefix) + run, 256);
  if (!text) return std::nullopt;
  const auto address = IpAddress::parse(std::string_view(*text).substr(0, text->find(' ')));
  if (!address) return std::nullopt;
  return *address;
}

void Store::set_last_handed_out(const std::string& run, const IpAddress& address) const {
  const std::string path = folder_ + "/" + std::string(hint_prefix) + run;
  const auto fd = open_file(path, O_WRONLY | O_CREAT, 0600);
  if (!fd) {
    log_warning("{}", fd.error().message);
    return;
  }
  // One write of a fixed length over the old text: there is never a moment without a whole address, and no
  // sync, because a lost hint harms nothing.
  std::string text = address.text();
  text.resize(47, ' ');
  text += '\n';
  if (const auto written = write_all(fd->get(), text); !written) log_warning("{}: {}", path, written.error().message);
}

}  // namespace poduplink::ipam
