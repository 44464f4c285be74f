/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Behind the IP header: extension headers, the start of the transport header, what an ICMP error quotes. */
#include "parse.h"

#define MAX_EXTENSIONS 8
#define IP6_OFFSET     0xfff8
#define IP6_FRAG_SIZE  8

struct extension {
	__u8 next;
	__u8 length;
	__be16 fragment;
	__u8 rest[4];
};

static __always_inline bool is_extension(__u8 protocol)
{
	return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_DSTOPTS || protocol == IPPROTO_ROUTING ||
	       protocol == IPPROTO_FRAGMENT || protocol == IPPROTO_AH;
}

/* Moves h->transport behind the extension headers. False: one of them does not fit into the packet. */
static __always_inline bool skip_extensions(struct __sk_buff *skb, struct headers *h, __u32 end)
{
	struct extension ext;
	__u32 size;

	for (int i = 0; i <= MAX_EXTENSIONS; i++) {
		if (!is_extension(h->protocol))
			return true;
		if (i == MAX_EXTENSIONS) {
			h->flags |= HDR_OPTIONS;
			h->transport = 0;
			return true;
		}
		if (h->transport + sizeof(ext) > end ||
		    bpf_skb_load_bytes(skb, h->transport, &ext, sizeof(ext)))
			return false;
		size = (ext.length + 1U) * 8;
		if (h->protocol == IPPROTO_AH)
			size = (ext.length + 2U) * 4;
		if (h->protocol == IPPROTO_ROUTING)
			h->flags |= HDR_OPTIONS;
		if (h->protocol == IPPROTO_FRAGMENT) {
			h->flags |= HDR_FRAGMENT;
			size = IP6_FRAG_SIZE;
		}
		if (h->transport + size > end)
			return false;
		h->transport += size;
		if (h->protocol == IPPROTO_FRAGMENT && ext.fragment & bpf_htons(IP6_OFFSET)) {
			h->protocol = ext.next;
			h->transport = 0;
			return true;
		}
		h->protocol = ext.next;
	}
	return true;
}

/* The first octets of a transport header. */
struct start {
	__be16 ports[4];
};

/* Extension headers and transport header of one IP header. */
static __always_inline bool parse_headers(struct __sk_buff *skb, struct headers *h, __u8 family, __u32 end)
{
	struct start start;

	if (family == 6 && !skip_extensions(skb, h, end))
		return false;
	if (!h->transport || h->transport + sizeof(start) > end || read_behind(skb, h->transport, 0, &start))
		return true;
	h->flags |= HDR_TRANSPORT;
	if (h->protocol == IPPROTO_TCP || h->protocol == IPPROTO_UDP) {
		h->sport = start.ports[0];
		h->dport = start.ports[1];
	} else if (is_icmp(family, h->protocol)) {
		h->icmp_type = *(__u8 *)&start;
		h->icmp_code = *((__u8 *)&start + 1);
	}
	return true;
}

/* What an ICMP error quotes. Where it cannot be read the quoted addresses stay zero, which match no pod's. */
static __always_inline void parse_quote(struct __sk_buff *skb, struct packet *p)
{
	__u32 offset = p->ip.transport + 8;
	struct iphdr ip4;
	struct ipv6hdr ip6;

	if (p->family == 4) {
		if (offset + sizeof(ip4) > p->end || bpf_skb_load_bytes(skb, offset, &ip4, sizeof(ip4)) ||
		    ip4.version != 4 || ip4.ihl < 5)
			return;
		take_ip4(&p->quoted, &ip4, offset);
	} else {
		if (offset + sizeof(ip6) > p->end || bpf_skb_load_bytes(skb, offset, &ip6, sizeof(ip6)) ||
		    ip6.version != 6)
			return;
		take_ip6(&p->quoted, &ip6, offset);
	}
	/* The quote may end anywhere behind its IP header; without a transport header it is no known flow. */
	parse_headers(skb, &p->quoted, p->family, p->end);
}

int parse_transport(struct __sk_buff *skb, struct packet *p)
{
	if (!p)
		return -1;
	if (!parse_headers(skb, &p->ip, p->family, p->end)) {
		p->ip.transport = 0;
		return -1;
	}
	if (is_icmp(p->family, p->ip.protocol) && p->ip.flags & HDR_TRANSPORT &&
	    is_icmp_error(p->family, p->ip.icmp_type)) {
		p->error = 1;
		parse_quote(skb, p);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
