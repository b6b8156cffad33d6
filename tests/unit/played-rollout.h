/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cluster in which workloads are updated in place
 *
 * Its functions stand for those of the session, of preloads and rights, see tests/CMakeLists.txt. In each turn of a wait
 * events of the test happen, the watches are shown, then the kubelet starts what was written, and controllers see it. All that
 * is written, listed and paused for is noted in lines of cluster.writes. To be included once.
 */

#include <errno.h>
#include <time.h>

#include "agent/kubectl/refresh.h"
#include "agent/kubectl/rights.h"
#include "agent/kubectl/rollout-plan.h"
#include "agent/kubectl/rollout-preload.h"
#include "agent/kubectl/workload.h"
#define PLAYED_CLOCK
#define PLAYED_CREATE
#define PLAYED_PATCH
#include "tests/unit/played-cluster.h"

#define PLAYED_EVENTS_MAX 4
#define PLAYED_TURNS_MAX 100
#define PLAYED_WRITES_MAX 50

typedef enum PlayedMoment {
        NEVER,
        AT_TURN,    /* the n-th of all waits */
        AT_WRITE,   /* the n-th one, rehearsals apart */
        AT_PRELOAD, /* the n-th one */
} PlayedMoment;

typedef enum PlayedKind {
        CHANGE,   /* the object gets a merge patch */
        DELETION, /* it is gone; "unseen": the watch is yet to show that */
        SILENCE, /* the server does not answer from then on, for the reason in the text, if there is one */
        ANSWER,  /* it does again */
        END,     /* a signal, or the time-out */
        REFUSAL, /* the server refuses the write, and the `n_more` that follow */
        LOSS,    /* the answer to the write is lost */
        FAILURE, /* the connection is lost before the write is done */
} PlayedKind;

typedef struct PlayedEvent {
        PlayedMoment moment;
        unsigned n;
        PlayedKind kind;
        const char *resource, *name, *text;
        unsigned n_more;
        ErrorKind error; /* kind of a refusal or silence */
        int status;      /* at the END */
} PlayedEvent;

/* Conditions of a test; all is 0 where nothing is said. */
typedef struct PlayedRollout {
        PlayedEvent events[PLAYED_EVENTS_MAX];
        int64_t pace_sec;     /* how long a turn takes; 0: one second */
        unsigned n_idle;      /* turns before which controllers do nothing */
        const char *resolved; /* {container: image} that a refresh finds */
        const char *
                preload; /* it is refused for that; "": it is done; "outdated": for another template */
        bool is_dry_run;
        const char *refused;  /* kind that the user may not use; NULL: none */
        const char *admitted; /* image that admission makes in rehearsals; NULL: it makes none */
} PlayedRollout;

static struct {
        const PlayedRollout *conditions;
        SessionWatch watches[SESSION_WATCHES_MAX];
        size_t n_watches;
        void *userdata; /* userdata of the watches */
        unsigned n_turns, n_writes, n_preloads;
        int64_t now_sec;
        const PlayedEvent *silence; /* NULL: the server answers */
        int end_status;
        bool is_leaving; /* requests are sent nevertheless */
        int code;
} play;

int clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_rights_require(Session *session, const char *workload, Error *reterr);
int __wrap_rollout_preload(const RolloutWatch *watch, json_object *record, const Census *census,
                           const RolloutPreload *preload, RolloutPreloaded *ret, Error *reterr);
int __wrap_refresh_resolve(const RolloutWatch *watch, int64_t partition, bool is_shown,
                           json_object **ret, json_object **ret_before, Error *reterr);
const Error *__wrap_kube_client_trouble(const KubeClient *client);
KubeClient *__wrap_session_client(const Session *session);
int __wrap_session_ask_user(Session *session, Error *reterr);
const char *__wrap_session_user(Session *session);
int __wrap_session_code(const Session *session);
int __wrap_session_end_status(const Session *session);
bool __wrap_session_is_ended(const Session *session);
void __wrap_session_begin_leave(Session *session);
void __wrap_session_end_leave(Session *session);
int __wrap_session_patch_at_end(Session *session, const KubePath *path, const char *content_type,
                                json_object *body, Error *reterr);
