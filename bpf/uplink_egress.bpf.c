/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* On every uplink, egress: what the stack sends out by the wrong one. */
#include "late.h"

SEC("tc")
int uplink_egress(struct __sk_buff *skb)
{
	return frame_to_wire(skb);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
