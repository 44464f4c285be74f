# SPDX-License-Identifier: Apache-2.0
# What is installed where, and the Debian package made of it (cpack -G DEB, in the build folder).
include(GNUInstallDirs)
set(deploy "${PROJECT_SOURCE_DIR}/scripts/deploy")
set(PODUPLINK_CONTACT "The poduplink authors <poduplink@localhost.localdomain>" CACHE STRING "Maintainer of the package")
# Packing does not build: what is not built yet is an error.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

install(TARGETS poduplinkd DESTINATION "${CMAKE_INSTALL_SBINDIR}")
install(TARGETS poduplinkctl DESTINATION "${CMAKE_INSTALL_BINDIR}")
# Not where a runtime looks: `poduplinkctl install` puts them there, in the right order.
install(TARGETS poduplink poduplink-ipam DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/poduplink")
install(FILES "${deploy}/poduplinkd.service" DESTINATION lib/systemd/system)
install(DIRECTORY DESTINATION /etc/poduplink)
install(FILES "${deploy}/kubernetes/config.json" "${deploy}/kubernetes/cni.conflist" "${deploy}/grafana/poduplink.json"
  "${deploy}/prometheus/alerts.yml" DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")
install(FILES "${deploy}/debian/copyright" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES "${deploy}/debian/lintian-overrides" RENAME poduplink DESTINATION "${CMAKE_INSTALL_DATADIR}/lintian/overrides")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md"
  PATTERN man EXCLUDE PATTERN CONTRIBUTING.md EXCLUDE)

# pdl_install_compressed(FILE FOLDER): as Debian wants manual pages and changelogs.
find_program(GZIP gzip REQUIRED)
add_custom_target(package_files ALL) # what is made for the package alone
function(pdl_install_compressed file folder)
  get_filename_component(name "${file}" NAME)
  set(compressed "${PROJECT_BINARY_DIR}/compressed/${name}.gz")
  add_custom_command(OUTPUT "${compressed}" DEPENDS "${file}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/compressed"
    COMMAND sh -c "\"$1\" -9nc \"$2\" > \"$3\"" sh "${GZIP}" "${file}" "${compressed}" VERBATIM COMMENT "gzip ${name}")
  add_custom_target(compressed_${name} DEPENDS "${compressed}")
  add_dependencies(package_files compressed_${name})
  install(FILES "${compressed}" DESTINATION "${folder}")
endfunction()

file(GLOB manuals CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/man/*.[1-8]")
foreach(manual IN LISTS manuals)
  string(REGEX MATCH "[1-8]$" section "${manual}")
  pdl_install_compressed("${manual}" "${CMAKE_INSTALL_MANDIR}/man${section}")
endforeach()
# Named as bash looks for it.
set(completion "${PROJECT_BINARY_DIR}/completion/poduplinkctl")
add_custom_command(OUTPUT "${completion}" DEPENDS poduplinkctl
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/completion"
  COMMAND sh -c "\"$1\" completion bash > \"$2\"" sh $<TARGET_FILE:poduplinkctl> "${completion}" VERBATIM COMMENT "Completion for bash")
add_custom_target(completion DEPENDS "${completion}")
add_dependencies(package_files completion)
install(FILES "${completion}" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")

# The one entry that a package without Debian's changelog of its own has to have.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/changelog" CONTENT
"poduplink (@PODUPLINK_VERSION@) unstable; urgency=medium

  * Built from this version of the source.

 -- @PODUPLINK_CONTACT@  Thu, 01 Jan 1970 00:00:00 +0000
" @ONLY)
pdl_install_compressed("${PROJECT_BINARY_DIR}/changelog" "${CMAKE_INSTALL_DOCDIR}")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME poduplink)
set(CPACK_PACKAGE_VERSION "${PODUPLINK_VERSION}")
set(CPACK_PACKAGE_CONTACT "${PODUPLINK_CONTACT}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "sends each pod's traffic out of the uplink of its address")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"A node with several network interfaces gives its pods addresses that belong to
different ones. An eBPF program on each pod's interface sends its packets
straight out of the right one, without policy routing.
.
This package has the node agent, the CNI plugins and the operator's command.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "init-system-helpers (>= 1.52)")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${deploy}/debian/postinst" "${deploy}/debian/prerm" "${deploy}/debian/postrm")
include(CPack)
