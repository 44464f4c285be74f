/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a packet ends: exactly one of pass(), drop() and the redirects, each of which counts one verdict. */
#ifndef PODUPLINK_BPF_VERDICT_H
#define PODUPLINK_BPF_VERDICT_H

#include "maps.bpf.h"
#include "packet.h"

/* Events of all CPUs in one window; what exceeds it is counted but not told. */
#define EVENT_WINDOW_NS	  1000000000ULL
#define EVENTS_PER_WINDOW 100

/* Shared by all CPUs without a lock: a lost update lets a few events more through, which hurts nobody. */
struct {
	__u64 start_ns;
	__u32 sent;
} event_window __weak;

/* Never used: it brings the layout of the ring buffer's records into the object's BTF, as no map does. */
const struct pdl_event *event_layout __weak;

static __always_inline void count(__u32 verdict)
{
	__u32 key = 0;
	__u64 *counters = bpf_map_lookup_elem(&verdicts, &key);

	if (counters && verdict < PDL_VERDICT_COUNT)
		counters[verdict]++;
}

static __always_inline bool event_allowed(__u64 now)
{
	if (now - event_window.start_ns >= EVENT_WINDOW_NS) {
		event_window.start_ns = now;
		event_window.sent = 0;
	}
	if (event_window.sent >= EVENTS_PER_WINDOW)
		return false;
	event_window.sent++;
	return true;
}

static __always_inline void tell(struct __sk_buff *skb, const struct packet *p, __u32 verdict)
{
	__u64 now = bpf_ktime_get_ns();
	struct pdl_event *event;

	if (!event_allowed(now))
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event)
		return;
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = now;
	event->ifindex = skb->ifindex;
	event->length = skb->len;
	event->sport = bpf_ntohs(p->ip.sport);
	event->dport = bpf_ntohs(p->ip.dport);
	event->verdict = verdict;
	event->family = p->family;
	event->protocol = p->ip.protocol;
	__builtin_memcpy(event->src, &p->ip.src, sizeof(event->src));
	__builtin_memcpy(event->dst, &p->ip.dst, sizeof(event->dst));
	bpf_ringbuf_submit(event, 0);
}

/* On to the next program and then the stack: TC_ACT_OK would end the chain before foreign programs. */
static __always_inline int pass(__u32 verdict)
{
	count(verdict);
	return TC_ACT_UNSPEC;
}

static __always_inline int drop(struct __sk_buff *skb, const struct packet *p, __u32 verdict)
{
	count(verdict);
	tell(skb, p, verdict);
	return TC_ACT_SHOT;
}

/* The counters of one uplink on this CPU. The agent makes the entry; without one nothing is counted. */
static __always_inline struct pdl_uplink_stats *stats_of(__u32 ifindex)
{
	return bpf_map_lookup_elem(&uplink_stats, &ifindex);
}

#endif
