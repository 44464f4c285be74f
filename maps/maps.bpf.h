/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps of the datapath. Weak, so that the three entry files can each define them and the BPF linker
 * keeps one. Pin paths are the loader's business: LIBBPF_PIN_BY_NAME would pin for anything that loads it.
 */
#ifndef PODUPLINK_MAPS_BPF_H
#define PODUPLINK_MAPS_BPF_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "abi.h"

#define PDL_MAP __weak SEC(".maps")

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PDL_MAX_PODS);
	__type(key, struct pdl_addr4);
	__type(value, struct pdl_pod);
} pods4 PDL_MAP;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PDL_MAX_PODS);
	__type(key, struct pdl_addr6);
	__type(value, struct pdl_pod);
} pods6 PDL_MAP;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PDL_MAX_NODES);
	__type(key, struct pdl_addr4);
	__type(value, struct pdl_node);
} nodes4 PDL_MAP;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PDL_MAX_NODES);
	__type(key, struct pdl_addr6);
	__type(value, struct pdl_node);
} nodes6 PDL_MAP;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PDL_MAX_UPLINKS);
	__type(key, __u32);
	__type(value, struct pdl_uplink);
} uplinks PDL_MAP;

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, PDL_MAX_EXEMPT);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pdl_prefix4);
	__type(value, struct pdl_exempt);
} exempt4 PDL_MAP;

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, PDL_MAX_EXEMPT);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pdl_prefix6);
	__type(value, struct pdl_exempt);
} exempt6 PDL_MAP;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PDL_MAX_FASTFLOWS);
	__type(key, struct pdl_flow);
	__type(value, struct pdl_judged);
} fastflows PDL_MAP;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pdl_generation);
} generation PDL_MAP;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pdl_verdicts);
} verdicts PDL_MAP;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, PDL_MAX_UPLINKS);
	__type(key, __u32);
	__type(value, struct pdl_uplink_stats);
} uplink_stats PDL_MAP;

/* Carries struct pdl_event. The kernel takes no BTF for a ring buffer's records. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PDL_EVENTS_BYTES);
} events PDL_MAP;

#endif
