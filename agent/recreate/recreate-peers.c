/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/recreate/recreate-request.h"

#define SCHEMES_MAX 64

static int note_pod(Recreate *recreate, const Pod *pod) {
        bool has_request = false;

        for (size_t i = 0; i < recreate->n_requests; i++)
                if (recreate->requests[i]->spec->pod_uid
                            ? strcmp(recreate->requests[i]->spec->pod_uid, pod->uid) == 0
                            : strcmp(recreate->requests[i]->spec->pod_name ?: "", pod->name) == 0)
                        has_request = recreate->requests[i]->is_stale = true;

        return has_request ? recreate_look(recreate) : 0;
}

static int on_pod(const Pod *pod, const Pod *before, void *userdata) {
        Recreate *recreate = userdata;
        int r;

        r = note_pod(recreate, pod);
        return r < 0 ? r : recreate_orphans_look(recreate, pod);
}

static int on_pod_gone(const Pod *pod, void *userdata) {
        return note_pod(userdata, pod);
}

static int on_pods_state(bool is_synced, void *userdata) {
        return recreate_look(userdata);
}

void recreate_watch_pods(Recreate *recreate) {
        recreate->watcher = (PodsWatcher){
                .on_pod = on_pod,
                .on_gone = on_pod_gone,
                .on_state = on_pods_state,
                .userdata = recreate,
        };
        pods_watch(recreate->pods, &recreate->watcher);
}

static bool is_known(const Recreate *recreate, const char *scheme) {
        for (size_t i = 0; i < recreate->n_schemes; i++)
                if (strcmp(recreate->schemes[i], scheme) == 0)
                        return true;

        return false;
}

int recreate_note_runtimes(Recreate *recreate) {
        for (size_t i = 0; i < runtimes_count(recreate->runtimes); i++) {
                const char *name = runtime_name(runtimes_get(recreate->runtimes, i));
                char **schemes;

                if (!name[0] || is_known(recreate, name) || recreate->n_schemes >= SCHEMES_MAX)
                        continue;
                schemes = reallocarray(recreate->schemes, recreate->n_schemes + 1,
                                       sizeof(schemes[0]));
                if (!schemes)
                        return -ENOMEM;
                recreate->schemes = schemes;
                schemes[recreate->n_schemes] = strdup(name);
                if (!schemes[recreate->n_schemes])
                        return -ENOMEM;
                recreate->n_schemes++;
        }

        return 0;
}

Runtime *recreate_find_runtime(const Recreate *recreate, const char *scheme, bool *ret_may_come) {
        Runtime *chosen = runtimes_chosen(recreate->runtimes);
        bool is_any_ready = false;

        *ret_may_come = true;
        if (!scheme[0])
                return chosen && runtime_client(chosen) ? chosen : NULL;

        for (size_t i = 0; i < runtimes_count(recreate->runtimes); i++) {
                Runtime *runtime = runtimes_get(recreate->runtimes, i);

                if (!runtime_client(runtime))
                        continue;
                if (strcmp(runtime_name(runtime), scheme) == 0)
                        return runtime;
                is_any_ready = true;
        }

        *ret_may_come = is_known(recreate, scheme) || !is_any_ready ||
                        !runtimes_are_settled(recreate->runtimes);
        return NULL;
}

static bool may_pass(const Error *error) {
        return error->kind == ERROR_UNAVAILABLE || error->kind == ERROR_TIMEOUT;
}

static void warn(const Recreate *recreate, const char *what, const Error *reason) {
        const Error *trouble = kube_client_trouble(recreate->client);

        if (!trouble || trouble->kind == ERROR_NONE)
                log_warning(recreate->log, NULL,
                            "Cannot write about the restart request `%s`: %s, retrying.", what,
                            error_message(reason));
}

void recreate_note_read(Recreate *recreate, RecreateRight right) {
        bool was_denied = recreate->refusals[right].kind == ERROR_DENIED;

        error_done(&recreate->refusals[right]);
        if (was_denied)
                recreate_tell(recreate);
}

static void note_refusal(Recreate *recreate, RecreateRight right, const char *what,
                         const KubeReply *reply, const Error *error) {
        /* clang-format off */
        static const char *const names[_RECREATE_RIGHT_MAX] = {
                [RECREATE_RIGHT_GET]          = "get " RECREATE_RESOURCE "." RECREATE_GROUP,
                [RECREATE_RIGHT_PATCH]        = "patch " RECREATE_RESOURCE "." RECREATE_GROUP,
                [RECREATE_RIGHT_PATCH_STATUS] =
                        "patch " RECREATE_RESOURCE "/status." RECREATE_GROUP,
                [RECREATE_RIGHT_DELETE]       = "delete " RECREATE_RESOURCE "." RECREATE_GROUP,
                [RECREATE_RIGHT_GET_POD]      = "get pods",
                [RECREATE_RIGHT_PATCH_POD]    = "patch pods/status",
        };
        /* clang-format on */
        Error *said = &recreate->refusals[right];
        bool is_said = said->kind == error->kind;

        error_done(said);
        if (reply->code == 403)
                (void) error_set(said, error->kind, "the right to %s is missing: %s", names[right],
                                 error_message(error));
        else
                (void) error_copy(said, error);
        if (!is_said)
                warn(recreate, what, said);
        recreate_tell(recreate);
}

void recreate_note_written(Recreate *recreate, RecreateRight right, const char *what,
                           unsigned n_failures, const KubeReply *reply, const Error *error) {
        const Error *said = &recreate->refusals[right];

        recreate->on_written(error, recreate->userdata);
        if (!error) {
                recreate_note_read(recreate, right);
                return;
        }

        /* That one request is wrong is told of that one; the others are written all the same. */
        if (error->kind == ERROR_INVALID) {
                if (n_failures == 0)
                        warn(recreate, what, error);
                return;
        }
        /* A server that is busy says nothing about the right that was missing before. */
        if (said->kind != ERROR_DENIED || !may_pass(error))
                note_refusal(recreate, right, what, reply, error);
}
