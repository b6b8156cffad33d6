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

void recreate_note_written(Recreate *recreate, const char *right, const char *what,
                           const KubeReply *reply, const Error *error) {
        const Error *trouble = kube_client_trouble(recreate->client);
        cleanup(error_done) Error reason = ERROR_INIT;

        recreate->on_written(error, recreate->userdata);
        if (!error) {
                error_done(&recreate->refusal);
                return;
        }

        if (reply->code == 403)
                (void) error_set(&reason, error->kind, "the right to %s is missing: %s", right,
                                 error_message(error));
        else
                (void) error_copy(&reason, error);
        if (reason.kind != recreate->refusal.kind && (!trouble || trouble->kind == ERROR_NONE))
                log_warning(recreate->log, NULL,
                            "Cannot write about the restart request `%s`: %s, retrying.", what,
                            error_message(&reason));

        error_done(&recreate->refusal);
        recreate->refusal = reason;
        reason = ERROR_INIT;
        recreate_tell(recreate);
}
