# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Provides a root with Debian's packages of an architecture, unpacked, to compile and link with; nothing of
# the machine's own apt and dpkg is changed, nor needed but for where it gets packages from. It takes a
# while the first time, and is kept for all checkouts in ${XDG_CACHE_HOME:-~/.cache}/inplaced-tests until
# Debian has a newer version of a part of it. To be sourced by a script that says what is in it:
#
#     choose_architecture ARGUMENT...   # one of "amd64" and "arm64", or none: that of this machine
#     provide_root NAME                 # of `packages` and the sources of `sources`; prints the folder
#
# provide_root calls fill_root, the script's own, while $root has the packages and their dependencies, and
# $root/src the sources. $root is $target afterwards. What the packages in `compiler` are decides, too, whether
# it is there already.

# shellcheck disable=SC2034,SC2154 # those of the script
# shellcheck source=packaging/packages.sh
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"
sources=()

# choose_architecture ARGUMENT...: sets arch and triplet.
choose_architecture() {
    arch=${1-$(dpkg --print-architecture)}
    case $#:$arch in
    [01]:amd64) triplet=x86_64-linux-gnu ;;
    [01]:arm64) triplet=aarch64-linux-gnu ;;
    *)
        echo "${0##*/}: packages are built for amd64 and arm64, not for \"$*\"; see $0 --help" >&2
        exit 2
        ;;
    esac
}

_list_archives() {
    # shellcheck disable=SC2016 # expanded by apt
    apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' \
        'Created-By: Packages' 'Origin: Debian' | sort -u
}

# An apt of our own for that architecture, with nothing installed. It asks where the machine's own apt
# gets Debian's packages, and checks the same signatures. That one may never have been asked for its lists, or they
# were removed to keep an image small.
_write_apt_configuration() {
    local key=/usr/share/keyrings/debian-archive-keyring.gpg archives uri suite component

    archives=$(_list_archives)
    if [ -z "$archives" ]; then
        as_root "asking for the lists of packages" apt-get -q update 9<&- >&2
        archives=$(_list_archives)
    fi
    if [ -z "$archives" ]; then
        echo "${0##*/}: apt knows of no Debian archive; see /etc/apt/sources.list.d" >&2
        return 1
    fi
    while read -r uri suite component; do
        printf '%s [signed-by=%s] %s %s %s\n' \
            deb "$key" "$uri" "$suite" "$component" deb-src "$key" "$uri" "$suite" "$component"
    done <<<"$archives" >"$apt/sources.list"

    : >"$apt/status"
    cat >"$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/none";
Dir::Etc::preferences "$apt/none";
Dir::Etc::preferencesparts "$apt/none";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::State::extended_states "$apt/extended_states";
Dir::Cache "$apt";
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Install-Recommends "false";
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
CONF
}

_run_apt() {
    env "APT_CONFIG=$apt/apt.conf" apt-get -qq "$@" 9<&-
}

# Prints the files of the packages and of the sources, whose names hold their versions; also of those that
# are here already.
_list_wanted() {
    {
        [ ${#sources[@]} -eq 0 ] || _run_apt --print-uris --download-only source "${sources[@]}"
        _run_apt --option "Dir::Cache::archives=$apt/none" --yes --print-uris install "${packages[@]}"
    } | sed -nE "s/^'[^ ]*' ([^ ]*\.(dsc|deb)) .*/\1/p" | LC_ALL=C sort
}

# Unpacks them, and says what they are where dpkg would. It says so of $target, where all will be: that is
# where dpkg-shlibdeps finds the files.
_unpack_packages() {
    local deb name info=$root/var/lib/dpkg/info part

    mkdir -p "$info" "$root/var/lib/dpkg/updates"
    echo 1 >"$info/format"
    _run_apt --yes --download-only install "${packages[@]}" >&2
    while read -r deb; do
        deb=$apt/archives/$deb
        dpkg-deb --extract "$deb" "$root"
        dpkg-deb --field "$deb" | sed '1a Status: install ok installed' >>"$root/var/lib/dpkg/status"
        echo >>"$root/var/lib/dpkg/status"

        name=$(dpkg-deb --field "$deb" Package)
        [ "$(dpkg-deb --field "$deb" Multi-Arch)" != same ] || name+=:$arch
        dpkg-deb --fsys-tarfile "$deb" | tar --list | sed "s,^\.,$target,; s,/$,," >"$info/$name.list"
        for part in shlibs symbols; do
            dpkg-deb --info "$deb" "$part" >"$info/$name.$part" 2>/dev/null || rm "$info/$name.$part"
        done
    done < <(grep '\.deb$' "$root/wanted")
}

# "sources" has SOURCE VERSION.
_fetch_sources() {
    local source dsc

    [ ${#sources[@]} -gt 0 ] || return 0
    mkdir "$root/src"
    (cd "$root/src" && _run_apt --download-only source "${sources[@]}") >&2
    for source in "${sources[@]}"; do
        dsc=$(echo "$root/src/${source}"_*.dsc)
        dpkg-source --no-check --extract "$dsc" "$root/src/$source" >/dev/null 2>&1
        install -D -m 644 -t "$root/usr/local/share/doc/$source" "$root/src/$source/debian/copyright"
        echo "$source $(sed -n 's/^Version: //p' "$dsc" | head -n 1)" >>"$root/sources"
    done
}

provide_root() {
    local cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/inplaced-tests wanted hash

    apt=$cache/apt-$arch
    mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/none/partial"

    # One at a time: a second one finds what the first one has made.
    exec 9>"$apt/lock-libraries"
    flock 9

    _write_apt_configuration
    _run_apt update >&2 ||
        echo "${0##*/}: cannot ask Debian for newer versions, using those known already" >&2
    wanted=$(_list_wanted)
    hash=$({ echo "$wanted" && cat "$0" "${BASH_SOURCE[0]}" && dpkg-query -W "${compiler[@]}"; } | sha256sum)
    target=$cache/$1-$arch-${hash:0:16}

    if [ ! -d "$target" ]; then
        root=$(mktemp -d "$cache/$1-half-XXXXXX")
        trap 'rm -rf "$root"' EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM HUP

        echo "$wanted" >"$root/wanted"
        _unpack_packages
        _fetch_sources
        fill_root
        rm -rf "$root/src"
        chmod 755 "$root"
        touch "$root"
        mv -T "$root" "$target"

        # What no checkout has asked for in a while; what is asked for is touched below.
        find "$cache" -mindepth 1 -maxdepth 1 -name "$1-*" -mtime +30 -exec rm -rf {} +
        find "$apt/archives" -name '*.deb' -mtime +30 -delete
    fi
    touch "$target"
    echo "$target"
}
