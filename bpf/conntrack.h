/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Does the host NAT this flow? Its connection tracking knows; nothing is copied here.
 *
 * config.conntrack guards every use: it is read-only data, so that where it is 0 the verifier never sees the
 * calls and the object loads without nf_conntrack. (Kernel 6.1 refuses a test of the functions' addresses.)
 */
#ifndef PODUPLINK_BPF_CONNTRACK_H
#define PODUPLINK_BPF_CONNTRACK_H

#include "config.h"
#include "packet.h"

/* Of the kernel's structs only what is read; the loader relocates the offsets by name. nf_conn must be
 * defined: with a mere declaration libbpf finds the prototypes unlike and drops the weak symbols. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
union nf_inet_addr {
	__u32 all[4];
};

union nf_conntrack_man_proto {
	__be16 all;
};

struct nf_conntrack_man {
	union nf_inet_addr u3;
	union nf_conntrack_man_proto u;
};

struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
	struct {
		union nf_inet_addr u3;
		union {
			__be16 all;
		} u;
	} dst;
};

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
};

struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2]; /* original, reply */
};
#pragma clang attribute pop

/* 12 octets are taken by all kernels since 5.18. */
struct bpf_ct_opts {
	__s32 netns_id; /* -1: the packet's own */
	__s32 error;
	__u8 l4proto;
	__u8 dir;
	__u8 reserved[2];
};
_Static_assert(sizeof(struct bpf_ct_opts) == 12, "struct bpf_ct_opts");

extern struct nf_conn *bpf_skb_ct_lookup(struct __sk_buff *skb, struct bpf_sock_tuple *tuple,
					 __u32 tuple_size, struct bpf_ct_opts *opts,
					 __u32 opts_size) __ksym __weak;
extern void bpf_ct_release(struct nf_conn *ct) __ksym __weak;

static __always_inline bool same_inet_addr(union nf_inet_addr *a, union nf_inet_addr *b)
{
	return a->all[0] == b->all[0] && a->all[1] == b->all[1] && a->all[2] == b->all[2] &&
	       a->all[3] == b->all[3];
}

/* By the tuples and not by the status: IPVS sets no NAT bit there. */
static __always_inline bool is_nated(struct nf_conn *ct)
{
	struct nf_conntrack_tuple *original = &ct->tuplehash[0].tuple;
	struct nf_conntrack_tuple *reply = &ct->tuplehash[1].tuple;

	return !(original->src.u.all == reply->dst.u.all && original->dst.u.all == reply->src.u.all &&
		 same_inet_addr(&original->src.u3, &reply->dst.u3) &&
		 same_inet_addr(&original->dst.u3, &reply->src.u3));
}

/* One lookup. An entry whose tuples mirror each other does not count: fragments and packets with options make
 * such entries through the stack, and a stranger can send those. */
static __always_inline bool nated_tuple(struct __sk_buff *skb, __u8 family, __u8 protocol,
					const union address *src, const union address *dst, __be16 sport,
					__be16 dport)
{
	struct bpf_ct_opts opts = {.netns_id = -1, .l4proto = protocol};
	struct bpf_sock_tuple tuple = {};
	struct nf_conn *ct;
	bool nated;

	if (family == 4) {
		tuple.ipv4.saddr = src->words[0];
		tuple.ipv4.daddr = dst->words[0];
		tuple.ipv4.sport = sport;
		tuple.ipv4.dport = dport;
		ct = bpf_skb_ct_lookup(skb, &tuple, sizeof(tuple.ipv4), &opts, sizeof(opts));
	} else {
		__builtin_memcpy(tuple.ipv6.saddr, src, sizeof(tuple.ipv6.saddr));
		__builtin_memcpy(tuple.ipv6.daddr, dst, sizeof(tuple.ipv6.daddr));
		tuple.ipv6.sport = sport;
		tuple.ipv6.dport = dport;
		ct = bpf_skb_ct_lookup(skb, &tuple, sizeof(tuple.ipv6), &opts, sizeof(opts));
	}
	if (!ct)
		return false;
	nated = is_nated(ct);
	bpf_ct_release(ct);
	return nated;
}

/* Asked for the tuple and for its reverse, so that both directions of a flow get the same answer: a flow that
 * was NATed into these two ends is known by the tuple of its answers alone. */
static __always_inline bool is_stack_owned(struct __sk_buff *skb, __u8 family, const struct headers *h)
{
	if (!config.conntrack || (h->protocol != IPPROTO_TCP && h->protocol != IPPROTO_UDP))
		return false;
	return nated_tuple(skb, family, h->protocol, &h->src, &h->dst, h->sport, h->dport) ||
	       nated_tuple(skb, family, h->protocol, &h->dst, &h->src, h->dport, h->sport);
}

#endif