int __wrap_session_pause(Session *session, uint64_t usec, Error *reterr);
const SessionOptions *__wrap_session_options(const Session *session);
int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret);
SessionFollow *__wrap_session_follow_free(SessionFollow *follow);
int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr);

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...) {
        size_t size = strlen(cluster.writes);
        va_list arguments;

        va_start(arguments, format);
        (void) vsnprintf(cluster.writes + size, sizeof(cluster.writes) - size, format, arguments);
        va_end(arguments);
}

int clock_gettime(clockid_t clock, struct timespec *ret) {
        *ret = (struct timespec){ .tv_sec = play.now_sec };
        return 0;
}

/* Objects */

static json_object *objects_of(const char *resource) {
        return json_get(cluster.objects, resource, json_type_array);
}

static size_t n_objects(const char *resource) {
        return objects_of(resource) ? json_object_array_length(objects_of(resource)) : 0;
}

static json_object *object_of(const char *resource, size_t i) {
        return json_object_array_get_idx(objects_of(resource), i);
}

static size_t find_index(const char *resource, const char *name) {
        size_t i = 0;

        while (i < n_objects(resource) && strcmp(object_name(object_of(resource, i)), name) != 0)
                i++;
        return i;
}

static void put(json_object *object, const char *key, json_object *value) {
        json_object_object_add(object, key, value);
}

static void put_text(json_object *object, const char *key, const char *text) {
        put(object, key, json_object_new_string(text));
}

/* Lists whose items have a name or a type are merged by that. */
static void merge(json_object *target, json_object *patch) {
        json_object_object_foreach(patch, key, value) {
                json_object *old = json_object_object_get(target, key);
                const char *by = strcmp(key, "containers") == 0   ? "name"
                                 : strcmp(key, "conditions") == 0 ? "type"
                                                                  : NULL;

                if (!value) {
                        json_object_object_del(target, key);
                        continue;
                }
                if (!old || !(by || json_object_is_type(value, json_type_object))) {
                        put(target, key, json_copy(value));
                        continue;
                }
                if (!by)
                        merge(old, value);
                for (size_t i = 0; by && i < json_object_array_length(value); i++) {
                        json_object *item = json_object_array_get_idx(value, i);
                        json_object *known = json_find(old, by, json_get_text(item, by));

                        if (known)
                                merge(known, item);
                        else
                                json_object_array_add(old, json_copy(item));
                }
        }
}

/* Each change has a version of its own, and one of the spec a generation. */
static void change(json_object *object, json_object *written) {
        cleanup(json_object_put_p) json_object *patch = json_copy(written);
        json_object *metadata = object_at(object, "metadata");
        int version = atoi(object_text(object, "metadata.resourceVersion")) + 1;
        char text[16];

        if (object_at(patch, "metadata"))
                json_object_object_del(object_at(patch, "metadata"), "resourceVersion");
        merge(object, patch);
        (void) snprintf(text, sizeof(text), "%d", version);
        put_text(metadata, "resourceVersion", text);
        if (object_at(patch, "spec"))
                put(metadata, "generation",
                    json_object_new_int64(object_integer(object, "metadata.generation") + 1));
}

static KubeObject shown_of(json_object *object) {
        return (KubeObject){ .namespace = "shop",
                             .name = object_name(object),
                             .uid = object_text(object, "metadata.uid"),
                             .resource_version = object_text(object, "metadata.resourceVersion"),
                             .json = object };
}

/* Events */

static void delete_object(const PlayedEvent *event) {
        size_t i = find_index(event->resource, event->name);
        KubeObject object = shown_of(object_of(event->resource, i));

        for (size_t k = 0; k < play.n_watches; k++)
                if (!event->text && strcmp(play.watches[k].path.resource, event->resource) == 0)
                        assert_ok(play.watches[k].on_gone(&object, play.userdata));
        json_object_array_del_idx(objects_of(event->resource), i, 1);
}

