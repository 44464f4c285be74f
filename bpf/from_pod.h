/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pod_egress: packets that a pod sends, at the ingress of its host veth. The steps of docs/datapath.md. */
#ifndef PODUPLINK_BPF_FROM_POD_H
#define PODUPLINK_BPF_FROM_POD_H

#include "flow.h"
#include "neighbour.h"
#include "nexthop.h"
#include "parse.h"

#define DHCP_SERVER 67
#define DHCP_CLIENT 68

static __always_inline int arp_from_pod(struct __sk_buff *skb, const struct packet *p)
{
	const __u8 gateway[4] = PDL_POD_GATEWAY4, host_mac[ETH_ALEN] = PDL_HOST_MAC;
	struct arp arp;

	if (!read_arp(skb, p, &arp) || __builtin_memcmp(arp.target, gateway, sizeof(gateway)))
		return pass(PDL_VERDICT_not_ip);
	count(PDL_VERDICT_neighbour);
	return answer_arp(skb, p, &arp, host_mac);
}

/* Negative: no solicitation for the pod's gateway. */
static __always_inline int solicitation_from_pod(struct __sk_buff *skb, const struct packet *p)
{
	const union address gateway = {PDL_POD_GATEWAY6};
	const __u8 host_mac[ETH_ALEN] = PDL_HOST_MAC;
	struct solicitation ns;
	int action;

	if (!read_solicitation(skb, p, &ns) || !same_address(&ns.target, &gateway))
		return -1;
	action = answer_solicitation(skb, p, &gateway, host_mac, NA_ROUTER);
	if (action >= 0)
		count(PDL_VERDICT_neighbour);
	return action;
}

/* The few packets that a host may send before it has an address, or by its link-local one. None of them can
 * be routed: their destinations are link-local, multicast or broadcast. */
static __always_inline bool may_lack_entry(const struct packet *p)
{
	const struct headers *h = &p->ip;

	if (p->family == 4)
		return is_zero(&h->src) && is_limited_broadcast(4, &h->dst) && h->protocol == IPPROTO_UDP &&
		       h->sport == bpf_htons(DHCP_CLIENT) && h->dport == bpf_htons(DHCP_SERVER);
	if (is_link_local6(&h->src))
		return is_link_local6(&h->dst) || is_multicast(6, &h->dst);
	return is_zero(&h->src) && is_multicast(6, &h->dst) && h->protocol == IPPROTO_ICMPV6 &&
	       h->flags & HDR_TRANSPORT &&
	       (h->icmp_type == ICMP6_NEIGHBOUR_SOLICITATION || h->icmp_type == ICMP6_ROUTER_SOLICITATION ||
		h->icmp_type == ICMP6_MLD_REPORT || h->icmp_type == ICMP6_MLD_DONE ||
		h->icmp_type == ICMP6_MLD2_REPORT);
}

/* To another pod of this node, as its router. */
static __always_inline int to_local_pod(struct __sk_buff *skb, const struct packet *p,
					const struct pdl_pod *to)
{
	if (to->mode != PDL_MODE_FAST || p->ttl <= 1)
		return pass(PDL_VERDICT_local_pod);
	count(PDL_VERDICT_to_pod);
	return deliver(skb, p, to);
}

/* The uplink cannot take it whole: the stack fragments it where the sender allows that, else the sender is
 * told, as by the router that the pod knows. */
static __always_inline int too_big(struct __sk_buff *skb, struct packet *p, __u32 mtu)
{
	union address gateway = {};
	struct macs macs = {.src = PDL_HOST_MAC};

	if (!(p->ip.flags & HDR_DF))
		return pass(PDL_VERDICT_too_big);
	if (p->family == 4)
		gateway = (union address){PDL_POD_GATEWAY4};
	else
		gateway = (union address){PDL_POD_GATEWAY6};
	count(PDL_VERDICT_too_big);
	tell(skb, p, PDL_VERDICT_too_big);
	if (make_too_big(skb, p, &gateway, mtu))
		return TC_ACT_SHOT;
	__builtin_memcpy(macs.dst, p->eth.h_source, sizeof(macs.dst));
	bpf_skb_store_bytes(skb, 0, &macs, sizeof(macs), 0);
	return bpf_redirect_peer(skb->ifindex, 0);
}

