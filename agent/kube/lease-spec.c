/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/lease-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/repeat.h"
#include "agent/base/rfc3339.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

KubePath lease_path(const char *namespace) {
        return (KubePath){ .group = "coordination.k8s.io",
                           .version = "v1",
                           .namespace = namespace,
                           .resource = "leases" };
}

int lease_spec_make(const char *holder, bool is_new, int64_t now_sec, json_object **ret) {
        cleanup(json_object_put_p) json_object *spec = json_object_new_object();
        char text[RFC3339_SIZE], now[RFC3339_SIZE + 8];

        /* The API has these times in microseconds, with all six digits. */
        (void) rfc3339_format(now_sec, text);
        (void) snprintf(now, sizeof(now), "%.19s.000000Z", text);
        if (patch_add_text(spec, "holderIdentity", holder) < 0 ||
            patch_add_number(spec, "leaseDurationSeconds", LEASE_SEC) < 0 ||
            patch_add_text(spec, "renewTime", now) < 0 ||
            (is_new && patch_add_text(spec, "acquireTime", now) < 0))
                return -ENOMEM;

        *ret = patch_wrap("spec", take_ptr(spec));
        return *ret ? 0 : -ENOMEM;
}

int lease_spec_name(json_object *lease, const char *name) {
        json_object *metadata = json_get(lease, "metadata", json_type_object);

        if (!metadata) {
                metadata = json_object_new_object();
                if (patch_add(lease, "metadata", metadata) < 0)
                        return -ENOMEM;
        }
        return patch_add_text(metadata, "name", name)
                       ?: patch_add_text(lease, "apiVersion", "coordination.k8s.io/v1")
                       ?: patch_add_text(lease, "kind", "Lease");
}

const char *lease_holder(json_object *lease) {
        return json_get_filled(json_get(lease, "spec", json_type_object), "holderIdentity");
}

bool lease_sight_is_free(LeaseSight *sight, json_object *lease, const char *identity,
                         uint64_t now_usec) {
        const char *holder = lease_holder(lease);
        const char *renewed = json_get_text(json_get(lease, "spec", json_type_object), "renewTime");
        uint64_t digest = repeat_digest(repeat_digest(0, holder), renewed);

        if (sight->digest != digest)
                *sight = (LeaseSight){ .digest = digest, .since_usec = now_usec };
        return !holder || strcmp(holder, identity) == 0 ||
               now_usec - sight->since_usec > LEASE_SEC * USEC_PER_SEC;
}
