# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Makes a minimal Debian. To be sourced.

declare -A debian_names=([12]=bookworm [13]=trixie)

# make_debian RELEASE TARGET [OPTION...]: a folder or an archive, by mmdebstrap, which gets these options as well. Packages
# come from where this machine gets Debian's, and as it does: proxies and the like, but no passwords.
make_debian() {
    local name=${debian_names[$1]} here option source folder status
    local options=("${@:3}") sources=()

    here=$(. /etc/os-release && echo "$VERSION_CODENAME") || return
    folder=$(mktemp -d) || return
    # In a machine that mmdebstrap made, such files begin with 0000.
    for source in /etc/apt/sources.list.d/{,0000}debian*.{sources,list} /etc/apt/sources.list; do
        [ -s "$source" ] || continue
        sed "s/\b$here\b/$name/g" "$source" >"$folder/${source##*/}" || return
        sources+=("$folder/${source##*/}")
    done
    while read -r option; do
        options+=("--aptopt=$option")
    done < <(apt-config dump | grep -E '^Acquire::(https?::Proxy|Retries|Check-)')

    mmdebstrap --quiet --variant=minbase "${options[@]}" "$name" "$2" "${sources[@]}"
    status=$?
    rm -rf "$folder"
    return $status
}
