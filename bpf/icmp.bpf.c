/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* "Too big": the ICMP error that path MTU discovery lives on, made of the packet that was too big. */
#include <stddef.h>

#include "parse.h"

#define ANSWER_TTL 64
#define ANSWER_TOS 0xc0 /* internetwork control, RFC 1812 4.3.2.5 */
#define SUM_CHUNK  64
/* Enough for IPv4 with options, and for IPv6 with 72 octets of extension headers. */
#define MAX_HEAD 128
/* So much more than a frame's octets before the transport header is cut off, see unmark_checksum(). */
#define BEYOND 2

/* What is saved of a packet's head, for the time that it is cut off. */
struct head {
	__u32 size;
	__u8 octets[MAX_HEAD];
};

static __always_inline __be16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* Adds the octets of the packet from offset on, at most ANSWER6_MAX, to a checksum. Negative: not readable.
 */
static __always_inline __s64 sum_packet(struct __sk_buff *skb, __u32 offset, __u32 size, __u32 sum)
{
	__be32 chunk[SUM_CHUNK / 4];

	for (__u32 done = 0; done < ANSWER6_MAX && done < size; done += SUM_CHUNK) {
		__u32 now = size - done;

		if (now > SUM_CHUNK)
			now = SUM_CHUNK;
		/* Does nothing, but the verifier of 6.1 learns from it that something is left, and how much
		 * at most; behind the barrier the compiler does not see that it does nothing. */
		barrier_var(now);
		now = ((now - 1) & (SUM_CHUNK - 1)) + 1;
		__builtin_memset(chunk, 0, sizeof(chunk));
		if (bpf_skb_load_bytes(skb, offset + done, chunk, now))
			return -1;
		sum = bpf_csum_diff(NULL, 0, chunk, sizeof(chunk), sum);
	}
	return sum;
}

/*
 * Cuts the head off, which the caller puts back. On the way it takes the mark CHECKSUM_PARTIAL away: a device
 * without checksum offload would else complete the transport checksum, in the middle of our quote, behind the
 * back of the ICMP checksum. The kernel drops the mark when octets are written and what it points to, the
 * start of the transport header, lies before the frame: so more goes than there was before it. It is an even
 * number of octets, or a checksum over the whole packet (CHECKSUM_COMPLETE) would find high and low
 * exchanged.
 */
static __always_inline int unmark_checksum(struct __sk_buff *skb, struct head *head)
{
	__u8 octet;

	return bpf_skb_load_bytes(skb, ETH_HLEN, head->octets, head->size) ||
	       bpf_skb_adjust_room(skb, -(__s32)head->size, BPF_ADJ_ROOM_MAC, 0) ||
	       bpf_skb_load_bytes(skb, ETH_HLEN, &octet, 1) ||
	       bpf_skb_store_bytes(skb, ETH_HLEN, &octet, 1, BPF_F_RECOMPUTE_CSUM);
}

int make_quote(struct __sk_buff *skb, struct packet *p, __u32 quote, __u32 room)
{
	struct head head = {};
	__u32 size;

	if (!p)
		return -1;
	size = p->ip.transport + BEYOND;
	if (size > sizeof(head.octets))
		return -1;
	barrier_var(
		size); /* or the compiler makes one comparison of both, which the verifier cannot follow */
	if (size < BEYOND)
		return -1;
	head.size = size;
	return bpf_skb_change_tail(skb, ETH_HLEN + quote, 0) || unmark_checksum(skb, &head) ||
	       bpf_skb_adjust_room(skb, head.size + room, BPF_ADJ_ROOM_MAC, 0) ||
	       bpf_skb_store_bytes(skb, ETH_HLEN + room, head.octets, head.size, BPF_F_RECOMPUTE_CSUM);
}

/* The checksum over the ICMP message at an offset, of which the checksum field is zero. */
static __always_inline int write_checksum(struct __sk_buff *skb, __u32 offset, __u32 size, __u32 pseudo)
{
	__s64 sum = sum_packet(skb, offset, size, pseudo);
	__be16 check = fold(sum);

	if (sum < 0)
		return -1;
	return bpf_skb_store_bytes(skb, offset + offsetof(struct icmp, check), &check, sizeof(check),
				   BPF_F_RECOMPUTE_CSUM);
}

static __always_inline int write_answer4(struct __sk_buff *skb, const struct packet *p,
					 const union address *from, __u32 mtu, __u32 quote)
{
	struct answer4 a = {
		.ip.version = 4,
		.ip.ihl = sizeof(a.ip) / 4,
		.ip.tos = ANSWER_TOS,
		.ip.tot_len = bpf_htons(sizeof(a) + quote),
		.ip.frag_off = bpf_htons(IP4_DF),
		.ip.ttl = ANSWER_TTL,
		.ip.protocol = IPPROTO_ICMP,
		.ip.saddr = from->words[0],
		.ip.daddr = p->ip.src.words[0],
		.icmp.type = ICMP4_UNREACHABLE,
		.icmp.code = ICMP4_FRAGMENTATION_NEEDED,
		.icmp.mtu = bpf_htonl(mtu > 0xffff ? 0xffff : mtu),
	};

	a.ip.check = fold(bpf_csum_diff(NULL, 0, (__be32 *)&a.ip, sizeof(a.ip), 0));
	return bpf_skb_store_bytes(skb, ETH_HLEN, &a, sizeof(a), BPF_F_RECOMPUTE_CSUM) ||
	       write_checksum(skb, ETH_HLEN + sizeof(a.ip), sizeof(a.icmp) + quote, 0);
}

static __always_inline int write_answer6(struct __sk_buff *skb, const struct packet *p,
					 const union address *from, __u32 mtu, __u32 quote)
{
	struct answer6 a = {
		.ip.version = 6,
		.ip.payload_len = bpf_htons(sizeof(a.icmp) + quote),
		.ip.nexthdr = IPPROTO_ICMPV6,
		.ip.hop_limit = ANSWER_TTL,
		.icmp.type = ICMP6_TOO_BIG,
		.icmp.mtu = bpf_htonl(mtu),
	};
	__u64 pseudo = (__u64)bpf_htonl(sizeof(a.icmp) + quote) + bpf_htonl(IPPROTO_ICMPV6);

	__builtin_memcpy(&a.ip.saddr, from, sizeof(a.ip.saddr));
	__builtin_memcpy(&a.ip.daddr, &p->ip.src, sizeof(a.ip.daddr));
	pseudo = (pseudo & 0xffffffff) + (pseudo >> 32);
	pseudo = bpf_csum_diff(NULL, 0, (__be32 *)&a.ip.saddr, sizeof(a.ip.saddr) * 2, pseudo);
	return bpf_skb_store_bytes(skb, ETH_HLEN, &a, sizeof(a), BPF_F_RECOMPUTE_CSUM) ||
	       write_checksum(skb, ETH_HLEN + sizeof(a.ip), sizeof(a.icmp) + quote, pseudo);
}

int write_too_big(struct __sk_buff *skb, struct packet *p, const union address *from, __u32 mtu, __u32 quote)
{
	if (!p || !from)
		return -1;
	return p->family == 4 ? write_answer4(skb, p, from, mtu, quote)
			      : write_answer6(skb, p, from, mtu, quote);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
