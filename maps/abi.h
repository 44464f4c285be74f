/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * The layout of every pinned map: the one definition that the BPF programs and the C++ side share.
 *
 * Rules, each checked by tests/bpf/object_test.cpp against the BTF of the built object:
 *  - addresses and MACs are octet arrays in the order of the wire, so that `bpftool map dump` shows
 *    [10,2,1,5] and nobody has to think about byte order;
 *  - every other number is in host byte order; a zero address, MAC or index means "none";
 *  - padding is explicit and always zero (hash keys are compared byte by byte);
 *  - a change of any layout raises PDL_ABI_VERSION.
 */
#ifndef PODUPLINK_MAPS_ABI_H
#define PODUPLINK_MAPS_ABI_H

#include <linux/types.h>

#ifdef __cplusplus
#define PDL_ASSERT(condition, text) static_assert(condition, text)
#define PDL_BYTE_ENUM(name) enum name : __u8
extern "C" {
#else
#define PDL_ASSERT(condition, text) _Static_assert(condition, text)
/* One octet wide on both sides; bpftool prints the enumerator's name. */
#define PDL_BYTE_ENUM(name) enum __attribute__((packed)) name
#endif

/* Names the pin directory: PIN_DIR/v<ABI>/. */
#define PDL_ABI_VERSION 1

/* Default sizes in entries; the agent may set others at load time. */
#define PDL_MAX_PODS 65536
#define PDL_MAX_NODES 4096
#define PDL_MAX_UPLINKS 256
#define PDL_MAX_EXEMPT 16384
#define PDL_MAX_FASTFLOWS 65536
#define PDL_EVENTS_BYTES (256 * 1024)

/* Link-local IPv4 prefixes that one uplink may claim ("linkLocal"). */
#define PDL_MAX_LINK_LOCAL 8

/* Room for an interface name with its final zero (IFNAMSIZ of <linux/if.h>). */
#define PDL_NAME_SIZE 16

/* MAC of every host veth (RTM_NEWLINK), and so the pod's permanent neighbour: "\2podup". */
#define PDL_HOST_MAC { 0x02, 0x70, 0x6f, 0x64, 0x75, 0x70 }

/* The pod's gateways: the same for all pods, answered by pod_egress. */
#define PDL_POD_GATEWAY4 { 169, 254, 1, 1 }
#define PDL_POD_GATEWAY6 { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 }

/* ---- pods4, pods6 ------------------------------------------------------------------------- */

struct pdl_addr4 {
	__u8 addr[4];
};

struct pdl_addr6 {
	__u8 addr[16];
};

PDL_BYTE_ENUM(pdl_mode) {
	PDL_MODE_FAST = 1,      /* redirected on the veth, before netfilter */
	PDL_MODE_NETFILTER = 2, /* through the host's netfilter, steered at the uplink's egress */
};

/* pdl_pod.flags */
#define PDL_POD_ON_LINK 0x01        /* destinations in the pod's own subnet are next hops themselves */
#define PDL_POD_GATEWAY_SILENT 0x02 /* the gateway did not answer when the kernel last asked for its MAC */

/* What is known of one pod address. Written by the plugin; the agent keeps home, MACs and mtu true. */
struct pdl_pod {
	__u64 owner;         /* hash of the attachment: attachment_hash() in maps/attachment.h */
	__u32 home;          /* ifindex of the uplink; 0 while the uplink does not exist */
	__u32 veth;          /* ifindex of the host side of the pod's veth; 0 while the pod is being deleted */
	__u32 mtu;           /* of the home, octets of layer 3; for readers, the programs go by pdl_uplink.mtu */
	__u8 gateway4[4];    /* exactly one of gateway4 and gateway6 is not zero; an IPv4 pod may */
	__u8 gateway6[16];   /* have an IPv6 next hop (RFC 5549), never the other way round */
	__u8 gateway_mac[6]; /* for the reader of a dump; zero while unresolved */
	__u8 pod_mac[6];
	__u8 prefix_len;     /* of the pod's subnet on the uplink */
	enum pdl_mode mode;
	__u8 flags;          /* PDL_POD_* */
	__u8 pad[1];
};
PDL_ASSERT(sizeof(struct pdl_pod) == 56, "struct pdl_pod");

/* ---- nodes4, nodes6 ----------------------------------------------------------------------- */

/* One of the node's own addresses. The next hop is set for an uplink's address only. */
struct pdl_node {
	__u32 ifindex;
	__u8 gateway4[4];
	__u8 gateway6[16];
	__u8 prefix_len;
	__u8 pad[3];
};
PDL_ASSERT(sizeof(struct pdl_node) == 28, "struct pdl_node");

/* ---- uplinks ------------------------------------------------------------------------------ */

PDL_BYTE_ENUM(pdl_role) {
	PDL_ROLE_HOME = 1,    /* pods may have it as their home */
	PDL_ROLE_TRANSIT = 2, /* carries our uplink programs only: a route of the main table leaves by it */
};

PDL_BYTE_ENUM(pdl_state) {
	PDL_STATE_UP = 1,
	PDL_STATE_DOWN = 2,
};

PDL_BYTE_ENUM(pdl_when_down) {
	PDL_WHEN_DOWN_DROP = 1,
	PDL_WHEN_DOWN_STACK = 2,
};

/* pdl_uplink.flags */
#define PDL_UPLINK_ANSWER_NEIGHBOURS 0x01 /* answer ARP and ND for the pods homed here */
#define PDL_UPLINK_STRICT 0x02            /* refuse packets for pods homed elsewhere */
#define PDL_UPLINK_ON_LINK 0x04           /* what pods homed here get as PDL_POD_ON_LINK */
#define PDL_UPLINK_DISCOVERED 0x08        /* found by the agent, not listed in its configuration */
#define PDL_UPLINK_PRIMARY 0x10           /* bears the default route with the lowest metric */

struct pdl_link_local {
	__u8 addr[4];
	__u8 prefix_len;
	__u8 pad[3];
};

/* Written by the agent alone. */
struct pdl_uplink {
	char name[PDL_NAME_SIZE];
	__u32 mtu;
	__u8 mac[6];
	enum pdl_role role;
	enum pdl_state state;
	enum pdl_when_down when_down;
	__u8 flags;            /* PDL_UPLINK_* */
	__u8 link_local_count; /* entries of link_local in use */
	__u8 pad[1];
	__u8 gateway4[4];      /* configured, or of the uplink's own default route; zero: none known */
	__u8 gateway6[16];
	struct pdl_link_local link_local[PDL_MAX_LINK_LOCAL];
};
PDL_ASSERT(sizeof(struct pdl_uplink) == 116, "struct pdl_uplink");

/* ---- exempt4, exempt6 --------------------------------------------------------------------- */

/* LPM keys: the kernel wants the prefix length first, in host byte order. */
struct pdl_prefix4 {
	__u32 prefix_len;
	__u8 addr[4];
};

struct pdl_prefix6 {
	__u32 prefix_len;
	__u8 addr[16];
};

struct pdl_exempt {
	__u32 item; /* place in the configuration's "exempt" list, from 0 */
};

/* ---- fastflows, generation ---------------------------------------------------------------- */

/*
 * A TCP or UDP flow that may take the direct way, as it was judged under one generation of the configuration: the
 * pod's end and the other. IPv4 addresses stand in the first four octets. Made by the programs alone; the kernel throws
 * out what was not used for longest. Nothing depends on an entry being there.
 */
struct pdl_flow {
	__u8 pod[16];
	__u8 peer[16];
	__u32 generation;
	__u16 pod_port;
	__u16 peer_port;
	__u8 protocol;
	__u8 family;
	__u8 pad[2];
};
PDL_ASSERT(sizeof(struct pdl_flow) == 44, "struct pdl_flow");

struct pdl_judged {
	__u64 time_ns; /* CLOCK_MONOTONIC_COARSE, ns: when exempt prefixes and connection tracking were asked */
	__u8 outside;  /* the peer is no pod of this node */
	__u8 pad[7];
};
PDL_ASSERT(sizeof(struct pdl_judged) == 16, "struct pdl_judged");

/* After this the flow is judged anew. With the tick of the coarse clock (10 ms at most) it is never a second. */
#define PDL_JUDGED_NS 900000000ULL

/* Raised after each change of nodes, exempt prefixes or uplinks, after pod entries were made, and when the agent puts
 * programs in place. */
struct pdl_generation {
	__u32 number;
};
PDL_ASSERT(sizeof(struct pdl_generation) == 4, "struct pdl_generation");

/* ---- verdicts ----------------------------------------------------------------------------- */

/*
 * X(counter, what became of the packet). Every packet that a program handles adds one to exactly one
 * counter. No prefix: pod_egress. in_: uplink_ingress. late_: uplink_egress. The PDL_WAY reasons follow
 * each other in the order of enum pdl_way, for both directions.
 */
#define PDL_VERDICTS(X)                                                                                      \
	X(redirected, "sent out of the pod's home uplink")                                                   \
	X(to_pod, "delivered to another pod of this node")                                                   \
	X(neighbour, "ARP request or neighbour solicitation of a pod answered")                              \
	X(not_ip, "to the stack: neither IPv4 nor IPv6")                                                     \
	X(vlan, "to the stack: VLAN-tagged")                                                                 \
	X(malformed, "dropped: header or length wrong, or an ICMP error that quotes a foreign packet")       \
	X(spoofed, "dropped: source address is not the pod's, or a router advertisement or redirect")        \
	X(uplink_down, "dropped: home uplink is missing, down or without next hop")                          \
	X(uplink_down_stack, "to the stack: home uplink is missing or down, whenDown is stack")              \
	X(gateway_silent, "sent out of the home uplink, whose gateway does not answer: lost unless it comes back") \
	X(too_big, "larger than the home's MTU: dropped, or to the stack to be fragmented")                  \
	X(ttl, "to the stack: TTL or hop limit is used up")                                                  \
	X(local_pod, "to the stack: for a pod of this node that cannot be reached directly")                 \
	X(stack_node, "to the stack: for the node's own address, loopback or the unspecified one")           \
	X(stack_link_local, "to the stack: link-local")                                                      \
	X(stack_multicast, "to the stack: multicast")                                                        \
	X(stack_broadcast, "to the stack: broadcast")                                                        \
	X(stack_exempt, "to the stack: exempt destination")                                                  \
	X(stack_netfilter, "to the stack: pod in netfilter mode")                                            \
	X(stack_fragment, "to the stack: fragment")                                                          \
	X(stack_options, "to the stack: IPv4 options, routing header or too many extension headers")         \
	X(stack_protocol, "to the stack: neither TCP, UDP nor ICMP")                                         \
	X(stack_nat, "to the stack: the host NATs this flow")                                                \
	X(in_redirected, "delivered to the pod, arrived on its home")                                        \
	X(in_other_uplink, "delivered to the pod, arrived on another uplink than its home")                  \
	X(in_neighbour, "ARP request or neighbour solicitation for a pod answered")                          \
	X(in_not_ip, "passed: neither IPv4 nor IPv6, or not readable as such")                               \
	X(in_vlan, "passed: VLAN-tagged")                                                                    \
	X(in_foreign_mac, "passed: not addressed to this host at layer 2")                                   \
	X(in_no_pod, "passed: not for a pod of this node")                                                   \
	X(in_malformed, "dropped: an ICMP error for a pod that quotes a foreign packet")                     \
	X(martian, "dropped: for a pod from the wire, source is this node's own or no unicast address")      \
	X(in_strict, "dropped: for a pod homed elsewhere, on an uplink with strict")                         \
	X(in_from_pod, "to the stack: source is a pod of this node")                                         \
	X(in_ttl, "to the stack: TTL or hop limit is used up")                                               \
	X(in_stack_node, "to the stack: from the node's own address")                                        \
	X(in_stack_link_local, "to the stack: from a link-local address")                                    \
	X(in_stack_multicast, "to the stack: quoted peer is multicast")                                      \
	X(in_stack_broadcast, "to the stack: peer is broadcast")                                             \
	X(in_stack_exempt, "to the stack: from an exempt prefix")                                            \
	X(in_stack_netfilter, "to the stack: pod in netfilter mode")                                         \
	X(in_stack_fragment, "to the stack: fragment")                                                       \
	X(in_stack_options, "to the stack: IPv4 options, routing header or too many extension headers")      \
	X(in_stack_protocol, "to the stack: neither TCP, UDP nor ICMP")                                      \
	X(in_stack_nat, "to the stack: the host NATs this flow")                                             \
	X(late_passed, "passed: nothing to steer")                                                           \
	X(late_redirected, "a pod's packet moved to the pod's home uplink")                                  \
	X(late_node, "the node's packet moved to the uplink its source address belongs to")                  \
	X(late_uplink_down, "dropped: home uplink is missing or down")                                       \
	X(late_uplink_down_stack, "passed: home uplink is missing or down, whenDown is stack")               \
	X(late_gateway_silent, "moved to the pod's home uplink, whose gateway does not answer")              \
	X(late_too_big, "dropped: larger than the home's MTU")

enum pdl_verdict {
#define PDL_X(name, text) PDL_VERDICT_##name,
	PDL_VERDICTS(PDL_X)
#undef PDL_X
	PDL_VERDICT_COUNT,
};

/* Why way() says stack; PDL_WAY_FAST says it does not. Added to PDL_VERDICT_stack_node or _in_stack_node. */
enum pdl_way {
	PDL_WAY_NODE,
	PDL_WAY_LINK_LOCAL,
	PDL_WAY_MULTICAST,
	PDL_WAY_BROADCAST,
	PDL_WAY_EXEMPT,
	PDL_WAY_NETFILTER,
	PDL_WAY_FRAGMENT,
	PDL_WAY_OPTIONS,
	PDL_WAY_PROTOCOL,
	PDL_WAY_NAT,
	PDL_WAY_FAST,
	PDL_WAY_MALFORMED, /* neither: an ICMP error that quotes a packet of somebody else */
};
PDL_ASSERT(PDL_VERDICT_stack_nat - PDL_VERDICT_stack_node == PDL_WAY_NAT, "way reasons, pod_egress");
PDL_ASSERT(PDL_VERDICT_in_stack_nat - PDL_VERDICT_in_stack_node == PDL_WAY_NAT, "way reasons, uplink_ingress");

struct pdl_verdicts {
#define PDL_X(name, text) __u64 name;
	PDL_VERDICTS(PDL_X)
#undef PDL_X
};
PDL_ASSERT(sizeof(struct pdl_verdicts) == PDL_VERDICT_COUNT * sizeof(__u64), "struct pdl_verdicts");

/* ---- uplink_stats ------------------------------------------------------------------------- */

/*
 * Pod traffic of one uplink; octets are of whole frames as TC sees them (a packet that is segmented later counts
 * once). The agent makes and removes the entries; the programs count only in those that are there.
 */
struct pdl_uplink_stats {
	__u64 out_packets;    /* left by this uplink with a source address homed here */
	__u64 out_bytes;
	__u64 in_packets;     /* arrived on this uplink for a pod */
	__u64 in_bytes;
	__u64 out_redirects;  /* sent here from a pod's veth */
	__u64 late_redirects; /* sent here from another uplink's egress */
	__u64 in_redirects;   /* delivered from here straight into a pod */
};
PDL_ASSERT(sizeof(struct pdl_uplink_stats) == 56, "struct pdl_uplink_stats");

/* ---- events ------------------------------------------------------------------------------- */

/* A sampled drop, or a packet for a gateway that does not answer. IPv4 addresses stand in the first four octets. Ports are 0 where there are none. */
struct pdl_event {
	__u64 time_ns;  /* CLOCK_MONOTONIC, ns */
	__u32 ifindex;  /* where the program ran */
	__u32 length;   /* octets of the frame */
	__u16 sport;
	__u16 dport;
	__u8 verdict;   /* enum pdl_verdict */
	__u8 family;    /* 4, 6, or 0 where it could not be read */
	__u8 protocol;
	__u8 pad[1];
	__u8 src[16];
	__u8 dst[16];
};
PDL_ASSERT(sizeof(struct pdl_event) == 56, "struct pdl_event");

/* ---- configuration ------------------------------------------------------------------------ */

/* Read-only data of the programs, set by the loader before the load. 0 is no, 1 is yes. */
struct pdl_config {
	__u8 conntrack;  /* bpf_skb_ct_lookup is there: ask it; 0: no flow counts as stack-owned */
	__u8 steer_node; /* "steerNode": uplink_egress steers the node's own packets too */
	__u8 pad[2];
};
PDL_ASSERT(sizeof(struct pdl_config) == 4, "struct pdl_config");

#ifdef __cplusplus
}
#endif

#endif