static void happen(const PlayedEvent *event) {
        cleanup(json_object_put_p) json_object *patch = NULL;

        switch (event->kind) {
        case CHANGE:
                patch = parse("%s", event->text);
                change(object_of(event->resource, find_index(event->resource, event->name)), patch);
                return;
        case DELETION: delete_object(event); return;
        case SILENCE: play.silence = event; return;
        case ANSWER: play.silence = NULL; return;
        case END: play.end_status = event->status; return;
        case REFUSAL:
        case LOSS:
        case FAILURE: return;
        }
}

static const PlayedEvent *at(PlayedMoment moment, unsigned n) {
        const PlayedEvent *found = NULL;

        for (size_t i = 0; i < PLAYED_EVENTS_MAX; i++) {
                const PlayedEvent *event = &play.conditions->events[i];

                if (event->moment != moment || n < event->n || n > event->n + event->n_more)
                        continue;
                happen(event);
                found = event;
        }
        return found;
}

/* Writes and reads */

static int refuse_version(json_object *object, json_object *patch, Error *reterr) {
        const char *uid = object_text(patch, "metadata.uid");
        const char *version = object_text(patch, "metadata.resourceVersion");

        if ((uid && strcmp(uid, object_text(object, "metadata.uid")) != 0) ||
            (version && strcmp(version, object_text(object, "metadata.resourceVersion")) != 0))
                return error_set(reterr, ERROR_CONFLICT, "another client was first");
        return 0;
}

static int answer(json_object *object, const PlayedEvent *event, json_object **ret, Error *reterr) {
        play.code = event && event->kind == LOSS ? 0 : 200;
        if (play.code == 0)
                return error_set(reterr, ERROR_UNAVAILABLE, "no answer");
        *ret = json_copy(object);
        return 0;
}

static int fail_write(const PlayedEvent *event, Error *reterr) {
        if (play.end_status && !play.is_leaving)
                return error_set(reterr, ERROR_CANCELED, "ended");
        if (play.n_writes >= PLAYED_WRITES_MAX)
                return error_set(reterr, ERROR_INTERNAL, "it writes without end");
        if (!event || (event->kind != REFUSAL && event->kind != FAILURE))
                return 0;
        play.code = event->kind == REFUSAL ? 403 : 0;
        return event->kind == REFUSAL ? error_set(reterr, event->error, "%s", event->text)
                                      : error_set(reterr, ERROR_UNAVAILABLE, "no connection");
}

static void admit(json_object *rehearsed) {
        json_object *container = template_container(object_template(rehearsed), 0);

        if (play.conditions->admitted)
                put_text(container, "image", play.conditions->admitted);
}

/* A rehearsal is for any version, and is noted without its body. */
int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *patch, json_object **ret, Error *reterr) {
        cleanup(json_object_put_p) json_object *rehearsed = NULL;
        const PlayedEvent *event = NULL;
        size_t i;
        int r;

        (void) cluster_note(path->query         ? "try"
                            : path->subresource ? "patch status of"
                                                : "patch",
                            path, path->query ? NULL : patch);
        r = cluster_refuse(path, reterr);
        if (r >= 0 && !path->query)
                r = fail_write(event = at(AT_WRITE, ++play.n_writes), reterr);
        i = find_index(path->resource, path->name);
        play.code = r < 0 ? play.code : 404;
        if (r >= 0 && i == n_objects(path->resource))
                r = error_set(reterr, ERROR_NOT_FOUND, "%s is gone", path->name);
        play.code = r < 0 ? play.code : 409;
        if (r >= 0)
                r = refuse_version(object_of(path->resource, i), patch, reterr);
        if (r < 0)
                return r;
        if (path->query || cluster.is_dry_run) {
                rehearsed = json_copy(object_of(path->resource, i));
                merge(rehearsed, patch);
                admit(rehearsed);
                return answer(rehearsed, NULL, ret, reterr);
        }
        change(object_of(path->resource, i), patch);
        return answer(object_of(path->resource, i), event, ret, reterr);
}

