// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/drain.h"

#include <bpf/libbpf.h>

#include <atomic>
#include <cerrno>

#include "drain.skel.h"
#include "tests/bench/ingress.h"
#include "tests/bench/must.h"

namespace poduplink::bench {

void Drain::Destroy::operator()(pdl_drain* skeleton) const { pdl_drain__destroy(skeleton); }

Drain::Drain(const harness::Namespace& space, const std::string& device) : skeleton_(pdl_drain__open_and_load()) {
  if (!skeleton_) must(Result<>(fail_errno(errno, "loading the program that counts arrivals")));
  attach_at_ingress(space, device, skeleton_->progs.drain);
}

Drain::Drain(Drain&& other) noexcept = default;
Drain& Drain::operator=(Drain&& other) noexcept = default;
Drain::~Drain() = default;

std::uint64_t Drain::arrived() const { return std::atomic_ref(skeleton_->bss->arrived).load(); }

}  // namespace poduplink::bench
