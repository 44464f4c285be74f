# SPDX-License-Identifier: Apache-2.0
# Fuzz targets: the parsers, compiled once more by clang with libFuzzer, whatever compiles the rest of the build.
find_program(FUZZ_CLANG NAMES clang++-19 REQUIRED)

set(FUZZ_FLAGS -std=c++23 -O1 -gline-tables-only -fno-omit-frame-pointer
  -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow -fno-sanitize-recover=all)
# What a target does not use need not be linked.
list(APPEND FUZZ_FLAGS -ffunction-sections -fdata-sections)
set(FUZZ_INCLUDES "-I${PROJECT_SOURCE_DIR}")
foreach(folder IN LISTS LIBNL_INCLUDE_DIRS)
  list(APPEND FUZZ_INCLUDES -isystem "${folder}")
endforeach()

# pdl_fuzz_objects(VARIABLE SOURCES files...): paths from the top of the tree; VARIABLE becomes the list of objects.
function(pdl_fuzz_objects variable)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  set(objects)
  foreach(source IN LISTS arg_SOURCES)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/objects/${source}.o")
    get_filename_component(folder "${object}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    add_custom_command(OUTPUT "${object}"
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} "${FUZZ_CLANG}" ${FUZZ_FLAGS} ${FUZZ_INCLUDES} -MD -MF "${object}.d"
        -c "${PROJECT_SOURCE_DIR}/${source}" -o "${object}"
      DEPENDS "${PROJECT_SOURCE_DIR}/${source}" DEPFILE "${object}.d" VERBATIM COMMENT "Fuzz ${source}")
    list(APPEND objects "${object}")
  endforeach()
  set(${variable} "${objects}" PARENT_SCOPE)
endfunction()

# pdl_fuzz_target(NAME SOURCES files... OBJECTS objects...): the program build/bin/fuzz/<NAME>.
function(pdl_fuzz_target name)
  cmake_parse_arguments(arg "" "" "SOURCES;OBJECTS" ${ARGN})
  pdl_fuzz_objects(own SOURCES ${arg_SOURCES})
  set(program "${PROJECT_BINARY_DIR}/bin/fuzz/${name}")
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/bin/fuzz")
  add_custom_command(OUTPUT "${program}"
    COMMAND "${FUZZ_CLANG}" -fsanitize=fuzzer,address,undefined,float-cast-overflow -Wl,--gc-sections
      ${own} ${arg_OBJECTS} -lnl-3 -o "${program}"
    DEPENDS ${own} ${arg_OBJECTS} VERBATIM COMMENT "Fuzz target ${name}")
  add_custom_target(fuzz_${name} ALL DEPENDS "${program}")
endfunction()
