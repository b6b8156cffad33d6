/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Flags of kruise-daemon
 *
 * An operator who replaces kruise-daemon changes image and command of its DaemonSet and keeps the
 * arguments. The agent translates flags that it has an equivalent for. It ignores the others, of
 * kruise-daemon and its libraries (pprof, klog, feature gates of the manager), and knows which of them
 * take a value. Pure.
 *
 * Source: kruise-daemon --help of OpenKruise 1.8 and 1.9.
 */

#include <stdbool.h>

typedef struct KruiseFlag {
        const char *name;   /* without dashes */
        const char *flag;   /* the agent's flag, without dashes; NULL: ignored */
        const char *prefix; /* put before a relative path or ":PORT" in a value; NULL: none */
        bool is_switch;     /* takes a value only after "=" */
} KruiseFlag;

/* text: "--name", "--name=VALUE", "-v" or "-v=VALUE". NULL: kruise-daemon has no such flag. */
const KruiseFlag *kruise_flag_find(const char *text);

/* Translates a value. *ret is NULL if the value means that the flag is not set: an empty one, or a
 * number below 1. Owned by the caller. */
int kruise_flag_translate(const KruiseFlag *flag, const char *value, char **ret);
