// SPDX-License-Identifier: Apache-2.0
#include "loader/ctl/program_run.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <sched.h>

#include <optional>
#include <span>

#include "maps/abi.h"
#include "maps/bpf.h"
#include "maps/paths.h"

namespace poduplink::ctl {
namespace {

constexpr unsigned attempts = 100;

// The counters of one CPU.
class VerdictCounters {
 public:
  static Result<VerdictCounters> open(const std::string& version_folder, unsigned cpu) {
    PDL_TRY_ASSIGN(Fd fd, bpf::open_pinned(map_pin(version_folder, "verdicts")));
    PDL_TRY_ASSIGN(const unsigned cpus, bpf::possible_cpus());
    if (cpu >= cpus) return fail("processor {} of {} possible ones", cpu, cpus);
    return VerdictCounters(std::move(fd), cpu, cpus);
  }

  Result<std::vector<std::uint64_t>> read() {
    const std::uint32_t key = 0;
    PDL_TRY(bpf::lookup(fd_.get(), &key, all_.data()));
    const auto own = std::span(all_).subspan(std::size_t{cpu_} * PDL_VERDICT_COUNT, PDL_VERDICT_COUNT);
    return std::vector<std::uint64_t>(own.begin(), own.end());
  }

 private:
  VerdictCounters(Fd fd, unsigned cpu, unsigned cpus)
      : fd_(std::move(fd)), cpu_(cpu), all_(std::size_t{cpus} * PDL_VERDICT_COUNT) {}

  Fd fd_;
  unsigned cpu_;
  std::vector<std::uint64_t> all_;
};

// On one processor while it lives, so that a test run counts there.
class OneProcessor {
 public:
  static Result<OneProcessor> stay() {
    OneProcessor stay;
    if (::sched_getaffinity(0, sizeof(stay.before_), &stay.before_) != 0) return fail_errno(errno, "processors");
    const int here = ::sched_getcpu();
    if (here < 0) return fail_errno(errno, "processor");
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(here), &one);
    if (::sched_setaffinity(0, sizeof(one), &one) != 0) return fail_errno(errno, "processor {}", here);
    stay.cpu_ = static_cast<unsigned>(here);
    stay.staying_ = true;
    return stay;
  }
  OneProcessor(OneProcessor&& other) noexcept
      : before_(other.before_), cpu_(other.cpu_), staying_(std::exchange(other.staying_, false)) {}
  OneProcessor& operator=(OneProcessor&&) = delete;
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;
  ~OneProcessor() {
    if (staying_) (void)::sched_setaffinity(0, sizeof(before_), &before_);
  }
  [[nodiscard]] unsigned cpu() const { return cpu_; }

 private:
  OneProcessor() { CPU_ZERO(&before_); }
  cpu_set_t before_;
  unsigned cpu_ = 0;
  bool staying_ = false;
};

// The only counter that went up, by one. Nothing where other packets came between.
std::optional<unsigned> only_one(const std::vector<std::uint64_t>& before, const std::vector<std::uint64_t>& after) {
  std::optional<unsigned> found;
  for (unsigned i = 0; i < PDL_VERDICT_COUNT; ++i) {
    if (after[i] == before[i]) continue;
    if (found || after[i] != before[i] + 1) return std::nullopt;
    found = i;
  }
  return found;
}

}  // namespace

Result<ProgramRun> run_program(const std::string& version_folder, const std::string& program,
                               const std::vector<std::uint8_t>& frame, int ifindex, int ingress_ifindex) {
  PDL_TRY_ASSIGN(const Fd fd, bpf::open_pinned(program_pin(version_folder, program)));
  PDL_TRY_ASSIGN(const OneProcessor processor, OneProcessor::stay());
  PDL_TRY_ASSIGN(VerdictCounters counters, VerdictCounters::open(version_folder, processor.cpu()));
  for (unsigned attempt = 0; attempt < attempts; ++attempt) {
    __sk_buff context{};
    context.ifindex = static_cast<__u32>(ifindex);
    context.ingress_ifindex = static_cast<__u32>(ingress_ifindex);
    std::vector<std::uint8_t> out(4096);
    LIBBPF_OPTS(bpf_test_run_opts, options);
    options.data_in = frame.data();
    options.data_size_in = static_cast<__u32>(frame.size());
    options.data_out = out.data();
    options.data_size_out = static_cast<__u32>(out.size());
    options.ctx_in = &context;
    options.ctx_size_in = sizeof(context);
    options.repeat = 1;
    PDL_TRY_ASSIGN(const auto before, counters.read());
    if (const int done = bpf_prog_test_run_opts(fd.get(), &options); done != 0)
      return fail_errno(-done, "test run of {} on interface {}", program, ifindex);
    PDL_TRY_ASSIGN(const auto after, counters.read());
    if (const auto verdict = only_one(before, after))
      return ProgramRun{.verdict = *verdict, .action = static_cast<int>(options.retval)};
  }
  return fail("{}: {} test runs, and each time other packets were counted as well: the verdict cannot be told", program,
              attempts);
}

}  // namespace poduplink::ctl
