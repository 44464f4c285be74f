/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* On a pod's host veth, ingress: what the pod sends. */
#include "from_pod.h"

SEC("tc")
int pod_egress(struct __sk_buff *skb)
{
	return frame_from_pod(skb);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
