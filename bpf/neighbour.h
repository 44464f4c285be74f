/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Answers to ARP requests and neighbour solicitations, made of the question's own buffer and sent back out of
 * the interface that it came from. */
#ifndef PODUPLINK_BPF_NEIGHBOUR_H
#define PODUPLINK_BPF_NEIGHBOUR_H

#include <linux/ipv6.h>

#include "icmp.h"
#include "lookup.h"
#include "verdict.h"

#define ARP_ETHERNET	 1
#define ARP_REQUEST	 1
#define ARP_REPLY	 2
#define NA_ROUTER	 0x80000000U
#define NA_SOLICITED	 0x40000000U
#define NA_OVERRIDE	 0x20000000U
#define ND_HOP_LIMIT	 255
#define ND_TARGET_LLADDR 2

struct arp {
	__be16 hardware;
	__be16 protocol;
	__u8 hardware_len;
	__u8 protocol_len;
	__be16 operation;
	__u8 sender_mac[ETH_ALEN];
	__u8 sender[4];
	__u8 target_mac[ETH_ALEN];
	__u8 target[4];
} __attribute__((packed));
_Static_assert(sizeof(struct arp) == 28, "struct arp");

struct solicitation {
	__u8 type;
	__u8 code;
	__be16 check;
	__be32 reserved;
	union address target;
};

/* The answer behind its Ethernet header. */
struct advertisement {
	struct ipv6hdr ip;
	__u8 type;
	__u8 code;
	__be16 check;
	__be32 flags;
	union address target;
	__u8 option;
	__u8 option_len; /* in units of 8 octets */
	__u8 mac[ETH_ALEN];
};
_Static_assert(sizeof(struct advertisement) == 72, "struct advertisement");
#define ADVERTISEMENT_LEN (sizeof(struct advertisement) - sizeof(struct ipv6hdr))

/* A question that may be answered: probes (sender 0.0.0.0) are, announcements of one's own address are not.
 */
static __always_inline bool read_arp(struct __sk_buff *skb, const struct packet *p, struct arp *arp)
{
	return !bpf_skb_load_bytes(skb, ETH_HLEN, arp, sizeof(*arp)) &&
	       arp->hardware == bpf_htons(ARP_ETHERNET) && arp->protocol == bpf_htons(ETH_P_IP) &&
	       arp->hardware_len == ETH_ALEN && arp->protocol_len == 4 &&
	       arp->operation == bpf_htons(ARP_REQUEST) && !(p->eth.h_source[0] & 1) &&
	       __builtin_memcmp(arp->sender, arp->target, sizeof(arp->sender));
}

/* A valid neighbour solicitation (RFC 4861, 7.1.1) without extension headers. */
static __always_inline bool read_solicitation(struct __sk_buff *skb, const struct packet *p,
					      struct solicitation *ns)
{
	const __u32 offset = ETH_HLEN + sizeof(struct ipv6hdr);

	return p->family == 6 && p->ip.protocol == IPPROTO_ICMPV6 && p->ttl == ND_HOP_LIMIT &&
	       p->end >= offset + sizeof(*ns) && !bpf_skb_load_bytes(skb, offset, ns, sizeof(*ns)) &&
	       ns->type == ICMP6_NEIGHBOUR_SOLICITATION && ns->code == 0 && !is_multicast(6, &ns->target) &&
	       !(p->eth.h_source[0] & 1);
}

static __always_inline void set_macs(struct ethhdr *eth, const struct packet *p, const __u8 mac[ETH_ALEN])
{
	__builtin_memcpy(eth->h_dest, p->eth.h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, mac, ETH_ALEN);
	eth->h_proto = p->eth.h_proto;
}

/* arp: the request, of which the reply is made. */
static __always_inline int answer_arp(struct __sk_buff *skb, const struct packet *p, struct arp *arp,
				      const __u8 mac[ETH_ALEN])
{
	struct ethhdr eth;
	__u8 asked[4];

	set_macs(&eth, p, mac);
	__builtin_memcpy(asked, arp->target, sizeof(asked));
	arp->operation = bpf_htons(ARP_REPLY);
	__builtin_memcpy(arp->target_mac, arp->sender_mac, ETH_ALEN);
	__builtin_memcpy(arp->target, arp->sender, sizeof(arp->target));
	__builtin_memcpy(arp->sender_mac, mac, ETH_ALEN);
	__builtin_memcpy(arp->sender, asked, sizeof(arp->sender));
	bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0);
	bpf_skb_store_bytes(skb, ETH_HLEN, arp, sizeof(*arp), 0);
	return bpf_redirect(skb->ifindex, 0);
}

static __always_inline __be16 advertisement_checksum(struct advertisement *na)
{
	__s64 sum = bpf_htonl(ADVERTISEMENT_LEN) + (__u64)bpf_htonl(IPPROTO_ICMPV6);

	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&na->ip.saddr, sizeof(na->ip.saddr) * 2, sum);
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&na->type, ADVERTISEMENT_LEN, sum);
	sum = (sum & 0xffff) + ((__u32)sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/*
 * flags: NA_ROUTER or none. Who asks from :: (a probe for duplicates) cannot be answered in person: the
 * answer goes to all nodes. Negative: could not be made, the packet is as it was.
 */
static __always_inline int answer_solicitation(struct __sk_buff *skb, const struct packet *p,
					       const union address *target, const __u8 mac[ETH_ALEN],
					       __u32 flags)
{
	struct advertisement na = {
		.ip.version = 6,
		.ip.payload_len = bpf_htons(ADVERTISEMENT_LEN),
		.ip.nexthdr = IPPROTO_ICMPV6,
		.ip.hop_limit = ND_HOP_LIMIT,
		.type = ICMP6_NEIGHBOUR_ADVERTISEMENT,
		.option = ND_TARGET_LLADDR,
		.option_len = 1,
	};
	union address to = p->ip.src;
	struct ethhdr eth;

	set_macs(&eth, p, mac);
	if (is_zero(&to)) {
		to.words[0] = bpf_htonl(0xff020000);
		to.words[3] = bpf_htonl(1);
		__builtin_memset(eth.h_dest, 0, ETH_ALEN);
		eth.h_dest[0] = eth.h_dest[1] = 0x33;
		eth.h_dest[5] = 1;
		na.flags = bpf_htonl(flags | NA_OVERRIDE);
	} else {
		na.flags = bpf_htonl(flags | NA_OVERRIDE | NA_SOLICITED);
	}
	__builtin_memcpy(&na.ip.saddr, target, sizeof(na.ip.saddr));
	__builtin_memcpy(&na.ip.daddr, &to, sizeof(na.ip.daddr));
	na.target = *target;
	__builtin_memcpy(na.mac, mac, ETH_ALEN);
	na.check = advertisement_checksum(&na);
	if (bpf_skb_change_tail(skb, ETH_HLEN + sizeof(na), 0))
		return -1;
	bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0);
	bpf_skb_store_bytes(skb, ETH_HLEN, &na, sizeof(na), 0);
	return bpf_redirect(skb->ifindex, 0);
}

#endif
