/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/node/api-internal.h"
#include "agent/node/owner.h"

typedef Inplaced__V1__CancelRequest CancelMessage;

/* All local requests for one image. */
static int cancel_image(Api *api, const char *text, Error *reterr) {
        cleanup(free_p) char *name = NULL;
        const Image *image;
        ImageRef ref;
        int n = 0, r;

        r = image_ref_parse(text, &ref, reterr);
        if (r < 0)
                return r;

        r = image_ref_familiar_name(&ref, &name);
        if (r < 0)
                return r;

        image = images_find(api->images, name, image_ref_tag_or_digest(&ref));
        for (const Want *want = image ? image_wants(image) : NULL; want;) {
                cleanup(free_p) char *owner = NULL;

                if (want->is_served || strncmp(want->owner, OWNER_REQUEST, strlen(OWNER_REQUEST))) {
                        want = want->next;
                        continue;
                }

                owner = strdup(want->owner); /* its want is gone after the call */
                r = owner ? images_withdraw(api->images, owner, image) : -ENOMEM;
                if (r < 0)
                        return r;
                n += r;
                want = image_wants(image);
        }

        return n;
}

static int cancel_request(Api *api, const char *id) {
        cleanup(free_p) char *owner = NULL;

        if (asprintf(&owner, OWNER_REQUEST "%s", id) < 0) {
                owner = NULL;
                return -ENOMEM;
        }

        return images_withdraw(api->images, owner, NULL);
}

int api_cancel(RpcRequest *request, const void *message, void *userdata) {
        Inplaced__V1__CancelResponse reply = INPLACED__V1__CANCEL_RESPONSE__INIT;
        cleanup(error_done) Error error = ERROR_INIT;
        const CancelMessage *cancel = message;
        int r;

        if (!cancel->request_id[0] == !cancel->image[0])
                return api_refuse(userdata, request, ERROR_INVALID,
                                  "give either a request_id or an image");

        r = cancel->image[0] ? cancel_image(userdata, cancel->image, &error)
                             : cancel_request(userdata, cancel->request_id);
        if (error.kind != ERROR_NONE)
                return api_refuse(userdata, request, error.kind, error_message(&error));
        if (r < 0)
                return r;

        reply.canceled = (uint32_t) r;
        if (r > 0) {
                r = api_log_change(userdata, request, cancel->image[0] ? NULL : cancel->request_id,
                                   "Canceled %d wait%s for %s%s", r, r == 1 ? "" : "s",
                                   cancel->image[0] ? "" : "request ",
                                   cancel->image[0] ? cancel->image : cancel->request_id);
                if (r < 0) {
                        rpc_request_unref(request);
                        return r;
                }
        }
        return api_reply(userdata, request, &reply.base);
}
