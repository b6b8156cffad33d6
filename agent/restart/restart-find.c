/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/restart/restart-find.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"
#include "agent/kube/secret-spec.h"
#include "agent/pod/stops.h"

#define REASON_SIZE_MAX 256
#define GRACE_SEC_MAX ((int64_t) 24 * 3600)
#define NAMESPACES_SHOWN 4

static int check_name(const char *what, const char *name, Error *reterr) {
        if (secret_spec_is_name(name))
                return 0;

        return error_set(reterr, ERROR_INVALID, "%s cannot be the name of a %s",
                         quote(name, (char[QUOTE_SIZE]){ 0 }), what);
}

int restart_question_check(const RestartQuestion *question, Error *reterr) {
        int r = 0;

        if (!question->pod[0])
                return error_set(reterr, ERROR_INVALID, "the request names no pod");
        if (strlen(question->reason) > REASON_SIZE_MAX)
                return error_set(reterr, ERROR_INVALID, "the reason has more than %d bytes",
                                 REASON_SIZE_MAX);
        if (!text_is_line(question->reason))
                return error_set(reterr, ERROR_INVALID, "the reason is more than one line of text");
        if (question->grace_sec != STOP_GRACE_OF_POD &&
            (question->grace_sec < 0 || question->grace_sec > GRACE_SEC_MAX))
                return error_set(reterr, ERROR_INVALID,
                                 "the grace period is negative or longer than a day");

        r = check_name("pod", question->pod, reterr);
        if (r >= 0 && question->namespace[0])
                r = check_name("namespace", question->namespace, reterr);
        if (r >= 0 && question->container[0])
                r = check_name("container", question->container, reterr);
        return r;
}

static bool is_meant(const RuntimePod *pod, const RestartQuestion *question) {
        return strcmp(pod->name, question->pod) == 0 &&
               (!question->namespace[0] || strcmp(pod->namespace, question->namespace) == 0);
}

/* Joins the namespaces: "a, b and c". */
static int list_namespaces(const RuntimePods *running, const RestartQuestion *question,
                           char **ret) {
        const char *names[NAMESPACES_SHOWN + 1], *last = "";
        size_t n = 0, size;
        FILE *file;

        for (size_t i = 0; i < running->n_items && n <= NAMESPACES_SHOWN; i++) {
                const RuntimePod *pod = &running->items[i];

                if (!is_meant(pod, question) || strcmp(pod->namespace, last) == 0)
                        continue;
                last = names[n++] = pod->namespace;
        }

        file = text_open(ret, &size);
        if (!file)
                return -ENOMEM;

        for (size_t i = 0; i < n && i < NAMESPACES_SHOWN; i++)
                fprintf(file, "%s%s",
                        i == 0       ? ""
                        : i + 1 == n ? " and "
                                     : ", ",
                        quote(names[i], (char[QUOTE_SIZE]){ 0 }));
        if (n > NAMESPACES_SHOWN)
                fputs(" and others", file);
        return text_close(file, ret);
}

static int refuse_ambiguous(const RuntimePods *running, const RestartQuestion *question,
                            Error *reterr) {
        cleanup(free_p) char *namespaces = NULL;
        int r;

        r = list_namespaces(running, question, &namespaces);
        if (r < 0)
                return r;

        return error_set(reterr, ERROR_INVALID,
                         "there are pods %s in the namespaces %s; name one of these namespaces",
                         question->pod, namespaces);
}

/* The runtime keeps ended containers for a while, at least the last one of each name. */
static bool has_ended(const RuntimePods *pods, const RestartQuestion *question) {
        for (size_t i = 0; i < pods->n_items; i++) {
                const RuntimePod *pod = &pods->items[i];

                for (size_t j = 0; j < pod->n_containers && is_meant(pod, question); j++)
                        if (!question->container[0] ||
                            strcmp(pod->containers[j].name, question->container) == 0)
                                return true;
        }

        return false;
}

static int refuse_missing(const RuntimePods *pods, const RestartQuestion *question, Error *reterr) {
        return error_set(reterr, ERROR_NOT_FOUND, "no container %s%sof pod %s runs on this node%s",
                         question->container, question->container[0] ? " " : "", question->pod,
                         has_ended(pods, question)
                                 ? ": it has ended; if it is to run again, the kubelet starts it, "
                                   "at the latest after its pause of 5 minutes"
                                 : "");
}

