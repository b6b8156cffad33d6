# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the scripts packaging/*/build share. Each makes one kind of artifact:
#
#     packaging/KIND/build DIR WORK
#
# DIR, which exists, gets the files for users and nothing else, WORK whatever is needed on the way and
# may be kept for the next time. The same sources make the same files, byte by byte, wherever and
# whenever they are built. To be sourced; leaves the shell in the root of the checkout.

# shellcheck source=packaging/packages.sh
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Debian's own tools, whatever else the machine has.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C TZ=UTC
unset PYTHONPATH PYTHONHOME
umask 022

# All times in artifacts are that of the newest commit.
if [ -z "${SOURCE_DATE_EPOCH-}" ]; then
    SOURCE_DATE_EPOCH=$(git -c safe.directory="$PWD" log -1 --format=%ct 2>/dev/null) ||
        SOURCE_DATE_EPOCH=$(stat --format=%Y CMakeLists.txt)
fi
export SOURCE_DATE_EPOCH

# artifact_folder PATH: makes the folder, which is relative to where the caller stands, and prints its
# whole name.
artifact_folder() {
    (cd "$called_from" && mkdir -p "$1" && realpath "$1")
}
