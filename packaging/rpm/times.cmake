# SPDX-License-Identifier: Apache-2.0

# Gives all files of a package the time SOURCE_DATE_EPOCH. rpmbuild itself changes newer times alone, and what was
# checked out or made before the last commit has an older one.
execute_process(
  COMMAND find ${CPACK_TEMPORARY_DIRECTORY} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +
  COMMAND_ERROR_IS_FATAL ANY)