int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr) {
        json_object *made = json_copy(body);
        const PlayedEvent *event = NULL;
        int r = 0;

        (void) cluster_note(path->query ? "try to create" : "create", path,
                            path->query ? NULL : body);
        if (path->query)
                r = cluster_refuse(&(KubePath){ .resource = "history" }, reterr);
        else
                r = fail_write(event = at(AT_WRITE, ++play.n_writes), reterr);
        put_text(object_at(made, "metadata"), "uid", "made");
        put_text(object_at(made, "metadata"), "resourceVersion", "1");
        put(made, "status", parse("{'replicas':0}"));
        if (r >= 0)
                r = answer(made, event, ret, reterr);
        if (r >= 0 && !path->query)
                json_object_array_add(objects_of(path->resource), made);
        else
                json_object_put(made);
        return r;
}

int __wrap_session_patch_at_end(Session *session, const KubePath *path, const char *content_type,
                                json_object *body, Error *reterr) {
        return cluster_note("in the end patch", path, body);
}

int __wrap_session_pause(Session *session, uint64_t usec, Error *reterr) {
        say("pause %g s\n", (double) usec / 1e6);
        play.now_sec += (int64_t) (usec / SEC);
        return play.end_status && !play.is_leaving ? error_set(reterr, ERROR_CANCELED, "ended") : 0;
}

void __wrap_session_begin_leave(Session *session) {
        play.is_leaving = true;
}

void __wrap_session_end_leave(Session *session) {
        play.is_leaving = false;
}

/* The user and the command */

int64_t __wrap_session_server_sec(const Session *session) {
        return play.now_sec;
}

int __wrap_rights_require(Session *session, const char *workload, Error *reterr) {
        return cluster_refuse(&(KubePath){ .resource = "rights" }, reterr);
}

int __wrap_session_ask_user(Session *session, Error *reterr) {
        return cluster_refuse(&(KubePath){ .resource = "selfsubjectreviews" }, reterr);
}

const char *__wrap_session_user(Session *session) {
        return "alice";
}

KubeClient *__wrap_session_client(const Session *session) {
        return NULL;
}

const Error *__wrap_kube_client_trouble(const KubeClient *client) {
        return NULL;
}

int __wrap_session_code(const Session *session) {
        return play.code;
}

int __wrap_session_end_status(const Session *session) {
        return play.end_status;
}

bool __wrap_session_is_ended(const Session *session) {
        return play.end_status != 0;
}

const SessionOptions *__wrap_session_options(const Session *session) {
        static const SessionOptions options = { .namespace = NULL };

        return &options;
}

int __wrap_rollout_preload(const RolloutWatch *watch, json_object *record, const Census *census,
                           const RolloutPreload *preload, RolloutPreloaded *ret, Error *reterr) {
        const char *result = play.conditions->preload;
        bool is_outdated;

        say("preload for %s%s%s%s: %s\n", json_to_text(record_images(record, false)),
            preload->is_required ? ", required" : "", preload->is_shown ? ", shown" : "",
            preload->keeps_apart ? ", apart" : "", preload->without);
        (void) at(AT_PRELOAD, ++play.n_preloads);
        is_outdated = result && strcmp(result, "outdated") == 0 && play.n_preloads == 1;
        *ret = (RolloutPreloaded){ .is_done = result, .is_outdated = is_outdated };
        return result && *result && strcmp(result, "outdated") != 0
                       ? error_set(reterr, ERROR_UNAVAILABLE, "%s", result)
                       : 0;
}

int __wrap_refresh_resolve(const RolloutWatch *watch, int64_t partition, bool is_shown,
                           json_object **ret, json_object **ret_before, Error *reterr) {
        say("resolve from %lld on%s\n", (long long) partition, is_shown ? ", shown" : "");
        if (!play.conditions->resolved)
                return error_set(reterr, ERROR_UNAVAILABLE, "no node answers");
        *ret = parse("%s", play.conditions->resolved);
        *ret_before = parse("{'app':'a:1@sha256:1'}");
        return 0;
}

/* The kubelet */

