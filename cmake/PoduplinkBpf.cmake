# SPDX-License-Identifier: Apache-2.0
# The BPF side: clang-19 compiles each entry file, bpftool links them and writes the skeleton header.
find_program(BPF_CLANG NAMES clang-19 REQUIRED)
find_program(BPFTOOL NAMES bpftool PATHS /usr/sbin /sbin REQUIRED)
pkg_check_modules(LIBBPF REQUIRED IMPORTED_TARGET libbpf>=1.3)

# Where <asm/types.h> of this architecture lies on Debian.
set(BPF_ARCH_INCLUDE "/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}")
set(BPF_FLAGS -O2 -g -target bpf -mcpu=v3 -std=gnu11 -Wall -Wextra -Werror
  "-I${PROJECT_SOURCE_DIR}/maps" "-I${PROJECT_SOURCE_DIR}/bpf" -isystem "${BPF_ARCH_INCLUDE}"
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")

# pdl_bpf_object(NAME SOURCES file... [DEFINES D...] [SKELETON name])
# Makes <NAME>.bpf.o from the entry files and, with SKELETON, <NAME>.skel.h (struct <SKELETON>). Target NAME
# is an interface library: linking it gives the skeleton's folder and libbpf. Its property PDL_BPF_OBJECT is
# the path of the linked object.
function(pdl_bpf_object name)
  cmake_parse_arguments(arg "" "SKELETON" "SOURCES;DEFINES" ${ARGN})
  set(objects)
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(stem "${source}" NAME_WE)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.dir/${stem}.o")
    add_custom_command(OUTPUT "${object}"
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${CMAKE_CURRENT_BINARY_DIR}/${name}.dir"
      COMMAND "${BPF_CLANG}" ${BPF_FLAGS} ${arg_DEFINES} -MD -MF "${object}.d" -c "${source}" -o "${object}"
      DEPENDS "${source}" DEPFILE "${object}.d" VERBATIM
      COMMENT "BPF ${name}/${stem}")
    list(APPEND objects "${object}")
  endforeach()
  set(linked "${CMAKE_CURRENT_BINARY_DIR}/${name}.bpf.o")
  add_custom_command(OUTPUT "${linked}"
    COMMAND "${BPFTOOL}" gen object "${linked}" ${objects}
    DEPENDS ${objects} VERBATIM COMMENT "BPF link ${name}")
  set(outputs "${linked}")
  if(arg_SKELETON)
    set(skeleton "${CMAKE_CURRENT_BINARY_DIR}/${name}.skel.h")
    add_custom_command(OUTPUT "${skeleton}"
      # The skeleton names the structs of the read-only data but does not define them.
      COMMAND sh -c "{ echo '#include \"maps/abi.h\"'; \"$1\" gen skeleton \"$2\" name \"$3\"; } > \"$4.tmp\" && mv \"$4.tmp\" \"$4\"" sh
        "${BPFTOOL}" "${linked}" "${arg_SKELETON}" "${skeleton}"
      DEPENDS "${linked}" VERBATIM COMMENT "BPF skeleton ${name}")
    list(APPEND outputs "${skeleton}")
  endif()
  add_custom_target(${name}_files DEPENDS ${outputs})
  add_library(${name} INTERFACE)
  add_dependencies(${name} ${name}_files)
  target_include_directories(${name} SYSTEM INTERFACE "${CMAKE_CURRENT_BINARY_DIR}")
  target_link_libraries(${name} INTERFACE PkgConfig::LIBBPF)
  set_property(TARGET ${name} PROPERTY PDL_BPF_OBJECT "${linked}")
endfunction()
