# SPDX-License-Identifier: Apache-2.0

# The RPM package.

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/inplaced)
# The bill of materials, and the licences of what is linked, by packaging/image/write.
install(DIRECTORY ${PROJECT_BINARY_DIR}/documents/inplaced/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE COMPONENT kubectl
  DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/kubectl-inplace)
install(DIRECTORY ${PROJECT_BINARY_DIR}/documents/kubectl-inplace/ COMPONENT kubectl
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kubectl-inplace)

set(CPACK_GENERATOR RPM)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_RELOCATABLE OFF)
set(CPACK_PACKAGE_VENDOR ${INPLACED_MAINTAINER})
# Its own, and those of what is linked; the files beside the bill of materials have them word by word.
string(CONCAT CPACK_RPM_PACKAGE_LICENSE
  "Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1 AND "
  "LGPL-2.1-or-later AND MIT AND Zlib AND curl")
set(CPACK_RPM_AGENT_PACKAGE_NAME inplaced)
set(CPACK_RPM_AGENT_PACKAGE_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RPM_AGENT_PACKAGE_DESCRIPTION ${INPLACED_DESCRIPTION})
set(CPACK_RPM_KUBECTL_PACKAGE_NAME kubectl-inplace)
set(CPACK_RPM_KUBECTL_PACKAGE_SUMMARY ${INPLACED_KUBECTL_SUMMARY})
set(CPACK_RPM_KUBECTL_PACKAGE_DESCRIPTION ${INPLACED_KUBECTL_DESCRIPTION})
# The program is static: nothing that rpmbuild could find in it. Users, folders and units need systemd's
# programs.
set(CPACK_RPM_PACKAGE_AUTOREQPROV OFF)
# The second one is a line of its own: CPack drops weak dependencies with this release of rpm.
set(CPACK_RPM_AGENT_PACKAGE_REQUIRES "systemd >= 252\nRecommends: kubectl-inplace")
set(CPACK_RPM_AGENT_PACKAGE_REQUIRES_POST systemd)
set(CPACK_RPM_AGENT_USER_FILELIST "%config(noreplace) /etc/inplaced/config.yaml")
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
  /usr/lib/systemd /usr/lib/systemd/system /usr/lib/systemd/catalog /usr/lib/sysusers.d /usr/lib/tmpfiles.d
  /usr/share/man /usr/share/man/man1 /usr/share/man/man5 /usr/share/man/man8
  /usr/share/licenses /usr/share/doc
  /usr/share/bash-completion /usr/share/bash-completion/completions
  /usr/share/zsh /usr/share/zsh/site-functions /usr/share/fish /usr/share/fish/vendor_completions.d)
set(CPACK_RPM_AGENT_POST_INSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/post)
set(CPACK_RPM_AGENT_PRE_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/preun)
set(CPACK_RPM_AGENT_POST_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_SOURCE_DIR}/rpm/postun)

# The same sources make the same file: times are SOURCE_DATE_EPOCH, and what is packed and stripped already
# stays as it is, since the tools for that are this machine's.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/rpm/times.cmake)
set(CPACK_RPM_SPEC_MORE_DEFINE
"%define packager ${INPLACED_MAINTAINER}
%define use_source_date_epoch_as_buildtime 1
%define _buildhost inplaced
%define __os_install_post %{nil}
%define _build_id_links none")
