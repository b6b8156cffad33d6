/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Images by what they are, not by what they are called
 *
 * Which images some references are on this node, as the runtime has it now; and whether a container
 * runs the image that was asked for. For that, two IDs are compared: the one that the reference means
 * on this node now, and the one that the container was made from. The same content under another name
 * is up to date; a tag that has been moved since, and pulled again, is not.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/rpc/client.h"

typedef struct ImageIds ImageIds;

/* ids[i] is that of references[i], as image_id_normalize() makes it: "" if the runtime holds no such image, NULL if it could not be
 * asked; error is why the first of those could not. Borrowed during the call. */
typedef int (*ImageIdsDone)(const char *const *ids, const Error *error, void *userdata);

/* At least one, none of them empty; copied. The same one twice is asked once; at most 8 at a time.
 * on_done runs once, not from within; the IDs may be freed there. */
int image_ids_new(RpcClient *client, const char *const *references, size_t n_references,
                  ImageIdsDone on_done, void *userdata, ImageIds **ret);
ImageIds *image_ids_free(ImageIds *ids);

typedef enum Verdict {
        VERDICT_UNKNOWN, /* one of the two is not known */
        VERDICT_CURRENT,
        VERDICT_STALE,
        _VERDICT_MAX,
} Verdict;

/* NULL or "": not known. */
Verdict verdict_of(const char *reference_id, const char *running_id);

/* "Unknown", "Current", "Stale" */
const char *verdict_to_string(Verdict verdict);
