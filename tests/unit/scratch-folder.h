/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Folders of tests, with all that a test has left in them
 */

#include <ftw.h>

#include "tests/unit/unit.h"

static inline int remove_item(const char *path, const struct stat *status, int type,
                              struct FTW *ftw) {
        return remove(path);
}

static inline void remove_tree(const char *path) {
        assert_ok(nftw(path, remove_item, 16, FTW_DEPTH | FTW_PHYS));
}
