/* SPDX-License-Identifier: Apache-2.0 */
/* The least that a program on a pod's veth can do to steer: a redirect, without a question. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define AF_INET 2
#define AF_INET6 10

/* Set before the load. */
const volatile struct {
  __u32 uplink;
  __u32 veth;
  __be32 gateway4;
  __be32 gateway6[4];
  __be32 pod4;
  __be32 pod6[4];
} route;

SEC("tc")
int redirect_out(struct __sk_buff* skb) {
  struct bpf_redir_neigh nh = {};

  if (skb->protocol == bpf_htons(ETH_P_IP)) {
    nh.nh_family = AF_INET;
    nh.ipv4_nh = route.gateway4;
  } else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
    nh.nh_family = AF_INET6;
    for (int i = 0; i < 4; i++) nh.ipv6_nh[i] = route.gateway6[i];
  } else {
    return TC_ACT_UNSPEC;
  }
  return bpf_redirect_neigh(route.uplink, &nh, sizeof(nh), 0);
}

struct frame4 {
  struct ethhdr eth;
  struct iphdr ip;
} __attribute__((packed));

struct frame6 {
  struct ethhdr eth;
  struct ipv6hdr ip;
} __attribute__((packed));

SEC("tc")
int redirect_in(struct __sk_buff* skb) {
  struct frame4* v4 = (void*)(long)skb->data;
  struct frame6* v6 = (void*)(long)skb->data;
  void* end = (void*)(long)skb->data_end;

  if (skb->protocol == bpf_htons(ETH_P_IP)) {
    if ((void*)(v4 + 1) > end || v4->ip.daddr != route.pod4) return TC_ACT_UNSPEC;
  } else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
    if ((void*)(v6 + 1) > end) return TC_ACT_UNSPEC;
    for (int i = 0; i < 4; i++)
      if (v6->ip.daddr.in6_u.u6_addr32[i] != route.pod6[i]) return TC_ACT_UNSPEC;
  } else {
    return TC_ACT_UNSPEC;
  }
  return bpf_redirect_peer(route.veth, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
