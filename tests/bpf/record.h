/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Included before everything else in the second build of the programs (datapath_recorded): the redirect
 * helpers write their arguments into a map, since a test run shows neither interface nor next hop.
 */
#ifndef PODUPLINK_TESTS_BPF_RECORD_H
#define PODUPLINK_TESTS_BPF_RECORD_H

#include <linux/types.h>

enum pdl_recorded_kind {
  RECORDED_NONE,
  RECORDED_NEIGH,
  RECORDED_PEER,
  RECORDED_PLAIN,
};

struct recorded {
  __u32 kind; /* enum pdl_recorded_kind */
  __u32 ifindex;
  __u64 flags;
  __u32 nh_size;
  __u32 nh_family;
  __u8 nh[16];
};

#ifndef __cplusplus
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, __u32);
  __type(value, struct recorded);
} recorded_map __weak SEC(".maps");

static __always_inline int record(__u32 kind, __u32 ifindex, __u64 flags, const struct bpf_redir_neigh* nh,
                                  __u32 nh_size) {
  struct recorded value = {.kind = kind, .ifindex = ifindex, .flags = flags, .nh_size = nh_size};
  __u32 key = 0;

  if (nh) {
    value.nh_family = nh->nh_family;
    __builtin_memcpy(value.nh, nh->ipv6_nh, sizeof(value.nh));
  }
  bpf_map_update_elem(&recorded_map, &key, &value, BPF_ANY);
  return 7; /* TC_ACT_REDIRECT */
}

#define bpf_redirect_neigh(ifindex, nh, size, flags) record(RECORDED_NEIGH, ifindex, flags, nh, size)
#define bpf_redirect_peer(ifindex, flags) record(RECORDED_PEER, ifindex, flags, NULL, 0)
#define bpf_redirect(ifindex, flags) record(RECORDED_PLAIN, ifindex, flags, NULL, 0)
#endif

#endif
