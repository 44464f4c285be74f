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

/* One aligned word of an IPv4 header. */
struct ttl4 {
	__u8 ttl;
	__u8 protocol;
	__u16 check;
};

/* The word's change sums up to nothing, so a checksum that the device made over the whole packet
 * (CHECKSUM_COMPLETE) stays right. */
static __always_inline struct ttl4 decremented(const struct packet *p)
{
	__u32 check = p->check + bpf_htons(0x0100);

	return (struct ttl4){p->ttl - 1, p->ip.protocol, check + (check >= 0xffff)};
}

/* TTL - 1. IPv6 has no checksum that makes up for it, so the helper must correct the device's. */
static __always_inline void decrement_ttl(struct __sk_buff *skb, const struct packet *p)
{
	struct ttl4 word = decremented(p);

	if (p->family == 4)
		bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, ttl), &word, sizeof(word), 0);
	else
		bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, hop_limit), &word.ttl, 1,
				    BPF_F_RECOMPUTE_CSUM);
}

/* The start of a frame, up to the last octet that a router changes. */
struct front {
	struct macs macs;
	__be16 proto;
	__u8 ip[8];	 /* of an IPv6 header the hop limit is the last of them */
	struct ttl4 ttl; /* of an IPv4 header */
} __attribute__((packed));

/*
 * Straight into a pod, as its router: the frame bears the MACs that the pod expects, and TTL - 1. All of it
 * in one store, since each costs a call; what stands between them is written as it was.
 */
static __always_inline int deliver(struct __sk_buff *skb, const struct packet *p, const struct pdl_pod *pod)
{
	struct front front = {.macs.src = PDL_HOST_MAC, .proto = p->eth.h_proto};

	__builtin_memcpy(front.macs.dst, pod->pod_mac, sizeof(front.macs.dst));
	__builtin_memcpy(front.ip, p->start, sizeof(front.ip));
	if (p->family == 4) {
		front.ttl = decremented(p);
		bpf_skb_store_bytes(skb, 0, &front, sizeof(front), 0);
	} else {
		front.ip[offsetof(struct ipv6hdr, hop_limit)] = p->ttl - 1;
		bpf_skb_store_bytes(skb, 0, &front, offsetof(struct front, ttl), 0);
		/* Of a sum that the device made over the whole packet: one less in a word's second octet. */
		bpf_csum_update(skb, (__u16)~bpf_htons(1));
	}
	return bpf_redirect_peer(pod->veth, 0);
}

#endif
