/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/cluster/outcome-events.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define REASON_SUCCEEDED "PullImageSucceed"
#define REASON_FAILED "PullImageFailed"

/* "nginx:1.27", "nginx@sha256:..." */
static int reference_of(const ImageWish *wish, char **ret) {
        const char *separator = strchr(wish->tag, ':') ? "@" : ":";

        return asprintf(ret, "%s%s%s", wish->name, separator, wish->tag) < 0 ? -ENOMEM : 0;
}

static int message_of(const char *reference, const ImageStatus *status, char **ret) {
        int n;

        if (status->phase != IMAGE_SUCCEEDED)
                n = asprintf(ret, "Image %s %s", reference, status->message ?: "failed");
        else if (status->was_present)
                n = asprintf(ret, "Image %s was already present", reference);
        else
                n = asprintf(ret, "Image %s, elapsedTime %.3fs", reference,
                             (double) status->duration_usec / 1e6);
        return n < 0 ? -ENOMEM : 0;
}

static int tell_owners(KubeEvents *events, const ImageWish *wish, const char *message) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < wish->n_owners; i++) {
                const OwnerRef *owner = &wish->owners[i];
                const KubeReference reference = {
                        .api_version = owner->api_version,
                        .kind = owner->kind,
                        .namespace = owner->namespace,
                        .name = owner->name,
                        .uid = owner->uid,
                        .resource_version = owner->resource_version,
                        .field_path = owner->field_path,
                };

                if (owner->kind && owner->name)
                        r = kube_event_send(events, &reference, "Warning", REASON_FAILED, message);
        }

        return r;
}

int outcome_events_send(KubeEvents *events, const KubeReference *node_image, const ImageWish *wish,
                        const ImageStatus *status) {
        cleanup(free_p) char *reference = NULL, *message = NULL;
        int r;

        r = reference_of(wish, &reference);
        if (r < 0)
                return r;

        r = message_of(reference, status, &message);
        if (r < 0)
                return r;

        if (status->phase == IMAGE_SUCCEEDED)
                return kube_event_send(events, node_image, "Normal", REASON_SUCCEEDED, message);

        r = tell_owners(events, wish, message);
        if (r < 0)
                return r;

        return kube_event_send(events, node_image, "Warning", REASON_FAILED, message);
}