static __always_inline int to_uplink(struct __sk_buff *skb, struct packet *p, const struct pdl_pod *pod)
{
	struct pdl_uplink *home = find_home(pod);
	struct bpf_redir_neigh nh = {};
	struct pdl_uplink_stats *stats;
	bool lost;

	if (home && home->state != PDL_STATE_UP && home->when_down == PDL_WHEN_DOWN_STACK)
		return pass(PDL_VERDICT_uplink_down_stack);
	if (!home || home->state != PDL_STATE_UP || !pod_next_hop(&nh, p, pod))
		return drop(skb, p, PDL_VERDICT_uplink_down);
	if (is_too_big(skb, p, home->mtu))
		return too_big(skb, p, home->mtu);
	stats = stats_of(pod->home);
	if (stats)
		stats->out_redirects++;
	lost = is_by_silent_gateway(p, pod);
	count(lost ? PDL_VERDICT_gateway_silent : PDL_VERDICT_redirected);
	if (lost)
		tell(skb, p, PDL_VERDICT_gateway_silent);
	decrement_ttl(skb, p);
	return bpf_redirect_neigh(pod->home, &nh, sizeof(nh), 0);
}

/* A frame to a group's MAC is no packet for a router to redirect, and the helper would drop it. */
static __always_inline enum pdl_way way_of_frame(struct __sk_buff *skb)
{
	if (skb->pkt_type == PACKET_BROADCAST)
		return PDL_WAY_BROADCAST;
	return skb->pkt_type == PACKET_MULTICAST ? PDL_WAY_MULTICAST : PDL_WAY_FAST;
}

static __always_inline int packet_from_pod(struct __sk_buff *skb, struct packet *p, struct pdl_pod *pod)
{
	enum pdl_way why = way_of_frame(skb);
	struct pdl_uplink *home;
	struct pdl_pod *to;

	if (why == PDL_WAY_FAST)
		why = way_out(skb, p, pod);
	if (why == PDL_WAY_MALFORMED)
		return drop(skb, p, PDL_VERDICT_malformed);
	if (why != PDL_WAY_FAST && why != PDL_WAY_NETFILTER)
		return pass(PDL_VERDICT_stack_node + why);
	to = p->outside ? NULL : find_pod(p->family, &p->ip.dst);
	if (why == PDL_WAY_NETFILTER) {
		/* The answer to a packet that is too big must not depend on what netfilter would do to it,
		 * but only where the packet would otherwise have left here. */
		home = to ? NULL : find_home(pod);
		if (home && is_too_big(skb, p, home->mtu) && way_of_packet(skb, p) == PDL_WAY_FAST)
			return too_big(skb, p, home->mtu);
		return pass(PDL_VERDICT_stack_netfilter);
	}
	if (to)
		return to_local_pod(skb, p, to);
	if (p->ttl <= 1)
		return pass(PDL_VERDICT_ttl);
	return to_uplink(skb, p, pod);
}

static __always_inline int ip_from_pod(struct __sk_buff *skb, struct packet *p)
{
	struct pdl_pod *pod;
	int answer = solicitation_from_pod(skb, p);

	if (answer >= 0)
		return answer;
	if (parse_transport(skb, p))
		return drop(skb, p, PDL_VERDICT_malformed);
	if (is_router_message(p))
		return drop(skb, p, PDL_VERDICT_spoofed);
	pod = find_pod(p->family, &p->ip.src);
	if (pod && pod->veth == skb->ifindex)
		return packet_from_pod(skb, p, pod);
	if (may_lack_entry(p))
		return pass(PDL_VERDICT_stack_node + way_of_address(p->family, NULL, &p->ip.src, &p->ip.dst));
	return drop(skb, p, PDL_VERDICT_spoofed);
}

static __always_inline int frame_from_pod(struct __sk_buff *skb)
{
	struct packet p = {};

	switch (parse_network(skb, &p)) {
	case PARSED_IP:
		return ip_from_pod(skb, &p);
	case PARSED_ARP:
		return arp_from_pod(skb, &p);
	case PARSED_VLAN:
		/* The stack takes VLAN 0 for no VLAN at all: what bears it would pass the source check
		 * unseen. */
		if (skb->vlan_present && !(skb->vlan_tci & VLAN_VID_MASK))
			return drop(skb, &p, PDL_VERDICT_spoofed);
		return pass(PDL_VERDICT_vlan);
	case PARSED_MALFORMED:
		return drop(skb, &p, PDL_VERDICT_malformed);
	default:
		return pass(PDL_VERDICT_not_ip);
	}
}

#endif
