/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* uplink_egress: late steering of what the stack sends out of an uplink. The steps of docs/datapath.md. */
#ifndef PODUPLINK_BPF_LATE_H
#define PODUPLINK_BPF_LATE_H

#include "config.h"
#include "flow.h"
#include "nexthop.h"
#include "parse.h"

/* Destinations that are right where the stack sends them. No pod: the packet is the node's. */
static __always_inline bool stays(const struct packet *p, const struct pdl_pod *pod)
{
	return way_of_address(p->family, pod, &p->ip.src, &p->ip.dst) != PDL_WAY_FAST ||
	       is_exempt(p->family, &p->ip.dst) || find_pod(p->family, &p->ip.dst);
}

/* The sender is told by way of the host's stack, as if a router behind the uplink had done it: only the stack
 * can translate the quote of a flow that it NATs. What lets the flow's answers in lets this in. */
static __always_inline int late_too_big(struct __sk_buff *skb, struct packet *p, __u32 ifindex,
					const struct pdl_uplink *home)
{
	struct macs macs = {.src = PDL_HOST_MAC};
	union address from = p->ip.dst;

	count(PDL_VERDICT_late_too_big);
	tell(skb, p, PDL_VERDICT_late_too_big);
	if (!(p->ip.flags & HDR_DF) || make_too_big(skb, p, &from, home->mtu))
		return TC_ACT_SHOT;
	__builtin_memcpy(macs.dst, home->mac, sizeof(macs.dst));
	bpf_skb_store_bytes(skb, 0, &macs, sizeof(macs), 0);
	return bpf_redirect(ifindex, BPF_F_INGRESS);
}

/* To where the source address belongs. home is NULL where that uplink is missing, nh where no next hop is. */
static __always_inline int steer(struct __sk_buff *skb, struct packet *p, __u32 ifindex,
				 const struct pdl_uplink *home, struct bpf_redir_neigh *nh, __u32 verdict)
{
	const __u8 nobody[ETH_ALEN] = {};
	struct bpf_tunnel_key no_tunnel = {};
	struct pdl_uplink_stats *stats;

	/* For the size of segments and for the ports of an event; where it fails there are none. */
	parse_transport(skb, p);
	if (home && home->state != PDL_STATE_UP && home->when_down == PDL_WHEN_DOWN_STACK)
		return pass(PDL_VERDICT_late_uplink_down_stack);
	if (!home || home->state != PDL_STATE_UP || !nh)
		return drop(skb, p, PDL_VERDICT_late_uplink_down);
	if (is_too_big(skb, p, home->mtu))
		return late_too_big(skb, p, ifindex, home);
	/* The helper drops frames to a group's MAC, which a neighbour on the other uplink may have. */
	if (p->eth.h_dest[0] & 1)
		bpf_skb_store_bytes(skb, 0, nobody, sizeof(nobody), 0);
	stats = stats_of(ifindex);
	if (stats)
		stats->late_redirects++;
	count(verdict);
	if (verdict == PDL_VERDICT_late_gateway_silent)
		tell(skb, p, verdict);
	/*
	 * The packet still bears the stack's route. With the next hop unresolved the kernel queues it and,
	 * once the answer is there, sends it by that route's neighbour: out of the right uplink to a MAC of
	 * the wrong one. No helper takes a route away; this one puts metadata in its place that has no
	 * neighbours and that only a tunnel device would read.
	 */
	bpf_skb_set_tunnel_key(skb, &no_tunnel, sizeof(no_tunnel), 0);
	return bpf_redirect_neigh(ifindex, nh, sizeof(*nh), 0);
}

static __always_inline int late_from_pod(struct __sk_buff *skb, struct packet *p, struct pdl_pod *pod)
{
	struct bpf_redir_neigh nh = {};
	struct pdl_uplink_stats *stats;

	if (pod->home == skb->ifindex) {
		stats = stats_of(skb->ifindex);
		if (stats) {
			stats->out_packets++;
			stats->out_bytes += skb->len;
		}
		return pass(PDL_VERDICT_late_passed);
	}
	if (stays(p, pod))
		return pass(PDL_VERDICT_late_passed);
	return steer(skb, p, pod->home, find_home(pod), pod_next_hop(&nh, p, pod) ? &nh : NULL,
		     is_by_silent_gateway(p, pod) ? PDL_VERDICT_late_gateway_silent
						  : PDL_VERDICT_late_redirected);
}

/* The node's own address on another uplink: the answer of a NodePort after un-NAT, or with steerNode what the
 * node itself says. */
static __always_inline int late_from_node(struct __sk_buff *skb, struct packet *p)
{
	struct pdl_node *node = find_node(p->family, &p->ip.src);
	struct bpf_redir_neigh nh = {};
	struct pdl_uplink *home;
	bool direct;

	if (!node || node->ifindex == skb->ifindex)
		return pass(PDL_VERDICT_late_passed);
	home = find_uplink(node->ifindex);
	if (!home || stays(p, NULL) ||
	    is_subnet_broadcast(p->family, &p->ip.dst, &p->ip.src, node->prefix_len))
		return pass(PDL_VERDICT_late_passed);
	direct = same_prefix(&p->ip.src, &p->ip.dst, node->prefix_len);
	if (!next_hop(&nh, p->family, &p->ip.dst, direct, node->gateway4, node->gateway6))
		return pass(PDL_VERDICT_late_passed);
	return steer(skb, p, node->ifindex, home, &nh, PDL_VERDICT_late_node);
}

static __always_inline int frame_to_wire(struct __sk_buff *skb)
{
	struct packet p = {};
	struct pdl_pod *pod;

	if (parse_network(skb, &p) != PARSED_IP)
		return pass(PDL_VERDICT_late_passed);
	pod = find_pod(p.family, &p.ip.src);
	if (pod)
		return late_from_pod(skb, &p, pod);
	if (skb->ingress_ifindex || config.steer_node)
		return late_from_node(skb, &p);
	return pass(PDL_VERDICT_late_passed);
}

#endif
