/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * kubectl inplace preload --set and --sets
 *
 * Writes, withdraws and lists image sets, see cluster/image-sets.h.
 */

#include <json-c/json_types.h>

#include "agent/kubectl/flags.h"
#include "agent/kubectl/session.h"

/* secrets: {name: null}, the pull secrets of the images. Returns an ExitStatus, or a negative errno. */
int sets_write(Session *session, const Flags *flags, json_object *secrets);
int sets_list(Session *session, const Flags *flags);
