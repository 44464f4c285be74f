/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* On every uplink, ingress: what arrives for pods. */
#include "to_pod.h"

SEC("tc")
int uplink_ingress(struct __sk_buff *skb)
{
	return frame_to_pod(skb);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
