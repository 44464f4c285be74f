// SPDX-License-Identifier: Apache-2.0
// docs/session.md, done as it stands: its files are written, its commands run, and they must say what it says.
#include <sstream>

#include "loader/base/file.h"
#include "tests/deploy/machine.h"
#include "tests/deploy/package.h"
#include "tests/e2e/steps.h"
#include "tests/harness/temporary_folder.h"

using namespace poduplink;
using namespace poduplink::harness;

namespace {

using Lines = std::vector<std::string>;

constexpr std::string_view anything = "…";  // of a line, or as a line of its own: any lines

struct Step {
  std::string where;    // "node", "gw2"
  std::string command;  // empty: a file is written
  Lines expected;
  std::string file;
  std::string content;
};

// The fenced blocks: "```console" with commands behind a prompt and what they print; "```json /root/x" a file.
std::vector<Step> read_session(const std::string& path) {
  std::vector<Step> steps;
  std::istringstream text(value_of(read_file(path)));
  bool inside = false;
  bool file = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      const std::size_t place = line.find(' ');
      file = inside && place != std::string::npos;
      if (file)
        steps.push_back(
            {.where = "node", .command = {}, .expected = {}, .file = line.substr(place + 1), .content = {}});
      if (inside && !file && line != "```console") FAIL(path << ": a block that nobody runs: " << line);
    } else if (inside && file) {
      steps.back().content += line + "\n";
    } else if (const std::size_t prompt = line.find("# "); inside && prompt != std::string::npos && prompt < 5) {
      steps.push_back({.where = line.substr(0, prompt),
                       .command = line.substr(prompt + 2),
                       .expected = {},
                       .file = {},
                       .content = {}});
    } else if (inside) {
      REQUIRE_FALSE(steps.empty());
      steps.back().expected.push_back(line);
    }
  }
  return steps;
}

// Words with one blank between them.
std::string plain(const std::string& line) {
  std::istringstream words(line);
  std::string text;
  for (std::string word; words >> word;) text += (text.empty() ? "" : " ") + word;
  return text;
}

bool line_matches(std::string_view expected, std::string_view line) {
  const std::size_t gap = expected.find(anything);
  if (gap == std::string_view::npos) return expected == line;
  if (!line.starts_with(expected.substr(0, gap))) return false;
  const std::string_view rest = expected.substr(gap + anything.size());
  for (std::size_t at = gap; at <= line.size(); ++at) {
    if (line_matches(rest, line.substr(at))) return true;
  }
  return false;
}

bool lines_match(const Lines& expected, const Lines& lines, std::size_t first = 0, std::size_t at = 0) {
  if (first == expected.size()) return at == lines.size();
  if (expected[first] == anything) {
    for (std::size_t skip = at; skip <= lines.size(); ++skip) {
      if (lines_match(expected, lines, first + 1, skip)) return true;
    }
    return false;
  }
  return at < lines.size() && line_matches(plain(expected[first]), plain(lines[at])) &&
         lines_match(expected, lines, first + 1, at + 1);
}

Lines lines_in(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  while (!lines.empty() && plain(lines.back()).empty()) lines.pop_back();
  return lines;
}

// What only looks may be asked again, as a reader would who is told to wait.
bool only_looks(const std::string& command) {
  return (command.starts_with("poduplinkctl ") && !command.contains("install")) || command.contains(" ping ");
}

class Session {
 public:
  explicit Session(const std::string& package) : lab_(value_of(Lab::create({.uplinks = 2}))) {
    // So that a silent gateway is noticed in seconds.
    value_of(lab_->node().sysctl(
        {"net.ipv4.neigh.eth2.base_reachable_time_ms=1000", "net.ipv4.neigh.eth2.delay_first_probe_time=1"}));
    value_of(lab_->accept_changes({"base_reachable_time", "delay_first_probe_time"}));
    machine_ = value_of(Machine::boot(*lab_));
    value_of(write_file_atomically(machine_->path("/root/poduplink.deb"), value_of(read_file(package)), 0644));
  }

  void perform(const Step& step) const {
    INFO(step.where << "# " << step.command << step.file);
    if (!step.file.empty()) {
      const bool script = step.content.starts_with("#!");
      value_of(write_file_atomically(machine_->path(step.file), step.content, script ? 0755 : 0644));
      return;
    }
    Lines said;
    const auto fits = [&] {
      said = lines_in(run(step));
      return lines_match(step.expected, said);
    };
    const bool well = only_looks(step.command) ? eventually(fits, std::chrono::seconds(30)) : fits();
    INFO("said:\n" << lines_of(said));
    INFO("expected:\n" << lines_of(step.expected));
    REQUIRE(well);
  }

  [[nodiscard]] Lab& lab() const { return *lab_; }

 private:
  [[nodiscard]] std::string run(const Step& step) const {
    const std::string script = "cd /root; { " + step.command + "\n} 2>&1";
    if (step.where == "node") return value_of(machine_->run({"sh", "-c", script})).out;
    return value_of(value_of(lab_->find_namespace(step.where))->run({"sh", "-c", script})).out;
  }

  std::unique_ptr<Lab> lab_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace

TEST_CASE("docs/session.md: the package is installed, pods are added, a gateway breaks, is found and mended") {
  const tests::TemporaryFolder folder;
  const Session session(value_of(make_package(folder.path())));
  const std::vector<Step> steps = read_session(PDL_SESSION);
  REQUIRE(steps.size() > 10);
  for (const Step& step : steps) session.perform(step);
  REQUIRE_CLOSED(session.lab());
}

TEST_CASE("a session's expectations are held against all that was said") {
  CHECK(lines_match({"a …", "…", "c"}, {"a  b", "x", "y", "c"}));
  CHECK(lines_match({"…"}, {}));
  CHECK(lines_match({"a … c"}, {"a b b c"}));
  CHECK_FALSE(lines_match({"a"}, {"a", "b"}));
  CHECK_FALSE(lines_match({"a", "b"}, {"a"}));
  CHECK_FALSE(lines_match({"a … c"}, {"a b"}));
  CHECK_FALSE(lines_match({}, {"a"}));
}
