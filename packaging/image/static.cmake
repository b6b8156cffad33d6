# SPDX-License-Identifier: Apache-2.0

# How the image's program is linked: statically, whole, and from the folder INPLACED_LIBRARIES alone. What
# is linked does not depend on the folders where that happens.

set(PKG_CONFIG_ARGN --static)
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(CMAKE_C_STANDARD_LIBRARIES
  "-Wl,--start-group -lupb -laddress_sorting -lcares -lre2 -lz -lstdc++ -lm -Wl,--end-group")
add_compile_options(-Wno-unused-result "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=." "-ffile-prefix-map=${PROJECT_BINARY_DIR}=."
  "-ffile-prefix-map=${INPLACED_LIBRARIES}=.")
# Names of users and hosts are resolved without NSS modules, by what libc has of "files" and "dns": the
# linker's warnings say that the others would be missing.
# Relative relocations are packed, where the linker can: that is half a megabyte in the file and in memory.
add_link_options(-static-pie -Wl,-z,pack-relative-relocs -Wl,--no-warnings
  "-Wl,-Map,${PROJECT_BINARY_DIR}/$<TARGET_PROPERTY:NAME>.map")

# The source packages of what is linked, with their versions. packaging/image/write compares these with
# what the linker has used.
set(names
  abseil c-ares curl gcc-12 glibc grpc json-c libmicrohttpd libyaml nghttp2 openssl protobuf-c systemd
  util-linux zlib)
file(STRINGS "${INPLACED_LIBRARIES}/packages" packages)
file(STRINGS "${INPLACED_LIBRARIES}/sources" sources)
list(TRANSFORM packages REPLACE "^[^ ]+ [^ ]+ " "")
set(INPLACED_COMPONENTS)
foreach(name IN LISTS names)
  foreach(line IN LISTS sources packages)
    if(line MATCHES "^([^ ]+) (.+)$" AND CMAKE_MATCH_1 STREQUAL name)
      string(APPEND INPLACED_COMPONENTS "\\n  ${name} ${CMAKE_MATCH_2}")
      break()
    endif()
  endforeach()
endforeach()

function(link_both_programs)
  target_sources(inplaced PRIVATE ctl/main.c ${PROJECT_SOURCE_DIR}/packaging/image/main.c)
  target_link_libraries(inplaced PRIVATE ctl)
  set_source_files_properties(main.c PROPERTIES COMPILE_OPTIONS
    "-Dmain=inplaced_main;-Wno-missing-prototypes")
  set_source_files_properties(ctl/main.c PROPERTIES COMPILE_OPTIONS
    "-Dmain=inplacectl_main;-Wno-missing-prototypes")
  add_custom_command(TARGET inplaced POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink inplaced ${CMAKE_CURRENT_BINARY_DIR}/inplacectl)
  install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/inplacectl DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
