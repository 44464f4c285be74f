/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What way() found out about a flow a moment ago: it spares the later packets of a TCP or UDP flow the
 * look-up of exempt prefixes and the two questions to connection tracking, which are most of a packet's cost.
 */
#ifndef PODUPLINK_BPF_FASTFLOW_H
#define PODUPLINK_BPF_FASTFLOW_H

#include "lookup.h"
#include "packet.h"

#define TCP_FLAGS    13 /* octets into the header */
#define TCP_FLAG_SYN 0x02

/* Names the packet's flow by the generation that is in force. To be called before the flow is judged: what is
 * judged while the agent changes the configuration must not pass for a judgement on the new one. Both
 * directions of a flow have one name, since way() says the same of both. */
static __always_inline void name_flow(struct pdl_flow *flow, const struct packet *p, bool from_pod)
{
	const struct headers *h = &p->ip;
	struct pdl_generation *now;
	__u32 key = 0;

	now = bpf_map_lookup_elem(&generation, &key);
	flow->generation = now ? now->number : 0;
	__builtin_memcpy(flow->pod, from_pod ? &h->src : &h->dst, sizeof(flow->pod));
	__builtin_memcpy(flow->peer, from_pod ? &h->dst : &h->src, sizeof(flow->peer));
	flow->pod_port = bpf_ntohs(from_pod ? h->sport : h->dport);
	flow->peer_port = bpf_ntohs(from_pod ? h->dport : h->sport);
	flow->protocol = h->protocol;
	flow->family = p->family;
}

/* Whether the flow is one of those that are remembered at all: others are not asked of connection tracking.
 */
static __always_inline bool has_flow(const struct packet *p)
{
	const struct headers *h = &p->ip;

	return (h->protocol == IPPROTO_TCP || h->protocol == IPPROTO_UDP) && h->flags & HDR_TRANSPORT &&
	       !(h->flags & (HDR_FRAGMENT | HDR_OPTIONS));
}

/* Such a packet is judged anew, whatever went by the same ends before, and so is one without flags. */
static __always_inline bool begins_connection(struct __sk_buff *skb, const struct packet *p)
{
	__u8 flags;

	if (p->ip.protocol != IPPROTO_TCP)
		return false;
	return p->ip.transport + TCP_FLAGS >= p->end ||
	       read_behind(skb, p->ip.transport, TCP_FLAGS, &flags) || flags & TCP_FLAG_SYN;
}

/* Then p->outside is what was found out about the peer. */
static __always_inline bool was_judged_fast(struct __sk_buff *skb, struct packet *p,
					    const struct pdl_flow *flow)
{
	struct pdl_judged *judged;

	p->begins = begins_connection(skb, p);
	if (p->begins)
		return false;
	judged = bpf_map_lookup_elem(&fastflows, flow);
	if (!judged || bpf_ktime_get_coarse_ns() - judged->time_ns >= PDL_JUDGED_NS)
		return false;
	p->outside = judged->outside;
	return true;
}

/* To be called with what was just found out; of a packet without a flow's name nothing is remembered. That a
 * flow could not be remembered is no loss. What is no longer fast is old by now, unless it was asked about
 * because a connection begins. */
static __always_inline void remember_flow(const struct packet *p, const struct pdl_flow *flow, bool is_fast,
					  bool outside)
{
	struct pdl_judged judged = {};

	if (!flow->family)
		return;
	if (!is_fast) {
		if (p->begins)
			bpf_map_delete_elem(&fastflows, flow);
		return;
	}
	judged.time_ns = bpf_ktime_get_coarse_ns();
	judged.outside = outside;
	bpf_map_update_elem(&fastflows, flow, &judged, BPF_ANY);
}

#endif
