# SPDX-License-Identifier: Apache-2.0
#
# Completion of inplacectl in fish. The program's own help says what there is.

function __inplacectl_help
    set -l command
    set -l skips no
    for word in (commandline --tokenize --cut-at-cursor --current-process)[2..]
        if test $skips = yes
            set skips no
        else if contains -- $word --socket -o --output -n --namespace --timeout \
                --pull-policy --attempts --attempt-timeout --grace --reason
            set skips yes
        else if not string match --quiet -- '-*' $word
            set command $word
            break
        end
    end
    inplacectl $command --help 2>/dev/null
end

function __inplacectl_has_no_command
    __inplacectl_help | string match --quiet --regex '^Commands:'
end

function __inplacectl_commands
    inplacectl --help | sed -nE '/^Commands:/,/^$/s/^  ([a-z]+)( [^ ]+)? +(.*)/\1\t\3/p'
end

function __inplacectl_options
    __inplacectl_help | sed -nE 's/^  (-[a-z]), (--[a-z-]+).*/\1\n\2/p; s/^  (--[a-z-]+).*/\1/p'
end

function __inplacectl_values
    set -l previous (commandline --tokenize --cut-at-cursor --current-process)[-1]
    string match --quiet --regex '^-[a-z-]+$' -- $previous || return
    __inplacectl_help |
        sed -nE "s/^  (-., )?$previous(, --[a-z-]+)? ([A-Za-z]+(\|[A-Za-z]+)+)( .*)?\$/\3/p" | string split '|'
end

complete -c inplacectl -n '__inplacectl_has_no_command; and not count (__inplacectl_values) >/dev/null' -f -a '(__inplacectl_commands)'
complete -c inplacectl -n '__fish_seen_subcommand_from help' -f -a '(__inplacectl_commands)'
complete -c inplacectl -n 'string match --quiet -- "-*" (commandline --current-token)' -f -a '(__inplacectl_options)'
complete -c inplacectl -n 'count (__inplacectl_values) >/dev/null' -f -a '(__inplacectl_values)'
