/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Flags of kruise-daemon
 *
 * An operator who replaces kruise-daemon changes image and command of its DaemonSet and keeps the
 * arguments. A flag that means something here becomes ours; the others, which kruise-daemon or the
 * libraries in it have (pprof, klog, feature gates of the manager), are known so that they can be
 * ignored, and each takes a value as it does there. Pure.
 *
 * Source: kruise-daemon --help of OpenKruise 1.8 and 1.9.
 */

#include <stdbool.h>
#include <stddef.h>

typedef struct KruiseFlag {
        const char *name; /* without dashes */
        const char *flag; /* ours, without dashes; NULL: it is ignored */
        const char
                *prefix; /* of our value, where theirs is a relative path, or ":PORT"; NULL: none */
        bool is_switch;  /* a value only after "=" */
} KruiseFlag;

/* text: "--name", "--name=VALUE", "-v" or "-v=VALUE". NULL: kruise-daemon has no such flag. */
const KruiseFlag *kruise_flag_find(const char *text);

/* Our value of theirs. *ret is NULL if theirs is that of a flag that was not given: an empty one, or a
 * number below 1. Owned by the caller. */
int kruise_flag_translate(const KruiseFlag *flag, const char *value, char **ret);
