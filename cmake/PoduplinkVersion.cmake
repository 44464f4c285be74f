# SPDX-License-Identifier: Apache-2.0
# PODUPLINK_VERSION, of the programs and of the package alike, in a form that dpkg sorts as git does:
#   0.2.0                   the tag v0.2.0 itself
#   0.2.0+3.gabc1234        three commits behind it
#   0.1.0~dev320.gabc1234   no tag yet, 320 commits: before the first release
#   0.1.0                   a tree without git
# ".dirty" is appended where files differ from the commit. -DPODUPLINK_VERSION=… names another one.
# Target pdl_version is the only one that knows it, so that a new commit compiles one file.
set(PODUPLINK_VERSION "" CACHE STRING "Version of programs and package; empty: from git")

# git_output(VARIABLE ARGUMENTS...): the line that git prints, empty where it fails.
function(git_output variable)
  # The tree may belong to somebody else (a container's builder, sudo).
  execute_process(
    COMMAND "${GIT_EXECUTABLE}" -c "safe.directory=${PROJECT_SOURCE_DIR}" -C "${PROJECT_SOURCE_DIR}" ${ARGN}
    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(output "")
  endif()
  set(${variable} "${output}" PARENT_SCOPE)
endfunction()

function(version_from_git variable)
  set(${variable} "${PROJECT_VERSION}" PARENT_SCOPE)
  find_package(Git QUIET)
  if(NOT GIT_FOUND)
    return()
  endif()
  # A tree unpacked somewhere inside of another project's repository has no git of its own.
  git_output(top rev-parse --show-toplevel)
  file(REAL_PATH "${PROJECT_SOURCE_DIR}" here)
  if(NOT top STREQUAL here)
    return()
  endif()
  # Commits, checkouts and rebases are written there: the next build configures anew.
  git_output(log rev-parse --path-format=absolute --git-path logs/HEAD)
  if(EXISTS "${log}")
    set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${log}")
  endif()
  git_output(description describe --tags --long --match "v[0-9]*")
  git_output(changes status --porcelain --untracked-files=no)
  if(description MATCHES "^v(.+)-([0-9]+)-(g[0-9a-f]+)$")
    set(version "${CMAKE_MATCH_1}")
    if(CMAKE_MATCH_2 GREATER 0)
      string(APPEND version "+${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
    endif()
  else()
    git_output(count rev-list --count HEAD)
    git_output(commit rev-parse --short=7 HEAD)
    set(version "${PROJECT_VERSION}~dev${count}.g${commit}")
  endif()
  if(NOT changes STREQUAL "")
    string(APPEND version ".dirty")
  endif()
  # A tag may be v1.0-rc1: before 1.0, for dpkg too.
  string(REPLACE "-" "~" version "${version}")
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()

if(PODUPLINK_VERSION STREQUAL "")
  version_from_git(PODUPLINK_VERSION)
endif()
message(STATUS "poduplink ${PODUPLINK_VERSION}")
