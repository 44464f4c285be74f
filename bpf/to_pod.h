/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* uplink_ingress: packets that arrive on an uplink for a pod. The steps of docs/datapath.md. */
#ifndef PODUPLINK_BPF_TO_POD_H
#define PODUPLINK_BPF_TO_POD_H

#include "flow.h"
#include "neighbour.h"
#include "nexthop.h"
#include "parse.h"

/* The uplink that speaks for this address on the wire, if it is the one that was asked. */
static __always_inline struct pdl_uplink *answers_for(struct __sk_buff *skb, const struct pdl_pod *pod)
{
	struct pdl_uplink *uplink;

	if (!pod || pod->home != skb->ifindex)
		return NULL;
	uplink = find_home(pod);
	return uplink && uplink->flags & PDL_UPLINK_ANSWER_NEIGHBOURS ? uplink : NULL;
}

static __always_inline int arp_to_pod(struct __sk_buff *skb, const struct packet *p)
{
	struct pdl_uplink *uplink;
	struct arp arp;

	if (!read_arp(skb, p, &arp))
		return pass(PDL_VERDICT_in_not_ip);
	uplink = answers_for(skb, bpf_map_lookup_elem(&pods4, arp.target));
	if (!uplink)
		return pass(PDL_VERDICT_in_not_ip);
	count(PDL_VERDICT_in_neighbour);
	return answer_arp(skb, p, &arp, uplink->mac);
}

/* Negative: no solicitation that is ours to answer. */
static __always_inline int solicitation_to_pod(struct __sk_buff *skb, const struct packet *p)
{
	struct pdl_uplink *uplink;
	struct solicitation ns;
	int action;

	if (!read_solicitation(skb, p, &ns))
		return -1;
	uplink = answers_for(skb, bpf_map_lookup_elem(&pods6, &ns.target));
	if (!uplink)
		return -1;
	action = answer_solicitation(skb, p, &ns.target, uplink->mac, 0);
	if (action >= 0)
		count(PDL_VERDICT_in_neighbour);
	return action;
}

/* A source that nobody on the wire may have. A pod believes redirects of its gateway, so nobody else may
 * speak as that. (fe80::1 is many a router's real address; what it sends to a pod the stack does not
 * forward.) */
static __always_inline bool is_martian(const struct packet *p, bool settled)
{
	const union address *src = &p->ip.src, gateway = {PDL_POD_GATEWAY4};

	if (p->family == 4 && same_address(src, &gateway))
		return true;
	return is_zero(src) || is_loopback(p->family, src) || is_multicast(p->family, src) ||
	       is_limited_broadcast(p->family, src) || same_address(src, &p->ip.dst) ||
	       (!settled && find_node(p->family, src));
}

static __always_inline bool is_strict(__u32 ifindex)
{
	struct pdl_uplink *uplink = find_uplink(ifindex);

	return uplink && uplink->flags & PDL_UPLINK_STRICT;
}

static __always_inline int packet_to_pod(struct __sk_buff *skb, struct packet *p, struct pdl_pod *pod)
{
	struct pdl_uplink_stats *stats = stats_of(skb->ifindex);
	bool readable = !parse_transport(skb, p);
	bool elsewhere = pod->home != skb->ifindex;
	struct pdl_flow flow = {};
	enum pdl_way why = PDL_WAY_FAST;
	bool settled;

	if (stats) {
		stats->in_packets++;
		stats->in_bytes += skb->len;
	}
	settled = readable && is_settled(skb, p, pod, false, &flow);
	if (is_martian(p, settled))
		return drop(skb, p, PDL_VERDICT_martian);
	if (!p->outside && find_pod(p->family, &p->ip.src))
		return pass(PDL_VERDICT_in_from_pod);
	if (elsewhere && is_strict(skb->ifindex))
		return drop(skb, p, PDL_VERDICT_in_strict);
	if (!readable)
		return pass(PDL_VERDICT_in_not_ip);
	if (!settled)
		why = way_in(skb, p, pod, &flow);
	if (why == PDL_WAY_MALFORMED)
		return drop(skb, p, PDL_VERDICT_in_malformed);
	if (why != PDL_WAY_FAST)
		return pass(PDL_VERDICT_in_stack_node + why);
	if (p->ttl <= 1)
		return pass(PDL_VERDICT_in_ttl);
	if (stats)
		stats->in_redirects++;
	count(elsewhere ? PDL_VERDICT_in_other_uplink : PDL_VERDICT_in_redirected);
	return deliver(skb, p, pod);
}

static __always_inline int frame_to_pod(struct __sk_buff *skb)
{
	struct packet p = {};
	enum parsed parsed = parse_network(skb, &p);
	struct pdl_pod *pod;
	int answer;

	if (parsed == PARSED_VLAN)
		return pass(PDL_VERDICT_in_vlan);
	if (parsed == PARSED_ARP)
		return arp_to_pod(skb, &p);
	if (parsed == PARSED_IP) {
		answer = solicitation_to_pod(skb, &p);
		if (answer >= 0)
			return answer;
	}
	if (skb->pkt_type != PACKET_HOST)
		return pass(PDL_VERDICT_in_foreign_mac);
	if (parsed != PARSED_IP)
		return pass(PDL_VERDICT_in_not_ip);
	pod = find_pod(p.family, &p.ip.dst);
	return pod ? packet_to_pod(skb, &p, pod) : pass(PDL_VERDICT_in_no_pod);
}

#endif
