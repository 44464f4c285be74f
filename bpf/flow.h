/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* way(): may this packet take the direct way, or must it go through the host's stack? One function for both
 * directions, because a flow of which the stack sees one half only is a flow that it breaks. */
#ifndef PODUPLINK_BPF_FLOW_H
#define PODUPLINK_BPF_FLOW_H

#include "fastflow.h"
#include "icmp.h"
#include "lookup.h"

/* A link-local prefix that the pod's home claims ("linkLocal") is an ordinary destination. */
static __always_inline bool is_claimed(const struct pdl_pod *pod, const union address *peer)
{
	struct pdl_uplink *home = find_home(pod);

	if (!home)
		return false;
	for (int i = 0; i < PDL_MAX_LINK_LOCAL && i < home->link_local_count; i++) {
		union address prefix = {};

		__builtin_memcpy(&prefix, home->link_local[i].addr, sizeof(home->link_local[i].addr));
		if (same_prefix(&prefix, peer, home->link_local[i].prefix_len))
			return true;
	}
	return false;
}

/* The rules on kinds of addresses, without the node's own. No pod: no claimed prefix and no subnet. */
static __always_inline enum pdl_way way_of_class(__u8 family, const struct pdl_pod *pod,
						 const union address *self, const union address *peer)
{
	if (family == 4 ? is_link_local4(peer) && !(pod && is_claimed(pod, peer)) : is_link_local6(peer))
		return PDL_WAY_LINK_LOCAL;
	if (is_multicast(family, peer))
		return PDL_WAY_MULTICAST;
	if (is_limited_broadcast(family, peer) ||
	    (pod && is_subnet_broadcast(family, peer, self, pod->prefix_len)))
		return PDL_WAY_BROADCAST;
	return PDL_WAY_FAST;
}

/* The rules on addresses. Loopback and the unspecified address are the node's own wherever they turn up. */
static __always_inline enum pdl_way way_of_address(__u8 family, const struct pdl_pod *pod,
						   const union address *self, const union address *peer)
{
	if (is_zero(peer) || is_loopback(family, peer) || find_node(family, peer))
		return PDL_WAY_NODE;
	return way_of_class(family, pod, self, peer);
}

/*
 * The rules on the packet itself; for an ICMP error also on what it quotes. An enum pdl_way. In flow.bpf.c:
 * the verifier looks at a global function once and not again for every path that leads to it.
 */
int way_of_packet(struct __sk_buff *skb, struct packet *p);

/* All rules but those on the packet; the order is that of enum pdl_way. */
static __always_inline enum pdl_way way_of_peer(const struct packet *p, const struct pdl_pod *pod,
						const union address *self, const union address *peer,
						bool known_foreign)
{
	enum pdl_way why = known_foreign ? way_of_class(p->family, pod, self, peer)
					 : way_of_address(p->family, pod, self, peer);

	if (why != PDL_WAY_FAST)
		return why;
	if (is_exempt(p->family, peer))
		return PDL_WAY_EXEMPT;
	return pod->mode == PDL_MODE_FAST ? PDL_WAY_FAST : PDL_WAY_NETFILTER;
}

/* The rules in full. Of an ICMP error the peer is the quoted one's. */
static __always_inline enum pdl_way judge(struct __sk_buff *skb, struct packet *p, const struct pdl_pod *pod,
					  const union address *self, const union address *peer,
					  bool known_foreign)
{
	enum pdl_way why = way_of_peer(p, pod, self, peer, known_foreign);

	return why == PDL_WAY_FAST ? way_of_packet(skb, p) : why;
}

/*
 * Whether the rules were asked for another packet of the flow less than a second ago and said fast. What the
 * pod's own entry says is looked at for every packet. If not, `flow` (zero before) names it for
 * remember_flow().
 */
static __always_inline bool is_settled(struct __sk_buff *skb, struct packet *p, const struct pdl_pod *pod,
				       bool from_pod, struct pdl_flow *flow)
{
	const union address *self = from_pod ? &p->ip.src : &p->ip.dst;
	const union address *peer = from_pod ? &p->ip.dst : &p->ip.src;

	if (p->error || pod->mode != PDL_MODE_FAST || !has_flow(p))
		return false;
	name_flow(flow, p, from_pod);
	if (was_judged_fast(skb, p, flow) && way_of_class(p->family, pod, self, peer) == PDL_WAY_FAST)
		return true;
	p->outside = 0;
	return false;
}

/*
 * A packet from the pod. An ICMP error belongs to the flow that it quotes: a packet that the pod received, so
 * the quote's destination must be the pod. Where the error itself goes to is looked at as well, though only
 * for its kind: no such address may be redirected to.
 *
 * PDL_WAY_NETFILTER says that no rule before it applies; those on the packet were not asked.
 */
static __always_inline enum pdl_way way_out(struct __sk_buff *skb, struct packet *p,
					    const struct pdl_pod *pod)
{
	struct pdl_flow flow = {};
	enum pdl_way why;

	if (p->error) {
		if (!same_address(&p->quoted.dst, &p->ip.src))
			return PDL_WAY_MALFORMED;
		why = way_of_address(p->family, pod, &p->ip.src, &p->ip.dst);
		return why == PDL_WAY_FAST ? judge(skb, p, pod, &p->ip.src, &p->quoted.src, false) : why;
	}
	if (is_settled(skb, p, pod, true, &flow))
		return PDL_WAY_FAST;
	why = judge(skb, p, pod, &p->ip.src, &p->ip.dst, false);
	remember_flow(p, &flow, why == PDL_WAY_FAST, !find_pod(p->family, &p->ip.dst));
	return why;
}

/* A packet for the pod, whose source is known to be neither the node nor a pod of it, and whose flow is not
 * settled. An ICMP error quotes what the pod sent. */
static __always_inline enum pdl_way way_in(struct __sk_buff *skb, struct packet *p, const struct pdl_pod *pod,
					   const struct pdl_flow *flow)
{
	enum pdl_way why;

	if (p->error) {
		if (!same_address(&p->quoted.src, &p->ip.dst))
			return PDL_WAY_MALFORMED;
		return judge(skb, p, pod, &p->ip.dst, &p->quoted.dst, false);
	}
	why = judge(skb, p, pod, &p->ip.dst, &p->ip.src, true);
	remember_flow(p, flow, why == PDL_WAY_FAST, true);
	return why;
}

#endif
