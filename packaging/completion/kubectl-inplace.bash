# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completion of kubectl-inplace in bash. The program itself says what there is, as it does for kubectl.

_kubectl_inplace() {
    local current=${COMP_WORDS[COMP_CWORD]} said

    said=$("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
    mapfile -t COMPREPLY < <(compgen -W "$(sed '/^:/d; s/\t.*//' <<<"$said")" -- "$current")
    case ${said##*$'\n'} in
    :0) compopt -o default 2>/dev/null ;;
    :6) compopt -o nospace 2>/dev/null ;;
    esac
    return 0
}

complete -F _kubectl_inplace kubectl-inplace
