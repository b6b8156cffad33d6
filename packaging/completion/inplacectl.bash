# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completion of inplacectl in bash. The program's own help says what there is.

# _inplacectl_candidates PROGRAM COMMAND PREVIOUS CURRENT: one candidate a line.
_inplacectl_candidates() {
    local help values=''

    help=$("$1" ${2:+"$2"} --help 2>/dev/null) || return
    if [[ $3 =~ ^-[a-z-]+$ ]]; then
        values=$(sed -nE "s/^  (-., )?$3(, --[a-z-]+)? ([A-Za-z]+(\|[A-Za-z]+)+)( .*)?$/\3/p" <<<"$help")
    fi
    if [ -n "$values" ]; then
        tr '|' '\n' <<<"$values"
    elif [[ $4 == -* ]]; then
        sed -nE 's/^  (-[a-z]), (--[a-z-]+).*/\1\n\2/p; s/^  (--[a-z-]+).*/\1/p' <<<"$help"
    elif [ -z "$2" ]; then
        sed -nE '/^Commands:/,/^$/s/^  ([a-z]+) .*/\1/p' <<<"$help"
    elif [ "$2" = help ]; then
        _inplacectl_candidates "$1" "" "" ""
    fi
}

_inplacectl() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local program=${COMP_WORDS[0]} command='' i

    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --socket | -o | --output | -n | --namespace | --timeout) ((i++)) ;;
        --pull-policy | --attempts | --attempt-timeout | --grace | --reason) ((i++)) ;;
        -*) ;;
        *)
            command=${COMP_WORDS[i]}
            break
            ;;
        esac
    done

    mapfile -t COMPREPLY < <(compgen -W "$(_inplacectl_candidates "$program" "$command" "$previous" \
        "$current")" -- "$current")
}

complete -o bashdefault -o default -F _inplacectl inplacectl
