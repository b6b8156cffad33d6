# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# How a script that needs root gets it, and how what root makes comes to belong to the user who
# called, or whose checkout it is. To be sourced.

# What the environment says and sudo would forget: how to reach the network, and what the tests ask.
_kept_variables='CI|(https?|no)_proxy|(HTTPS?|NO)_PROXY|SSL_CERT_(FILE|DIR)|(GO|PIP_|INPLACED_)[A-Z_]+'

# as_root REASON COMMAND...: runs the command as root, by sudo if that is needed.
as_root() {
    local kept

    if [ "$(id -u)" = 0 ]; then
        "${@:2}"
        return
    fi
    if ! command -v sudo >/dev/null; then
        echo "$1 needs root, and there is no sudo here; call it as root" >&2
        return 2
    fi

    kept=$(compgen -e | grep -xE "$_kept_variables" | paste -sd ,)
    sudo ${kept:+"--preserve-env=$kept"} -- "${@:2}"
}

# become_root REASON ARGUMENT...: goes on if the script is root's; or else runs it again as root, with
# these arguments, and ends as that ends.
become_root() {
    [ "$(id -u)" != 0 ] || return 0
    as_root "$1" "$BASH" "$0" "${@:2}"
    exit
}

# Whether root works here for a user who called through sudo.
has_caller() {
    [ "$(id -u)" = 0 ] && [ "${SUDO_UID:-0}" != 0 ] && getent passwd "$SUDO_UID" >/dev/null
}

# as_caller COMMAND...: runs the command as the user who called.
as_caller() {
    local home

    if ! has_caller; then
        "$@"
        return
    fi
    home=$(getent passwd "$SUDO_UID" | cut -d : -f 6)
    setpriv --reuid "$SUDO_UID" --regid "$SUDO_GID" --init-groups -- env "HOME=$home" "$@"
}

# continue_as_caller SCRIPT [ARGUMENT...]: called through sudo, runs it as the user who called, and ends; it
# returns where that user cannot read the checkout.
continue_as_caller() {
    if has_caller && as_caller test -r "$1"; then
        as_caller "$@"
        exit
    fi
}

# give_to_caller PATH...: what root made there belongs to the user who called; where root called, to the owner of
# the folder that it is in, who could not build in that checkout again otherwise.
give_to_caller() {
    local path owner

    [ "$(id -u)" = 0 ] || return 0
    for path in "$@"; do
        [ -e "$path" ] || continue
        if has_caller; then
            owner=$SUDO_UID:$SUDO_GID
        else
            owner=$(stat --format=%u:%g -- "$(dirname -- "$path")") || continue
        fi
        [[ $owner == 0:* ]] || chown --recursive --no-dereference --from=0 "$owner" "$path"
    done
}
