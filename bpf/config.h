/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the loader decides before it loads the programs: skeleton member rodata->config. */
#ifndef PODUPLINK_BPF_CONFIG_H
#define PODUPLINK_BPF_CONFIG_H

#include "maps.bpf.h"

/* Weak for the same reason as the maps: three entry files, one linked object. */
const volatile struct pdl_config config __weak = {};

#endif
