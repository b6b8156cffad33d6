# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the scripts packaging/*/build share. Each makes one kind of artifact:
#
#     packaging/KIND/build DIR WORK
#
# DIR, which exists, gets the files for users and nothing else, WORK, which they share, whatever is needed
# on the way and may be kept for the next time. The same sources make the same files, byte by byte, wherever
# and whenever they are built. To be sourced; leaves the shell in the root of the checkout.
#
# INPLACED_ARCHITECTURES="amd64" builds for fewer than these two; packaging/build --help has the other variables.

# shellcheck source=packaging/packages.sh
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Debian's own tools, whatever else the machine has.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C TZ=UTC
unset PYTHONPATH PYTHONHOME CC CFLAGS CPPFLAGS LDFLAGS
umask 022

# A cache of compiled files may be used (CMAKE_C_COMPILER_LAUNCHER), but it must not change paths, which are
# in messages of programs.
export CCACHE_BASEDIR=

# All times in artifacts are that of the newest commit.
if [ -z "${SOURCE_DATE_EPOCH-}" ]; then
    SOURCE_DATE_EPOCH=$(git -c safe.directory="$PWD" log -1 --format=%ct 2>/dev/null) ||
        SOURCE_DATE_EPOCH=$(stat --format=%Y CMakeLists.txt)
fi
export SOURCE_DATE_EPOCH

# shellcheck disable=SC2034 # for the scripts that source this
architectures=${INPLACED_ARCHITECTURES:-amd64 arm64}

# shellcheck disable=SC2034 # likewise
version=$(<VERSION)

# What CMake is to know for each package; an empty one is the default in packaging/CMakeLists.txt.
package_options=(-DCMAKE_INSTALL_PREFIX=/usr "-DINPLACED_MAINTAINER=${INPLACED_MAINTAINER-}")

# artifact_folder PATH: makes the folder, which is relative to where the caller stands, and prints its
# whole name.
artifact_folder() {
    (cd "$called_from" && mkdir -p "$1" && realpath "$1")
}

# build_static ARCHITECTURE WORK: builds the static program, which the image and the RPM share, unless that
# was done before, and prints the folder.
build_static() {
    local build=$2/static-$1 libraries

    libraries=$(packaging/image/libraries "$1") || return
    # Where HOME is / the name begins with two slashes, and with one in what the linker says.
    libraries=${libraries/#\/\//\/}
    cmake -S . -B "$build" --preset static "${package_options[@]}" -DINPLACED_PACKAGE=rpm \
        "-DINPLACED_ARCHITECTURE=$1" "-DINPLACED_LIBRARIES=$libraries" >&2 || return
    cmake --build "$build" >&2 || return
    echo "$build"
}

# write_documents BUILD: the bills of materials of its static programs, and the licences of what is linked, where
# packages take them from.
write_documents() {
    rm -rf "$1/documents"
    packaging/image/write --version "$version" --documents "$1/documents" "$1"
}

# write_bill PACKAGE PROGRAM BUILD: PACKAGE.spdx.json, the bill of materials of a package of a static program.
write_bill() {
    packaging/image/write --version "$version" --bill-of "$2" "$1" "$3"
}

# list_digests DIR: a line for each file in there, as in SHA256SUMS.
list_digests() {
    (cd "$1" && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort --zero-terminated |
        xargs --null --no-run-if-empty sha256sum)
}

# make_tar FOLDER NAME [OPTION]...: prints a tar archive of NAME, which is in FOLDER.
make_tar() {
    tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --mode=u=rwX,go=rX --directory="$1" "${@:3}" "$2"
}
