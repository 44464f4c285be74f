/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "config.h"

SEC("tc")
int pod_egress(struct __sk_buff *skb)
{
	(void)skb;
	return -1;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
