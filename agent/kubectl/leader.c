/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/leader.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/kubectl/workload.h"

#define RENEW_MAX_USEC \
        (20 * USEC_PER_SEC) /* a leader that has not renewed for so long leads no more */
#define RETRY_USEC (2 * USEC_PER_SEC)

int leader_init(Leader *leader, Session *session, const char *name) {
        char host[64] = "";

        (void) gethostname(host, sizeof(host) - 1);
        *leader = (Leader){ .session = session, .path = lease_path(session_namespace(session)) };
        leader->path.name = name;
        return text_format(&leader->identity, "%s_%llx", host, (unsigned long long) random_id());
}

void leader_done(Leader *leader) {
        free(leader->identity);
        free(leader->version);
}

bool leader_is_due(const Leader *leader) {
        return clock_monotonic_usec() >= leader->due_usec;
}

static void schedule(Leader *leader, uint64_t usec) {
        leader->due_usec = clock_monotonic_usec() + usec;
}

static int make(const Leader *leader, const char *holder, bool is_new, json_object **ret) {
        return lease_spec_make(holder, is_new, session_server_sec(leader->session), ret);
}

/* Has the server refuse the patch if another program has written the Lease since. */
static int add_version(json_object *patch, const char *version) {
        return patch_add(patch, "metadata",
                         patch_wrap("resourceVersion", json_object_new_string(version ?: "")));
}

static int note_version(Leader *leader, json_object *lease) {
        return text_set(&leader->version, object_text(lease, "metadata.resourceVersion"));
}

static int create(Leader *leader, Error *reterr) {
        cleanup(json_object_put_p) json_object *lease = NULL, *made = NULL;
        KubePath path = leader->path;
        int r;

        if (make(leader, leader->identity, /* is_new= */ true, &lease) < 0 ||
            lease_spec_name(lease, leader->path.name) < 0)
                return -ENOMEM;

        path.name = NULL;
        r = session_create(leader->session, &path, lease, &made, reterr);
        return r < 0 ? r : note_version(leader, made);
}

static int take(Leader *leader, json_object *lease, Error *reterr) {
        cleanup(json_object_put_p) json_object *patch = NULL, *written = NULL;
        int r;

        if (make(leader, leader->identity, !leader->is_leading, &patch) < 0 ||
            add_version(patch, object_text(lease, "metadata.resourceVersion")) < 0)
                return -ENOMEM;

        r = session_patch(leader->session, &leader->path, KUBE_MERGE_PATCH, patch, &written,
                          reterr);
        return r < 0 ? r : note_version(leader, written);
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
                *ret = lease_sight_is_free(&leader->sight, lease, leader->identity,
                                           clock_monotonic_usec());
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
        schedule(leader, r < 0 ? RETRY_USEC : is_holder ? LEASE_RENEW_USEC : RETRY_USEC);
        if (r >= 0 && is_holder) {
                leader->is_leading = true;
                leader->renewed_usec = clock_monotonic_usec();
                return 0;
        }
        if (r >= 0 && leader->is_leading) {
                leader->is_leading = false;
                return error_set(reterr, ERROR_CONFLICT, "another controller leads now");
        }
        if (leader->is_leading && clock_monotonic_usec() - leader->renewed_usec > RENEW_MAX_USEC)
                return error_set(reterr, ERROR_UNAVAILABLE, "the Lease could not be renewed: %s",
                                 error_message(&error));
        if (r < 0 && (error.kind == ERROR_DENIED || error.kind == ERROR_CANCELED))
                return error_copy(reterr, &error);
        return 0;
}

/* Returns 1 if another program had it. */
static int take_from(Leader *leader, Error *reterr) {
        cleanup(json_object_put_p) json_object *lease = NULL;
        int r = session_get(leader->session, &leader->path, &lease, reterr);
        const char *holder = lease_holder(lease);

        if (r >= 0)
                r = take(leader, lease, reterr);
        return r < 0 ? r : holder && strcmp(holder, leader->identity) != 0;
}

int leader_oust(Leader *leader, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r = take_from(leader, &error);

        schedule(leader, error.kind == ERROR_CONFLICT ? RETRY_USEC : LEASE_RENEW_USEC);
        if (error.kind == ERROR_CONFLICT)
                return 1;
        if (error.kind == ERROR_NOT_FOUND || error.kind == ERROR_DENIED)
                return 0;
        return error.kind == ERROR_NONE ? r : error_copy(reterr, &error);
}

void leader_resign(Leader *leader) {
        cleanup(json_object_put_p) json_object *patch = NULL;

        if (!leader->is_leading || make(leader, "", /* is_new= */ false, &patch) < 0 ||
            add_version(patch, leader->version) < 0)
                return;

        (void) session_patch_at_end(leader->session, &leader->path, KUBE_MERGE_PATCH, patch,
                                    &ERROR_INIT);
        leader->is_leading = false;
}
