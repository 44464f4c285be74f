# SPDX-License-Identifier: Apache-2.0
# PODUPLINK_VERSION: the git description where there is one, else the project's version.
find_package(Git QUIET)
set(PODUPLINK_VERSION "${PROJECT_VERSION}")
if(GIT_FOUND)
  execute_process(
    COMMAND "${GIT_EXECUTABLE}" -C "${PROJECT_SOURCE_DIR}" describe --tags --always --dirty
    OUTPUT_VARIABLE description OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0 AND description MATCHES "^v[0-9]")
    string(SUBSTRING "${description}" 1 -1 PODUPLINK_VERSION)
  elseif(status EQUAL 0 AND NOT description STREQUAL "")
    set(PODUPLINK_VERSION "${PROJECT_VERSION}+${description}")
  endif()
endif()
