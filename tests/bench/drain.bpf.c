/* SPDX-License-Identifier: Apache-2.0 */
/* Where a measured packet ends: counted and dropped at the first hook behind its last device. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define DISCARD_PORT 9

struct frame4 {
  struct ethhdr eth;
  struct iphdr ip;
  struct udphdr udp;
} __attribute__((packed));

struct frame6 {
  struct ethhdr eth;
  struct ipv6hdr ip;
  struct udphdr udp;
} __attribute__((packed));

__u64 arrived;

static __always_inline int is_measured(void* data, void* end) {
  struct frame4* v4 = data;
  struct frame6* v6 = data;

  /* The least that both families' frames have. */
  if ((void*)(v4 + 1) > end) return 0;
  if (v4->eth.h_proto == bpf_htons(ETH_P_IP))
    return v4->ip.protocol == IPPROTO_UDP && v4->udp.dest == bpf_htons(DISCARD_PORT);
  return v4->eth.h_proto == bpf_htons(ETH_P_IPV6) && (void*)(v6 + 1) <= end && v6->ip.nexthdr == IPPROTO_UDP &&
         v6->udp.dest == bpf_htons(DISCARD_PORT);
}

SEC("tc")
int drain(struct __sk_buff* skb) {
  if (!is_measured((void*)(long)skb->data, (void*)(long)skb->data_end)) return TC_ACT_UNSPEC;
  __sync_fetch_and_add(&arrived, 1);
  return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Apache-2.0";
