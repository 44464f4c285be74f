/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Being the router: next hop, size, TTL and the way out. */
#ifndef PODUPLINK_BPF_NEXTHOP_H
#define PODUPLINK_BPF_NEXTHOP_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stddef.h>

#include "lookup.h"
#include "verdict.h"

/* skb_shared_info.gso_size of packets whose segments have sizes of their own (SCTP). */
#define GSO_BY_FRAGS 0xffff

#define UDP_HEADER 8

/* Always explicit: without it the kernel would look a route up, and for IPv4 without one ask for the
 * destination itself on the uplink. False: there is no next hop. */
static __always_inline bool next_hop(struct bpf_redir_neigh *nh, __u8 family, const union address *dst,
				     bool direct, const __u8 gateway4[4], const __u8 gateway6[16])
{
	union address gateway = {};

	nh->nh_family = family == 4 ? AF_INET : AF_INET6;
	if (direct) {
		__builtin_memcpy(nh->ipv6_nh, dst, sizeof(nh->ipv6_nh));
		return true;
	}
	if (family == 4) {
		__builtin_memcpy(&gateway, gateway4, 4);
		if (gateway.words[0]) {
			nh->ipv4_nh = gateway.words[0];
			return true;
		}
	}
	/* An IPv4 packet may have an IPv6 next hop, never the other way round. */
	__builtin_memcpy(&gateway, gateway6, 16);
	nh->nh_family = AF_INET6;
	__builtin_memcpy(nh->ipv6_nh, &gateway, sizeof(nh->ipv6_nh));
	return !is_zero(&gateway);
}

static __always_inline bool is_on_link(const struct packet *p, const struct pdl_pod *pod)
{
	return pod->flags & PDL_POD_ON_LINK && same_prefix(&p->ip.src, &p->ip.dst, pod->prefix_len);
}

static __always_inline bool pod_next_hop(struct bpf_redir_neigh *nh, const struct packet *p,
					 const struct pdl_pod *pod)
{
	return next_hop(nh, p->family, &p->ip.dst, is_on_link(p, pod), pod->gateway4, pod->gateway6);
}

/* Such a packet is redirected all the same: it makes the kernel ask for the gateway again. */
static __always_inline bool is_by_silent_gateway(const struct packet *p, const struct pdl_pod *pod)
{
	return pod->flags & PDL_POD_GATEWAY_SILENT && !is_on_link(p, pod);
}

/* Of one segment behind the IP header's start: what segmentation puts before each gso_size octets. */
static __always_inline __u32 segment_headers(struct __sk_buff *skb, const struct packet *p)
{
	__u32 size = p->ip.transport - ETH_HLEN - p->jumbo;
	__u8 data_offset;

	if (p->ip.protocol == IPPROTO_UDP)
		return size + UDP_HEADER;
	if (p->ip.protocol == IPPROTO_TCP && !bpf_skb_load_bytes(skb, p->ip.transport + 12, &data_offset, 1))
		return size + (data_offset >> 4) * 4U;
	return size;
}

/* Larger than an MTU (octets of layer 3; 0: not known, nothing is too big). Needs parse_transport. */
static __always_inline bool is_too_big(struct __sk_buff *skb, const struct packet *p, __u32 mtu)
{
	if (!mtu || skb->len - ETH_HLEN <= mtu)
		return false;
	if (skb->gso_size == GSO_BY_FRAGS)
		return false;
	/* Without a transport header nobody can tell what segmentation would put before each segment. */
	if (!skb->gso_size || !(p->ip.flags & HDR_TRANSPORT))
		return true;
	return segment_headers(skb, p) + skb->gso_size > mtu;
}

/*
 * TTL - 1. IPv4: TTL, protocol and checksum are one aligned word; their change sums up to nothing, so a
 * checksum that the device made over the whole packet (CHECKSUM_COMPLETE) stays right. IPv6 has no checksum
 * that makes up for it, so the helper must correct the device's.
 */
static __always_inline void decrement_ttl(struct __sk_buff *skb, const struct packet *p)
{
	__u8 hop_limit = p->ttl - 1;

	if (p->family == 4) {
		__u32 check = p->check + bpf_htons(0x0100);
		struct {
			__u8 ttl;
			__u8 protocol;
			__u16 check;
		} word = {hop_limit, p->ip.protocol, check + (check >= 0xffff)};

		bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, ttl), &word, sizeof(word), 0);
	} else {
		bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, hop_limit), &hop_limit, 1,
				    BPF_F_RECOMPUTE_CSUM);
	}
}

/* Straight into a pod, as its router: the frame bears the MACs that the pod expects. */
static __always_inline int deliver(struct __sk_buff *skb, const struct packet *p, const struct pdl_pod *pod)
{
	struct macs macs = {.src = PDL_HOST_MAC};

	__builtin_memcpy(macs.dst, pod->pod_mac, sizeof(macs.dst));
	decrement_ttl(skb, p);
	bpf_skb_store_bytes(skb, 0, &macs, sizeof(macs), 0);
	return bpf_redirect_peer(pod->veth, 0);
}

#endif
