/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The half of way() that looks at the packet. A unit of its own: bpftool cannot link two objects that both
 * name a kernel function. */
#include "flow.h"

#include "conntrack.h"

int way_of_packet(struct __sk_buff *skb, struct packet *p)
{
	const struct headers *flow;
	__u8 flags;

	if (!p)
		return PDL_WAY_PROTOCOL;
	flow = p->error ? &p->quoted : &p->ip;
	flags = p->ip.flags | flow->flags;
	if (flags & HDR_FRAGMENT)
		return PDL_WAY_FRAGMENT;
	if (flags & HDR_OPTIONS)
		return PDL_WAY_OPTIONS;
	if (!(flow->flags & HDR_TRANSPORT) ||
	    (flow->protocol != IPPROTO_TCP && flow->protocol != IPPROTO_UDP &&
	     !is_icmp(p->family, flow->protocol)))
		return PDL_WAY_PROTOCOL;
	if (is_stack_owned(skb, p->family, flow))
		return PDL_WAY_NAT;
	return PDL_WAY_FAST;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
