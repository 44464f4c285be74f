/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reading a frame. Bytes outside the linear part are read too, by bpf_skb_load_bytes: AF_PACKET senders make
 * frames whose linear part ends after the Ethernet header, and those are IP like any other.
 *
 * Two steps, because most packets on an uplink need only the first: parse_network (frame and IP header),
 * parse_transport (extension headers, ports, the packet that an ICMP error quotes).
 */
#ifndef PODUPLINK_BPF_PARSE_H
#define PODUPLINK_BPF_PARSE_H

#include "icmp.h"
#include "packet.h"

enum parsed {
	PARSED_IP,
	PARSED_ARP,
	PARSED_VLAN,
	PARSED_OTHER,	  /* neither of them */
	PARSED_MALFORMED, /* says it is IP, but version, header length or total length are wrong */
};

#define IP4_DF	   0x4000
#define IP4_MF	   0x2000
#define IP4_OFFSET 0x1fff

#define VLAN_VID_MASK 0x0fff

static __always_inline void take_ip4(struct headers *h, const struct iphdr *ip, __u32 offset)
{
	h->src.words[0] = ip->saddr;
	h->dst.words[0] = ip->daddr;
	h->protocol = ip->protocol;
	h->transport = offset + ip->ihl * 4;
	if (ip->ihl > 5)
		h->flags |= HDR_OPTIONS;
	if (ip->frag_off & bpf_htons(IP4_MF | IP4_OFFSET))
		h->flags |= HDR_FRAGMENT;
	if (ip->frag_off & bpf_htons(IP4_DF))
		h->flags |= HDR_DF;
	/* A later fragment has no transport header: an offset of 0 says so to parse_headers. */
	if (ip->frag_off & bpf_htons(IP4_OFFSET))
		h->transport = 0;
}

static __always_inline void take_ip6(struct headers *h, const struct ipv6hdr *ip, __u32 offset)
{
	__builtin_memcpy(&h->src, &ip->saddr, sizeof(h->src));
	__builtin_memcpy(&h->dst, &ip->daddr, sizeof(h->dst));
	h->protocol = ip->nexthdr;
	h->transport = offset + sizeof(*ip);
	h->flags |= HDR_DF;
}

static __always_inline enum parsed parse_ip4(struct __sk_buff *skb, struct packet *p)
{
	struct iphdr ip;
	__u32 total;

	if (read_header(skb, ETH_HLEN, &ip) || ip.version != 4 || ip.ihl < 5)
		return PARSED_MALFORMED;
	total = bpf_ntohs(ip.tot_len);
	/* A TCP packet of more than 64 KiB ("BIG TCP") cannot say its length. */
	if (!total && ip.protocol == IPPROTO_TCP && skb->gso_size)
		total = skb->len - ETH_HLEN;
	if (total < ip.ihl * 4U || total > skb->len - ETH_HLEN)
		return PARSED_MALFORMED;
	p->family = 4;
	__builtin_memcpy(p->start, &ip, sizeof(p->start));
	p->ttl = ip.ttl;
	p->check = ip.check;
	p->end = ETH_HLEN + total;
	take_ip4(&p->ip, &ip, ETH_HLEN);
	return PARSED_IP;
}

static __always_inline enum parsed parse_ip6(struct __sk_buff *skb, struct packet *p)
{
	struct ipv6hdr ip;
	__u32 total;

	if (read_header(skb, ETH_HLEN, &ip) || ip.version != 6)
		return PARSED_MALFORMED;
	total = sizeof(ip) + bpf_ntohs(ip.payload_len);
	/* BIG TCP again: here the real length is in a hop-by-hop header of 8 octets that never reaches the
	 * wire. */
	if (!ip.payload_len && skb->gso_size) {
		total = skb->len - ETH_HLEN;
		if (ip.nexthdr == IPPROTO_HOPOPTS)
			p->jumbo = 8;
	}
	if (total > skb->len - ETH_HLEN)
		return PARSED_MALFORMED;
	p->family = 6;
	__builtin_memcpy(p->start, &ip, sizeof(p->start));
	p->ttl = ip.hop_limit;
	p->end = ETH_HLEN + total;
	take_ip6(&p->ip, &ip, ETH_HLEN);
	return PARSED_IP;
}

/* Fills all of the packet but transport and quote. The packet must be zero before. */
static __always_inline enum parsed parse_network(struct __sk_buff *skb, struct packet *p)
{
	if (skb->vlan_present)
		return PARSED_VLAN;
	if (read_header(skb, 0, &p->eth))
		return PARSED_OTHER;
	if (p->eth.h_proto == bpf_htons(ETH_P_8021Q) || p->eth.h_proto == bpf_htons(ETH_P_8021AD))
		return PARSED_VLAN;
	/* The redirect helpers go by what the kernel takes the frame for. */
	if (p->eth.h_proto != skb->protocol)
		return PARSED_OTHER;
	switch (p->eth.h_proto) {
	case bpf_htons(ETH_P_IP):
		return parse_ip4(skb, p);
	case bpf_htons(ETH_P_IPV6):
		return parse_ip6(skb, p);
	case bpf_htons(ETH_P_ARP):
		return PARSED_ARP;
	default:
		return PARSED_OTHER;
	}
}

/*
 * Fills transport and quote; parse_network has said PARSED_IP. Non-zero: an extension header is malformed. In
 * parse.bpf.c: the verifier looks at a global function once and not again for every path that leads to it.
 */
int parse_transport(struct __sk_buff *skb, struct packet *p);

#endif
