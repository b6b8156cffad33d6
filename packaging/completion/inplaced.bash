# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completion of inplaced in bash. The program's own help says what there is; after an option that takes
# a file or a folder bash completes its name.

_inplaced() {
    local current=${COMP_WORDS[COMP_CWORD]}

    COMPREPLY=()
    [[ $current == -* ]] || return 0
    mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" --help 2>/dev/null |
        grep -oE '^  --.*' | grep -oE -- '--[a-z-]+')" -- "$current")
}

complete -o bashdefault -o default -F _inplaced inplaced