static void start_container(json_object *pod, json_object *container, json_object *status) {
        const char *image = json_get_text(container, "image");
        bool is_bad = strstr(image, "bad") != NULL;
        json_object *ready = json_find(object_list(pod, "status.conditions"), "type", "Ready");

        put_text(ready, "status", is_bad ? "False" : "True");
        put(status, "state",
            is_bad ? parse("{'waiting':{'reason':'ImagePullBackOff','message':'no %s'}}", image)
                   : parse("{'running':{}}"));
        if (!is_bad)
                put_text(status, "image", image);
        if (!is_bad)
                put_text(status, "containerID", image);
}

/* The agent opens a gate once the pod runs what it was closed for. */
static bool follow_gate(json_object *pod, const char *image) {
        json_object *list = object_list(pod, "status.conditions");
        json_object *gate = json_find(list, "type", "inplaced.io/Ready");
        json_object *ready = json_find(list, "type", "Ready");
        const char *status =
                gate && !strstr(json_get_text(gate, "message"), image) ? "False" : "True";

        if (!gate || (json_is(gate, "status", status) && json_is(ready, "status", status)))
                return false;
        put_text(gate, "status", status);
        put_text(ready, "status", status);
        return true;
}

/* Starts the containers whose image was written, but none on the node "dead". */
static void start_pods(void) {
        for (size_t i = 0; i < n_objects("pods"); i++) {
                json_object *pod = object_of("pods", i);
                json_object *container =
                        json_object_array_get_idx(object_list(pod, "spec.containers"), 0);
                json_object *status =
                        json_object_array_get_idx(object_list(pod, "status.containerStatuses"), 0);
                const char *image = json_get_text(container, "image");
                bool is_new = !json_is(status, "image", image) && !strstr(image, "slow") &&
                              !json_is(object_at(pod, "spec"), "nodeName", "dead");
                cleanup(json_object_put_p) json_object *none = parse("{}");

                if (is_new)
                        start_container(pod, container, status);
                if (follow_gate(pod, image) || is_new)
                        change(pod, none);
        }
}

/* Controllers */

static const char *image_of(json_object *object) {
        return template_image(object_template(object), "app");
}

static int64_t count_pods(const char *image) {
        int64_t n = 0;

        for (size_t i = 0; i < n_objects("pods"); i++)
                n += json_is(json_object_array_get_idx(object_list(object_of("pods", i),
                                                                   "spec.containers"),
                                                       0),
                             "image", image);
        return n;
}

/* A Deployment counts the pods of the ReplicaSet that has its template. */
static int64_t count_updated(const char *resource, json_object *workload) {
        if (strcmp(resource, "deployments") != 0)
                return count_pods(image_of(workload));
        for (size_t i = 0; i < n_objects("replicasets"); i++) {
                json_object *replica_set = object_of("replicasets", i);

                if (strcmp(image_of(replica_set), image_of(workload)) == 0)
                        return object_integer(replica_set, "status.replicas");
        }
        return 0;
}

static void make_revision(json_object *workload) {
        const char *image = image_of(workload);
        char name[32];

        (void) snprintf(name, sizeof(name), "web-%s", image + strlen("a:"));
        put_text(object_at(workload, "status"), "updateRevision", name);
        if (count_pods(image) == (int64_t) n_objects("pods"))
                put_text(object_at(workload, "status"), "currentRevision", name);
        if (find_index("controllerrevisions", name) < n_objects("controllerrevisions"))
                return;
        json_object_array_add(
                objects_of("controllerrevisions"),
                parse("{'metadata':{'name':'%s','uid':'r-%s','resourceVersion':'1','labels':{'app':'web',"
                      "'controller-revision-hash':'%s'},'ownerReferences':[{'controller':true,"
                      "'uid':'w'}]},'revision':%zu,'data':{'spec':{'template':%s}}}",
                      name, name, name, n_objects("controllerrevisions") + 1,
                      json_to_text(object_template(workload))));
}

