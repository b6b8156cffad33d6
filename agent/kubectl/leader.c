/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/leader.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/random.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/workload.h"

#define DURATION_SEC 15
#define RENEW_USEC (5 * USEC_PER_SEC)
#define RENEW_MAX_USEC \
        (20 * USEC_PER_SEC) /* a leader that has not renewed for so long leads no more */
#define RETRY_USEC (2 * USEC_PER_SEC)

int leader_init(Leader *leader, Session *session, const char *name) {
        char host[64] = "";

        (void) gethostname(host, sizeof(host) - 1);
        *leader = (Leader){ .session = session,
                            .path = { .group = "coordination.k8s.io",
                                      .version = "v1",
                                      .namespace = session_namespace(session),
                                      .resource = "leases",
                                      .name = name } };
        return text_format(&leader->identity, "%s_%llx", host, (unsigned long long) random_id());
}

void leader_done(Leader *leader) {
        free(leader->identity);
        free(leader->seen);
}

bool leader_is_due(const Leader *leader) {
        return clock_monotonic_usec() >= leader->due_usec;
}

static void schedule(Leader *leader, uint64_t usec) {
        leader->due_usec = clock_monotonic_usec() + usec;
}

/* The API has these times in microseconds, with all six digits. */
static int format_now(const Leader *leader, char **ret) {
        char now[RFC3339_SIZE];

        (void) rfc3339_format(session_server_sec(leader->session), now);
        return text_format(ret, "%.19s.000000Z", now);
}

static int make_spec(const Leader *leader, const char *holder, bool is_new, json_object **ret) {
        cleanup(json_object_put_p) json_object *spec = json_object_new_object();
        cleanup(free_p) char *now = NULL;

        if (format_now(leader, &now) < 0 || patch_add_text(spec, "holderIdentity", holder) < 0 ||
            patch_add_number(spec, "leaseDurationSeconds", DURATION_SEC) < 0 ||
            patch_add_text(spec, "renewTime", now) < 0 ||
            (is_new && patch_add_text(spec, "acquireTime", now) < 0))
                return -ENOMEM;
        *ret = take_ptr(spec);
        return 0;
}

static int create(Leader *leader, Error *reterr) {
        cleanup(json_object_put_p) json_object *spec = NULL;
        cleanup(json_object_put_p) json_object *lease = NULL;
        KubePath path = leader->path;

        if (make_spec(leader, leader->identity, /* is_new= */ true, &spec) < 0)
                return -ENOMEM;
        lease = patch_wrap("metadata",
                           patch_wrap("name", json_object_new_string(leader->path.name)));
        if (!lease || patch_add_text(lease, "apiVersion", "coordination.k8s.io/v1") < 0 ||
            patch_add_text(lease, "kind", "Lease") < 0 ||
            patch_add(lease, "spec", take_ptr(spec)) < 0)
                return -ENOMEM;
        path.name = NULL;
        return session_create(leader->session, &path, lease, /* ret= */ NULL, reterr);
}

/* Refused with a conflict if another program has written the Lease since it was read. */
static int take(Leader *leader, json_object *lease, Error *reterr) {
        const char *version = object_text(lease, "metadata.resourceVersion");
        cleanup(json_object_put_p) json_object *spec = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL;

        if (make_spec(leader, leader->identity, !leader->is_leading, &spec) < 0)
                return -ENOMEM;
        patch = patch_wrap("metadata",
                           patch_wrap("resourceVersion", json_object_new_string(version ?: "")));
        if (!patch || patch_add(patch, "spec", take_ptr(spec)) < 0)
                return -ENOMEM;
        return session_patch(leader->session, &leader->path, KUBE_MERGE_PATCH, patch,
                             /* ret= */ NULL, reterr);
}

/* Whether no other program holds the Lease any more. */
static int is_free(Leader *leader, json_object *lease, bool *ret) {
        const char *holder = object_text(lease, "spec.holderIdentity");
        const char *renewed = object_text(lease, "spec.renewTime");
        cleanup(free_p) char *seen = NULL;

        if (text_format(&seen, "%s %s", holder ?: "", renewed ?: "") < 0)
                return -ENOMEM;
        if (!text_equal(seen, leader->seen)) {
                free(leader->seen);
                leader->seen = take_ptr(seen);
                leader->seen_usec = clock_monotonic_usec();
        }
        *ret = !holder || !holder[0] || text_equal(holder, leader->identity) ||
               clock_monotonic_usec() - leader->seen_usec > DURATION_SEC * USEC_PER_SEC;
        return 0;
}

static int try(Leader *leader, bool *ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *lease = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r = session_get(leader->session, &leader->path, &lease, &error);

        if (error.kind == ERROR_NOT_FOUND)
                r = create(leader, reterr);
        else if (error.kind != ERROR_NONE)
                r = error_copy(reterr, &error);
        else if (r >= 0)
                r = is_free(leader, lease, ret);
        if (r < 0)
                return r;
        if (!lease)
                *ret = true;
        else if (*ret)
                r = take(leader, lease, reterr);
        return r;
}

int leader_step(Leader *leader, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        bool is_holder = false;
        int r = try(leader, &is_holder, &error);

        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        schedule(leader, r < 0 ? RETRY_USEC : is_holder ? RENEW_USEC : RETRY_USEC);
        if (r >= 0 && is_holder) {
                leader->is_leading = true;
                leader->renewed_usec = clock_monotonic_usec();
                return 0;
        }
        if (r >= 0 && leader->is_leading)
                return error_set(reterr, ERROR_CONFLICT, "another controller leads now");
        if (leader->is_leading && clock_monotonic_usec() - leader->renewed_usec > RENEW_MAX_USEC)
                return error_set(reterr, ERROR_UNAVAILABLE, "the Lease could not be renewed: %s",
                                 error_message(&error));
        if (r < 0 && (error.kind == ERROR_DENIED || error.kind == ERROR_CANCELED))
                return error_copy(reterr, &error);
        return 0;
}

void leader_resign(Leader *leader) {
        cleanup(json_object_put_p) json_object *spec = NULL;
        cleanup(json_object_put_p) json_object *patch = NULL;

        if (!leader->is_leading || make_spec(leader, "", /* is_new= */ false, &spec) < 0)
                return;
        patch = patch_wrap("spec", take_ptr(spec));
        if (patch)
                (void) session_patch_at_end(leader->session, &leader->path, KUBE_MERGE_PATCH, patch,
                                            &ERROR_INIT);
        leader->is_leading = false;
}
