/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/pod/lease-spec.h"

#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kube/reply-spec.h"

#define NEVER_SEC INT64_MIN

static int read_spec(struct json_object *spec, const JsonPath *path, Lease *lease, Error *reterr) {
        int r;

        r = json_read_time(spec, path, "renewTime", &lease->renewed_sec, reterr);
        if (r < 0)
                return r;

        return json_read_integer(spec, path, "leaseDurationSeconds", &lease->duration_sec, reterr);
}

int lease_spec_parse(const char *text, size_t size, Lease *ret, Error *reterr) {
        cleanup(json_object_put_p) struct json_object *object = NULL;
        const JsonPath path = { .key = "spec" };
        Lease lease = { .renewed_sec = NEVER_SEC, .duration_sec = LEASE_DURATION_SEC };
        struct json_object *spec = NULL;
        int r;

        r = reply_spec_parse(text, size, &object, reterr);
        if (r < 0)
                return r;

        if (!json_object_is_type(object, json_type_object))
                return json_refuse_type(NULL, object, "a Lease", reterr);
        r = json_read_object(object, NULL, path.key, &spec, reterr);
        if (r < 0)
                return r;

        if (spec)
                r = read_spec(spec, &path, &lease, reterr);
        if (r < 0)
                return r;

        if (lease.renewed_sec == NEVER_SEC || lease.duration_sec <= 0)
                return error_set(reterr, ERROR_INVALID, "it does not say when it was renewed");

        *ret = lease;
        return 0;
}
