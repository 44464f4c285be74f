# SPDX-License-Identifier: Apache-2.0
# How every target of this project is compiled and linked.
option(PODUPLINK_SANITIZE "Build with address and undefined behaviour sanitizers" OFF)

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBNL REQUIRED libnl-3.0)
find_package(nlohmann_json REQUIRED)

add_library(pdl_options INTERFACE)
target_include_directories(pdl_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(pdl_options INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align -Wconversion -Wsign-conversion
  -Wnull-dereference -Wformat=2 -Werror
  # Designated initialisers leave members at their defaults on purpose.
  -Wno-missing-field-initializers
  -ffunction-sections -fdata-sections
  # Small, because the plugins are run a thousand times a minute and link everything; PDL_FAST: what has much to print.
  $<$<CONFIG:Release>:$<IF:$<BOOL:$<TARGET_PROPERTY:PDL_FAST>>,-O2,-Os>>)
target_link_options(pdl_options INTERFACE -Wl,--gc-sections)
if(PODUPLINK_SANITIZE)
  target_compile_options(pdl_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(pdl_options INTERFACE -fsanitize=address,undefined)
  # GCC sees null pointers in the sanitizers' own branches.
  target_compile_options(pdl_options INTERFACE -Wno-null-dereference -Wno-maybe-uninitialized)
endif()

# By plain name and not by the path that pkg-config resolves, so that a -static program takes the archive.
add_library(pdl_libnl INTERFACE)
target_include_directories(pdl_libnl SYSTEM INTERFACE ${LIBNL_INCLUDE_DIRS})
target_link_libraries(pdl_libnl INTERFACE nl-3)

# pdl_library(NAME SOURCES... LINK LIBS...): a static library of one folder.
function(pdl_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC pdl_options ${arg_LINK})
endfunction()

# pdl_program(NAME SOURCES... LINK LIBS... [STATIC]): a program in build/bin. STATIC: no shared library at
# all, stripped; not under the sanitizers, whose runtime is a shared library.
function(pdl_program name)
  cmake_parse_arguments(arg "STATIC" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE pdl_options ${arg_LINK})
  if(arg_STATIC AND NOT PODUPLINK_SANITIZE)
    target_link_options(${name} PRIVATE -static $<$<CONFIG:Release>:-s>)
  endif()
endfunction()
