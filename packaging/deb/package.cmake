# SPDX-License-Identifier: Apache-2.0

# The Debian package.

set(documents ${CMAKE_INSTALL_DATADIR}/doc/kubectl-inplace)
install(FILES deb/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES deb/copyright DESTINATION ${documents} COMPONENT kubectl)
string(TIMESTAMP INPLACED_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(deb/changelog.in changelog @ONLY)
install_compressed(agent ${CMAKE_CURRENT_BINARY_DIR}/changelog ${CMAKE_INSTALL_DOCDIR} changelog)
install_compressed(kubectl ${CMAKE_CURRENT_BINARY_DIR}/changelog ${documents} changelog)

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# A package's own description begins with its summary.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")

# libcurl is loaded when a cluster is configured, so that dpkg-shlibdeps does not see it; users,
# folders and units need systemd's programs. The tool for people's machines is not needed on nodes.
set(CPACK_DEBIAN_AGENT_PACKAGE_NAME inplaced)
set(CPACK_DEBIAN_AGENT_DESCRIPTION "${PROJECT_DESCRIPTION}\n${INPLACED_DESCRIPTION}")
set(CPACK_DEBIAN_AGENT_PACKAGE_DEPENDS "libcurl4 (>= 7.88), systemd (>= 252)")
set(CPACK_DEBIAN_AGENT_PACKAGE_RECOMMENDS kubectl-inplace)
set(CPACK_DEBIAN_AGENT_PACKAGE_SUGGESTS containerd)
set(CPACK_DEBIAN_AGENT_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_SOURCE_DIR}/deb/conffiles ${CMAKE_CURRENT_SOURCE_DIR}/deb/postinst
  ${CMAKE_CURRENT_SOURCE_DIR}/deb/prerm ${CMAKE_CURRENT_SOURCE_DIR}/deb/postrm)

set(CPACK_DEBIAN_KUBECTL_PACKAGE_NAME kubectl-inplace)
set(CPACK_DEBIAN_KUBECTL_DESCRIPTION "${INPLACED_KUBECTL_SUMMARY}\n${INPLACED_KUBECTL_DESCRIPTION}")
set(CPACK_DEBIAN_KUBECTL_PACKAGE_DEPENDS "libcurl4 (>= 7.88)")
set(CPACK_DEBIAN_KUBECTL_PACKAGE_ENHANCES inplaced)
if(CMAKE_CROSSCOMPILING)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE ${INPLACED_ARCHITECTURE})
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${INPLACED_LIBRARIES}/lib"
    "${INPLACED_LIBRARIES}/lib/${CMAKE_LIBRARY_ARCHITECTURE}"
    "${INPLACED_LIBRARIES}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
endif()
