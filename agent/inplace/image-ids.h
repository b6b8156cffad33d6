/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The IDs of images on this node
 *
 * Asks the runtime for the image ID of each reference, and judges whether a container runs the image
 * that its pod asks for: compares the ID that the reference has on this node now with the ID that the
 * container was made from. The same content under another name is current; a tag that has moved since,
 * and was pulled again, is stale.
 */

#include <stddef.h>

#include "agent/rpc/client.h"

typedef struct ImageIds ImageIds;

/* ids[i] belongs to references[i], as from image_id_normalize(): "" if the runtime holds no such
 * image, NULL if it could not be asked; error is the first reason for NULL. Borrowed during the
 * call. */
typedef int (*ImageIdsDone)(const char *const *ids, const Error *error, void *userdata);

/* Takes at least one reference, none empty; copies them. Asks for duplicates once, and for at most
 * 8 at a time. on_done runs once, not from within; the IDs may be freed there. */
int image_ids_new(RpcClient *client, const char *const *references, size_t n_references,
                  ImageIdsDone on_done, void *userdata, ImageIds **ret);
ImageIds *image_ids_free(ImageIds *ids);

typedef enum Verdict {
        VERDICT_UNKNOWN, /* an ID is unknown */
        VERDICT_CURRENT,
        VERDICT_STALE,
        _VERDICT_MAX,
} Verdict;

/* NULL or "": not known. */
Verdict verdict_of(const char *reference_id, const char *running_id);
