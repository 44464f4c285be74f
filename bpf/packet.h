/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A parsed packet and the arithmetic of addresses. One representation for both families: an IPv4 address
 * stands in the first four octets and the rest is zero, so most code need not ask which family it has.
 */
#ifndef PODUPLINK_BPF_PACKET_H
#define PODUPLINK_BPF_PACKET_H

#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"

/* <sys/socket.h> is not for this target. */
#define AF_INET	 2
#define AF_INET6 10

union address {
	__u8 octets[16];
	__u32 words[4]; /* big-endian */
};

/* headers.flags */
#define HDR_FRAGMENT  0x01 /* any fragment, the first one and a lone ("atomic") IPv6 one too */
#define HDR_OPTIONS   0x02 /* IPv4 options, a routing header, or too many extension headers */
#define HDR_DF	      0x04 /* the sender forbids fragmentation: IPv4 with DF, IPv6 always */
#define HDR_TRANSPORT 0x08 /* the first 8 octets of the transport header were there to read */

/* One IP header and the start of what follows it. */
struct headers {
	union address src;
	union address dst;
	__u32 transport; /* offset of the transport header from the start of the frame; 0: there is none */
	__be16 sport;	 /* the two ports are 0 unless the protocol is TCP or UDP */
	__be16 dport;
	__u8 protocol; /* the last next-header value that was reached */
	__u8 flags;    /* HDR_* */
	__u8 icmp_type;
	__u8 icmp_code;
};

/* The first 12 octets of a frame. */
struct macs {
	__u8 dst[ETH_ALEN];
	__u8 src[ETH_ALEN];
};

struct packet {
	struct ethhdr eth;
	__u8 start[8]; /* of the IP header */
	__u8 family;   /* 4 or 6 */
	__u8 ttl;      /* or hop limit */
	__u32 end;     /* offset of the first octet behind the IP packet */
	__u32 jumbo;   /* octets of a hop-by-hop header that segmentation will take away */
	__u16 check;   /* IPv4 header checksum as it stands in the packet */
	__u8 error;    /* an ICMP error: quoted is what it quotes */
	__u8 outside;  /* the other end is known to be neither the node nor a pod of it */
	__u8 begins;   /* the first packet of a connection, as far as anybody can tell */
	__u8 pad[3];
	struct headers ip;
	struct headers quoted; /* all zero where the quote could not be read */
};

/* Copies a header at a constant offset to *to. Non-zero: it is not there. Nearly always it lies in the linear
 * part, where it can be read without a call. */
#define read_header(skb, offset, to)                                                                         \
	({                                                                                                   \
		void *start_ = (void *)(long)(skb)->data + (offset);                                         \
		bool linear_ = start_ + sizeof(*(to)) <= (void *)(long)(skb)->data_end;                      \
                                                                                                             \
		if (linear_)                                                                                 \
			*(to) = *(typeof(to))start_;                                                         \
		linear_ ? 0 : bpf_skb_load_bytes(skb, offset, to, sizeof(*(to)));                            \
	})

/* The same of something `behind` octets into the transport header. Nearly always nothing stands between that
 * and the IP header, so that its place is a constant. */
#define read_behind(skb, transport, behind, to)                                                              \
	({                                                                                                   \
		int code_;                                                                                   \
                                                                                                             \
		if ((transport) == ETH_HLEN + sizeof(struct iphdr))                                          \
			code_ = read_header(skb, ETH_HLEN + sizeof(struct iphdr) + (behind), to);            \
		else if ((transport) == ETH_HLEN + sizeof(struct ipv6hdr))                                   \
			code_ = read_header(skb, ETH_HLEN + sizeof(struct ipv6hdr) + (behind), to);          \
		else                                                                                         \
			code_ = bpf_skb_load_bytes(skb, (transport) + (behind), to, sizeof(*(to)));          \
		code_;                                                                                       \
	})

static __always_inline bool same_address(const union address *a, const union address *b)
{
	return a->words[0] == b->words[0] && a->words[1] == b->words[1] && a->words[2] == b->words[2] &&
	       a->words[3] == b->words[3];
}

static __always_inline bool is_zero(const union address *a)
{
	return !(a->words[0] | a->words[1] | a->words[2] | a->words[3]);
}

/* The netmask's part in one 32-bit word, of which the prefix has `bits` left. */
static __always_inline __u32 word_mask(int bits)
{
	return bits >= 32 ? ~0U : bpf_htonl(~(~0U >> (bits & 31)));
}

static __always_inline bool same_prefix(const union address *a, const union address *b, int bits)
{
	for (int i = 0; i < 4 && bits > 0; i++, bits -= 32)
		if ((a->words[i] ^ b->words[i]) & word_mask(bits))
			return false;
	return true;
}

static __always_inline bool is_link_local4(const union address *a)
{
	return a->octets[0] == 169 && a->octets[1] == 254;
}

static __always_inline bool is_link_local6(const union address *a)
{
	return a->octets[0] == 0xfe && (a->octets[1] & 0xc0) == 0x80;
}

static __always_inline bool is_multicast(__u8 family, const union address *a)
{
	return family == 4 ? (a->octets[0] & 0xf0) == 0xe0 : a->octets[0] == 0xff;
}

static __always_inline bool is_loopback(__u8 family, const union address *a)
{
	if (family == 4)
		return a->octets[0] == 127;
	return !(a->words[0] | a->words[1] | a->words[2]) && a->words[3] == bpf_htonl(1);
}

/* 255.255.255.255 */
static __always_inline bool is_limited_broadcast(__u8 family, const union address *a)
{
	return family == 4 && a->words[0] == ~0U;
}

/* The highest address of the subnet around `self`; /31 and /32 have none. */
static __always_inline bool is_subnet_broadcast(__u8 family, const union address *a,
						const union address *self, __u8 prefix_len)
{
	return family == 4 && prefix_len <= 30 && same_prefix(a, self, prefix_len) &&
	       (a->words[0] | word_mask(prefix_len)) == ~0U;
}

#endif
