// SPDX-License-Identifier: Apache-2.0
#include "loader/layout.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace poduplink {
namespace {

constexpr unsigned octet_bits = 8;

// Typedefs, const and the like lead to what they name.
const btf_type* real_type(const btf* types, std::uint32_t id) {
  const btf_type* type = btf__type_by_id(types, id);
  while (type != nullptr && (btf_is_mod(type) || btf_is_typedef(type))) type = btf__type_by_id(types, type->type);
  return type;
}

struct Place {
  const btf* types = nullptr;
  const btf_type* type = nullptr;
  std::uint32_t id = 0;
};

Place place_of(const btf* types, std::uint32_t id) { return {types, real_type(types, id), id}; }

std::size_t size_of(const Place& place) {
  const auto size = btf__resolve_size(place.types, place.id);
  return size < 0 ? 0 : static_cast<std::size_t>(size);
}

bool is_number(const btf_type* type) { return btf_is_int(type) || btf_is_any_enum(type); }

const btf_member* find_member(const Place& place, std::string_view name) {
  const btf_member* members = btf_members(place.type);
  for (unsigned i = 0; i < btf_vlen(place.type); ++i) {
    if (name == btf__name_by_offset(place.types, members[i].name_off)) return &members[i];
  }
  return nullptr;
}

Result<> convert_place(const Place& from, std::span<const std::uint8_t> source, const Place& to,
                       std::span<std::uint8_t> target, const std::string& name);

// Numbers are in host byte order; the first octets are the low ones.
Result<> convert_number(std::span<const std::uint8_t> source, std::span<std::uint8_t> target, const std::string& name) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  const std::size_t both = std::min(source.size(), target.size());
  if (std::ranges::any_of(source.subspan(both), [](std::uint8_t octet) { return octet != 0; }))
    return fail_errno(ERANGE, "{} is too large for the new layout", name);
  std::ranges::fill(target, std::uint8_t{0});
  std::ranges::copy(source.first(both), target.begin());
  return {};
}

Result<> convert_array(const Place& from, std::span<const std::uint8_t> source, const Place& to,
                       std::span<std::uint8_t> target, const std::string& name) {
  const struct btf_array* old_array = btf_array(from.type);
  const struct btf_array* new_array = btf_array(to.type);
  const Place old_element = place_of(from.types, old_array->type);
  const Place new_element = place_of(to.types, new_array->type);
  const std::size_t old_size = size_of(old_element);
  const std::size_t new_size = size_of(new_element);
  for (std::size_t i = 0; i < std::min(old_array->nelems, new_array->nelems); ++i)
    PDL_TRY(convert_place(old_element, source.subspan(i * old_size, old_size), new_element,
                          target.subspan(i * new_size, new_size), name));
  return {};
}

Result<> convert_struct(const Place& from, std::span<const std::uint8_t> source, const Place& to,
                        std::span<std::uint8_t> target) {
  const btf_member* members = btf_members(to.type);
  for (unsigned i = 0; i < btf_vlen(to.type); ++i) {
    const std::string name = btf__name_by_offset(to.types, members[i].name_off);
    const btf_member* old = find_member(from, name);
    if (old == nullptr || name.starts_with("pad")) continue;
    const Place old_place = place_of(from.types, old->type);
    const Place new_place = place_of(to.types, members[i].type);
    PDL_TRY(convert_place(old_place, source.subspan(old->offset / octet_bits, size_of(old_place)), new_place,
                          target.subspan(members[i].offset / octet_bits, size_of(new_place)), name));
  }
  return {};
}

Result<> convert_place(const Place& from, std::span<const std::uint8_t> source, const Place& to,
                       std::span<std::uint8_t> target, const std::string& name) {
  if (from.type == nullptr || to.type == nullptr) return fail_errno(EINVAL, "{} has no type", name);
  if (is_number(from.type) && is_number(to.type)) return convert_number(source, target, name);
  if (btf_is_array(from.type) && btf_is_array(to.type)) return convert_array(from, source, to, target, name);
  if (btf_is_struct(from.type) && btf_is_struct(to.type)) return convert_struct(from, source, to, target);
  return fail_errno(EINVAL, "{} has become another kind of value", name);
}

// Every member of `part` is in `whole` as well.
bool has_members_of(const Place& whole, const Place& part) {
  if (!btf_is_struct(part.type) || !btf_is_struct(whole.type)) return is_number(part.type) && is_number(whole.type);
  const btf_member* members = btf_members(part.type);
  for (unsigned i = 0; i < btf_vlen(part.type); ++i) {
    if (find_member(whole, btf__name_by_offset(part.types, members[i].name_off)) == nullptr) return false;
  }
  return true;
}

}  // namespace

Result<MapLayout> map_layout(int map_fd) {
  bpf_map_info info{};
  __u32 size = sizeof(info);
  if (const int code = bpf_obj_get_info_by_fd(map_fd, &info, &size); code != 0)
    return fail_errno(-code, "information on a map");
  if (info.btf_id == 0) return fail_errno(EINVAL, "has no type information");
  const std::shared_ptr<const btf> types(btf__load_from_kernel_by_id(info.btf_id),
                                         [](const btf* one) { btf__free(const_cast<btf*>(one)); });  // NOLINT
  if (!types) return fail_errno(errno, "type information {}", info.btf_id);
  return MapLayout{.key = {types, info.btf_key_type_id}, .value = {types, info.btf_value_type_id}};
}

Result<> convert(const Layout& from, std::span<const std::uint8_t> source, const Layout& to,
                 std::span<std::uint8_t> target) {
  return convert_place(place_of(from.types.get(), from.type), source, place_of(to.types.get(), to.type), target,
                       "the value");
}

bool same_members(const Layout& from, const Layout& to) {
  const Place before = place_of(from.types.get(), from.type);
  const Place after = place_of(to.types.get(), to.type);
  return before.type != nullptr && after.type != nullptr && has_members_of(before, after) &&
         has_members_of(after, before);
}

}  // namespace poduplink
