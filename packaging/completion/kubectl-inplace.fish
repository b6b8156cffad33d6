# SPDX-License-Identifier: Apache-2.0
#
# Completion of kubectl-inplace in fish. The program itself says what there is, as it does for kubectl.

function __kubectl_inplace_ask
    set -l words (commandline --tokenize --cut-at-cursor --current-process)[2..]
    kubectl-inplace __complete $words (commandline --current-token --cut-at-cursor) 2>/dev/null
end

complete -c kubectl-inplace -f -a '(__kubectl_inplace_ask | string match --invert ":*")'
complete -c kubectl-inplace -n '__kubectl_inplace_ask | string match --quiet :0' -F