/* OpenKruise's controller gives the pods their images itself. */
static void update_pods(json_object *workload) {
        for (size_t i = 0; i < n_objects("pods"); i++) {
                json_object *pod = object_of("pods", i);
                cleanup(json_object_put_p) json_object *patch =
                        parse("{'spec':{'containers':[{'name':'app','image':'%s'}]}}",
                              image_of(workload));

                if (strcmp(template_written_image(pod, "app"), image_of(workload)) != 0)
                        change(pod, patch);
        }
}

static void run_controllers(void) {
        static const char *const resources[] = { "deployments", "replicasets", "statefulsets",
                                                 "daemonsets", "clonesets" };

        for (size_t k = 0; k < N_ELEMENTS(resources); k++)
                for (size_t i = 0; i < n_objects(resources[k]); i++) {
                        json_object *workload = object_of(resources[k], i);
                        json_object *status = object_at(workload, "status");
                        int64_t n = count_updated(resources[k], workload);

                        if (objects_of("controllerrevisions"))
                                make_revision(workload);
                        if (strcmp(resources[k], "clonesets") == 0)
                                update_pods(workload);
                        put(status, "updatedReplicas", json_object_new_int64(n));
                        put(status, "updatedNumberScheduled", json_object_new_int64(n));
                        put(status, "observedGeneration",
                            json_object_new_int64(object_integer(workload, "metadata.generation")));
                }
}

/* Watches */

int __wrap_session_follow_new(Session *session, const SessionWatch *watches, size_t n_watches,
                              void *userdata, SessionFollow **ret) {
        memcpy(play.watches, watches, n_watches * sizeof(*watches));
        play.n_watches = n_watches;
        play.userdata = userdata;
        *ret = (SessionFollow *) &play;
        for (size_t i = 0; i < n_watches; i++) {
                play.watches[i].fields = NULL; /* the caller's text is gone after this */
                say("%s%s%s%s%s%s", i == 0 ? "follow " : ", ", watches[i].path.resource,
                    watches[i].fields ? " of " : "", watches[i].fields ?: "",
                    watches[i].labels ? " of " : "", watches[i].labels ?: "");
        }
        say("\n");
        return 0;
}

SessionFollow *__wrap_session_follow_free(SessionFollow *follow) {
        play.n_watches = 0;
        return NULL;
}

static void show_all(void) {
        for (size_t k = 0; k < play.n_watches; k++)
                for (size_t i = 0; i < n_objects(play.watches[k].path.resource); i++) {
                        cleanup(json_object_put_p) json_object *copy =
                                json_copy(object_of(play.watches[k].path.resource, i));
                        const KubeObject object = shown_of(copy);

                        assert_ok(play.watches[k].on_object(&object, play.userdata));
                }
}

int __wrap_session_follow_wait(SessionFollow *follow, int (*is_done)(void *userdata),
                               int (*is_away)(const Error *error, void *userdata), void *userdata,
                               Error *reterr) {
        for (int r = 0; r == 0;) {
                cleanup(error_done) Error error = ERROR_INIT;

                if (++play.n_turns >= PLAYED_TURNS_MAX)
                        return error_set(reterr, ERROR_INTERNAL, "it waits without end");
                (void) at(AT_TURN, play.n_turns);
                if (play.end_status)
                        return error_set(reterr, ERROR_CANCELED, "ended");
                if (play.silence) {
                        if (play.silence->text)
                                (void) error_set(&error, play.silence->error, "%s",
                                                 play.silence->text);
                        r = is_away(&error, userdata);
                } else {
                        show_all();
                        r = is_done(userdata);
                }
                if (r < 0)
                        return r;
                start_pods();
                if (play.n_turns > play.conditions->n_idle)
                        run_controllers();
                play.now_sec += play.conditions->pace_sec ?: 1;
        }
        return 0;
}

/* Runs the command on these objects. */
#define PLAY_ROLLOUT(played, conditions_of, objects, call)        \
        do {                                                      \
                memset(&play, 0, sizeof(play));                   \
                play.conditions = (conditions_of);                \
                play.now_sec = PLAYED_NOW;                        \
                cluster.is_dry_run = play.conditions->is_dry_run; \
                cluster.refused = play.conditions->refused;       \
                PLAY(played, objects, call);                      \
        } while (0)
