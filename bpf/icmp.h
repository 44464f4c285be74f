/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ICMP by number: <linux/icmp.h> pulls in headers that do not compile for the BPF target. */
#ifndef PODUPLINK_BPF_ICMP_H
#define PODUPLINK_BPF_ICMP_H

#include "packet.h"

enum icmp4_type {
	ICMP4_UNREACHABLE = 3,
	ICMP4_SOURCE_QUENCH = 4,
	ICMP4_REDIRECT = 5,
	ICMP4_ROUTER_ADVERTISEMENT = 9,
	ICMP4_TIME_EXCEEDED = 11,
	ICMP4_PARAMETER_PROBLEM = 12,
};

enum icmp6_type {
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

#endif
