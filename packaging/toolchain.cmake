# SPDX-License-Identifier: Apache-2.0

# Compiles and links with what one of packaging/*/libraries provides.
# INPLACED_ARCHITECTURE: amd64 or arm64, in Debian's words; default: this machine's.
# INPLACED_LIBRARIES: that folder; default: what packaging/image/libraries prints.

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES INPLACED_ARCHITECTURE INPLACED_LIBRARIES)

if(NOT INPLACED_ARCHITECTURE)
  execute_process(COMMAND dpkg --print-architecture OUTPUT_VARIABLE INPLACED_ARCHITECTURE
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
if(NOT INPLACED_LIBRARIES)
  execute_process(COMMAND "${CMAKE_CURRENT_LIST_DIR}/image/libraries" "${INPLACED_ARCHITECTURE}"
    OUTPUT_VARIABLE INPLACED_LIBRARIES OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
set(INPLACED_ARCHITECTURE "${INPLACED_ARCHITECTURE}" CACHE STRING "amd64 or arm64")
set(INPLACED_LIBRARIES "${INPLACED_LIBRARIES}" CACHE PATH "What packaging/*/libraries prints")

if(INPLACED_ARCHITECTURE STREQUAL "arm64")
  set(CMAKE_SYSTEM_PROCESSOR aarch64)
else()
  set(CMAKE_SYSTEM_PROCESSOR x86_64)
endif()
set(triplet "${CMAKE_SYSTEM_PROCESSOR}-linux-gnu")

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSROOT "${INPLACED_LIBRARIES}")
set(CMAKE_LIBRARY_ARCHITECTURE "${triplet}")
set(CMAKE_C_COMPILER "${triplet}-gcc")
set(CMAKE_STRIP "${triplet}-strip")
set(CMAKE_FIND_ROOT_PATH "${INPLACED_LIBRARIES}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

# Startup files and libraries are those of the folder as well.
foreach(folder "usr/lib/${triplet}" "usr/lib/gcc/${triplet}/12")
  add_link_options("-B${INPLACED_LIBRARIES}/${folder}/" "-L${INPLACED_LIBRARIES}/${folder}")
endforeach()

set(ENV{PKG_CONFIG_PATH} "")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${INPLACED_LIBRARIES}")
set(ENV{PKG_CONFIG_LIBDIR}
  "${INPLACED_LIBRARIES}/usr/local/lib/pkgconfig:${INPLACED_LIBRARIES}/usr/lib/${triplet}/pkgconfig:${INPLACED_LIBRARIES}/usr/share/pkgconfig")
