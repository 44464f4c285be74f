/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ICMP by number: <linux/icmp.h> pulls in headers that do not compile for the BPF target. */
#ifndef PODUPLINK_BPF_ICMP_H
#define PODUPLINK_BPF_ICMP_H

#include <linux/ip.h>
#include <linux/ipv6.h>

#include "packet.h"

/* Code of ICMP4_UNREACHABLE. */
#define ICMP4_FRAGMENTATION_NEEDED 4

enum icmp4_type {
	ICMP4_UNREACHABLE = 3,
	ICMP4_SOURCE_QUENCH = 4,
	ICMP4_REDIRECT = 5,
	ICMP4_ROUTER_ADVERTISEMENT = 9,
	ICMP4_TIME_EXCEEDED = 11,
	ICMP4_PARAMETER_PROBLEM = 12,
};

enum icmp6_type {
	ICMP6_TOO_BIG = 2,
	ICMP6_FIRST_INFORMATIONAL = 128, /* all below are errors */
	ICMP6_MLD_REPORT = 131,
	ICMP6_MLD_DONE = 132,
	ICMP6_ROUTER_SOLICITATION = 133,
	ICMP6_ROUTER_ADVERTISEMENT = 134,
	ICMP6_NEIGHBOUR_SOLICITATION = 135,
	ICMP6_NEIGHBOUR_ADVERTISEMENT = 136,
	ICMP6_REDIRECT = 137,
	ICMP6_MLD2_REPORT = 143,
};

/* An ICMP message of the packet's own family: ICMPv6 inside IPv4 is just another protocol. */
static __always_inline bool is_icmp(__u8 family, __u8 protocol)
{
	return protocol == (family == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);
}

static __always_inline bool is_icmp_error(__u8 family, __u8 type)
{
	if (family == 6)
		return type < ICMP6_FIRST_INFORMATIONAL;
	switch (type) {
	case ICMP4_UNREACHABLE:
	case ICMP4_SOURCE_QUENCH:
	case ICMP4_REDIRECT:
	case ICMP4_TIME_EXCEEDED:
	case ICMP4_PARAMETER_PROBLEM:
		return true;
	default:
		return false;
	}
}

/* Router advertisements and redirects: what only a router may say. */
static __always_inline bool is_router_message(const struct packet *p)
{
	if (!is_icmp(p->family, p->ip.protocol) || !(p->ip.flags & HDR_TRANSPORT))
		return false;
	if (p->family == 4)
		return p->ip.icmp_type == ICMP4_ROUTER_ADVERTISEMENT || p->ip.icmp_type == ICMP4_REDIRECT;
	return p->ip.icmp_type == ICMP6_ROUTER_ADVERTISEMENT || p->ip.icmp_type == ICMP6_REDIRECT;
}

#define ANSWER4_MAX 576	 /* octets in all, RFC 1812 4.3.2.3 */
#define ANSWER6_MAX 1280 /* RFC 4443 2.4 (c) */

struct icmp {
	__u8 type;
	__u8 code;
	__be16 check;
	__be32 mtu; /* IPv4: the upper half is unused and zero */
};

struct answer4 {
	struct iphdr ip;
	struct icmp icmp;
};

struct answer6 {
	struct ipv6hdr ip;
	struct icmp icmp;
};

/*
 * The two halves of make_too_big(), in icmp.bpf.c: global functions, one after the other, because the
 * verifier adds up the stacks of functions that call each other. make_quote turns the packet into `room` free
 * octets and, behind them, the first `quote` octets of itself; write_too_big fills the room.
 */
int make_quote(struct __sk_buff *skb, struct packet *p, __u32 quote, __u32 room);
int write_too_big(struct __sk_buff *skb, struct packet *p, const union address *from, __u32 mtu, __u32 quote);

/*
 * Makes of a packet the ICMP error that tells its sender the MTU (octets of layer 3), spoken by `from`.
 * parse_transport has read the packet. The frame's MACs stay, for the caller to write. Non-zero: no answer is
 * due or none could be made; the packet may be spoiled and must be dropped.
 */
static __always_inline int make_too_big(struct __sk_buff *skb, struct packet *p, const union address *from,
					__u32 mtu)
{
	__u32 room = p->family == 4 ? sizeof(struct answer4) : sizeof(struct answer6);
	__u32 most = (p->family == 4 ? ANSWER4_MAX : ANSWER6_MAX) - room;
	__u32 quote = p->end - ETH_HLEN;

	/* Never an error for an error; a later fragment has no transport header, and what lies behind too
	 * many extension headers may be an error. */
	if (p->error || !p->ip.transport)
		return -1;
	if (quote > most)
		quote = most;
	return make_quote(skb, p, quote, room) || write_too_big(skb, p, from, mtu, quote);
}

#endif
