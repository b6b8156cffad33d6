# SPDX-License-Identifier: Apache-2.0
#
# Completion of kubectl-inplace in fish. The program itself says what there is, as it does for kubectl.

function __kubectl_inplace_candidates
    set -l words (commandline --tokenize --cut-at-cursor --current-process)[2..]
    kubectl-inplace __complete $words (commandline --current-token --cut-at-cursor) 2>/dev/null |
        string match --invert ':*'
end

complete -c kubectl-inplace -n 'count (__kubectl_inplace_candidates) >/dev/null' -f -a '(__kubectl_inplace_candidates)'
