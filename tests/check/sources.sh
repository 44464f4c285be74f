# shellcheck shell=bash
# Lists of the repository's files. Sourced by the checks beside it, which are called with the source folder
# and the build folder.
set -euo pipefail

# shellcheck disable=SC2034 # used by those that source this
source_dir=$1 build_dir=${2:-}
cd "$source_dir"

# Files of git where there is one, else (a tarball) all that are not build folders; arguments are find patterns.
sources() {
  local pattern
  for pattern in "$@"; do
    if git rev-parse --git-dir >/dev/null 2>&1; then
      git ls-files --cached --others --exclude-standard -- "$pattern"
    else
      find . -path './build*' -prune -o -path "./$pattern" -type f -print | sed 's,^\./,,'
    fi
  done | sort -u
}

report() {
  echo "$1" >&2
  failed=1
}
failed=0
