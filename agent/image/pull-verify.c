/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/pull-verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/quote.h"

#define SHA256_DIGITS 64

bool pull_verify_is_image_id(const char *id) {
        if (strncmp(id, "sha256:", strlen("sha256:")) == 0)
                id += strlen("sha256:");

        return strlen(id) == SHA256_DIGITS && strspn(id, "0123456789abcdef") == SHA256_DIGITS;
}

static bool has_digest(const CriImage *image, const char *digest) {
        for (size_t i = 0; i < image->n_repo_digests; i++) {
                const char *at = strrchr(image->repo_digests[i], '@');

                if (at && strcmp(at + 1, digest) == 0)
                        return true;
        }

        return false;
}

int pull_verify_image(const CriImage *image, const char *digest, Error *reterr) {
        char quoted[QUOTE_SIZE];

        if (!pull_verify_is_image_id(image->id))
                return error_set(reterr, ERROR_INVALID,
                                 "the runtime gave %s as image ID, which is none",
                                 quote(image->id, quoted));
        if (digest && digest[0] && !has_digest(image, digest))
                return error_set(reterr, ERROR_INVALID,
                                 "the runtime holds another image under this reference, without "
                                 "the digest %s",
                                 digest);
        return 0;
}

int pull_verify_take(const CriImage *image, const char *digest, ImageStatus *status,
                     Error *reterr) {
        char *id;
        int r;

        r = pull_verify_image(image, digest, reterr);
        if (r < 0)
                return r;

        id = strdup(image->id);
        if (!id)
                return -ENOMEM;

        free(status->image_id);
        status->image_id = id;
        status->size = image->size;
        return image_status_set_digests(status, (const char *const *) image->repo_digests,
                                        image->n_repo_digests);
}