/* Returns the creation time of the youngest running container; -1: none runs. */
static int64_t youngest(const RuntimePod *pod) {
        int64_t created_at_nsec = -1;

        for (size_t i = 0; i < pod->n_containers; i++)
                if (pod->containers[i].is_running &&
                    pod->containers[i].created_at_nsec > created_at_nsec)
                        created_at_nsec = pod->containers[i].created_at_nsec;

        return created_at_nsec;
}

static bool is_known(const Pods *known, const RuntimePod *pod) {
        const Pod *now = known ? pods_find(known, pod->namespace, pod->name) : NULL;

        return now && strcmp(now->runtime_uid, pod->uid) == 0;
}

/* A deleted pod may still be ending after its successor of the same name has started. The UIDs
 * differ then, and the API server knows the current one. */
static int choose_pod(const RuntimePods *running, const Pods *pods, const RestartQuestion *question,
                      const RuntimePod **ret, Error *reterr) {
        const Pods *known = pods && pods_are_synced(pods) ? pods : NULL;
        const RuntimePod *chosen = NULL;

        for (size_t i = 0; i < running->n_items; i++) {
                const RuntimePod *other = &running->items[i];

                if (!is_meant(other, question))
                        continue;
                if (chosen && strcmp(chosen->namespace, other->namespace) != 0)
                        return refuse_ambiguous(running, question, reterr);

                if (!chosen || is_known(known, other) ||
                    (!is_known(known, chosen) && youngest(other) > youngest(chosen)))
                        chosen = other;
        }

        if (!chosen)
                return refuse_missing(running, question, reterr);

        *ret = chosen;
        return 0;
}

static bool is_asked_for(const RuntimeContainer *container, const Pod *known,
                         const RestartQuestion *question) {
        const PodContainer *spec = known ? pod_find(known, container->name) : NULL;

        if (!container->is_running)
                return false;
        if (question->container[0])
                return strcmp(container->name, question->container) == 0;

        /* A container that is not in the spec is a debug container, which the kubelet does not
         * start again. */
        return !known || (spec && spec->kind != POD_CONTAINER_INIT);
}

int restart_find(const RuntimePods *running, const Pods *known, const RestartQuestion *question,
                 RestartFound *ret, Error *reterr) {
        RestartFound found = { .n_containers = 0 };
        int r;

        r = choose_pod(running, known, question, &found.pod, reterr);
        if (r < 0)
                return r;

        if (is_known(known, found.pod))
                found.known = pods_find(known, found.pod->namespace, found.pod->name);

        for (size_t i = 0; i < found.pod->n_containers; i++) {
                if (!is_asked_for(&found.pod->containers[i], found.known, question))
                        continue;
                if (found.n_containers == RESTART_CONTAINERS_MAX)
                        return error_set(
                                reterr, ERROR_INVALID,
                                "more than %d containers of pod %s are running; name one of them",
                                RESTART_CONTAINERS_MAX, question->pod);
                found.containers[found.n_containers++] = &found.pod->containers[i];
        }

        if (found.n_containers == 0)
                return refuse_missing(running, question, reterr);

        *ret = found;
        return 0;
}

const char *restart_end_of_pod(const Pod *pod) {
        return pod->is_deleted    ? "nothing starts it again: the pod is being deleted"
               : pod->is_finished ? "nothing starts it again: the pod has finished"
                                  : NULL;
}

int restart_stays_down(const Pod *known, const char *container, char **ret) {
        const PodContainer *spec = known ? pod_find(known, container) : NULL;

        if (known && restart_end_of_pod(known))
                return text_copy(restart_end_of_pod(known), ret);
        if (known && !spec)
                return text_copy("nothing starts it again: it is not in the pod's spec, as debug "
                                 "containers are not",
                                 ret);
        if (!spec || spec->comes_back)
                return text_copy(NULL, ret);
        if (strcmp(spec->restart_policy, "Never") == 0)
                return text_copy("nothing starts it again: restartPolicy Never", ret);

        return text_format(ret, "it is started again only in some cases: restartPolicy %s",
                           spec->restart_policy);
}
