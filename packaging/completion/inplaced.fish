# SPDX-License-Identifier: Apache-2.0
#
# Completion of inplaced in fish. The program's own help says what there is.

function __inplaced_options
    inplaced --help | string match --regex '^  --.*' | string match --all --regex -- '--[a-z-]+'
end

complete -c inplaced -n 'string match --quiet -- "-*" (commandline --current-token)' -f -a '(__inplaced_options)'
