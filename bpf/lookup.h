/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the maps say of an address or an interface. */
#ifndef PODUPLINK_BPF_LOOKUP_H
#define PODUPLINK_BPF_LOOKUP_H

#include "maps.bpf.h"
#include "packet.h"

static __always_inline struct pdl_pod *find_pod(__u8 family, const union address *a)
{
	return family == 4 ? bpf_map_lookup_elem(&pods4, a) : bpf_map_lookup_elem(&pods6, a);
}

static __always_inline struct pdl_node *find_node(__u8 family, const union address *a)
{
	return family == 4 ? bpf_map_lookup_elem(&nodes4, a) : bpf_map_lookup_elem(&nodes6, a);
}

static __always_inline bool is_exempt(__u8 family, const union address *a)
{
	struct pdl_prefix4 key4 = {.prefix_len = 32};
	struct pdl_prefix6 key6 = {.prefix_len = 128};

	if (family == 4) {
		__builtin_memcpy(key4.addr, a, sizeof(key4.addr));
		return bpf_map_lookup_elem(&exempt4, &key4);
	}
	__builtin_memcpy(key6.addr, a, sizeof(key6.addr));
	return bpf_map_lookup_elem(&exempt6, &key6);
}

static __always_inline struct pdl_uplink *find_uplink(__u32 ifindex)
{
	return bpf_map_lookup_elem(&uplinks, &ifindex);
}

/* A pod's home; NULL where it is missing. A transit device is nobody's home. */
static __always_inline struct pdl_uplink *find_home(const struct pdl_pod *pod)
{
	struct pdl_uplink *home = pod->home ? find_uplink(pod->home) : NULL;

	return home && home->role == PDL_ROLE_HOME ? home : NULL;
}

#endif
