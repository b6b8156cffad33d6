/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/config-restarts.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/array.h"
#include "agent/base/clock.h"
#include "agent/base/log-once.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/config-plan.h"
#include "agent/kubectl/controller-plan.h"
#include "agent/kubectl/rollout-record.h"
#include "agent/kubectl/workload.h"

#define LEDGER "inplaced-config-versions"
#define LEDGER_MAX 1000000 /* bytes; a Secret has 1 MiB, with its key */
#define DELAY_SEC \
        10 /* kubelets watch what their pods use, and know a change in well under a second */
#define UNUSED_SEC 600 /* how long changes of an object are noted after its last user */
#define READS_MAX 100  /* in a turn, so that the Lease is renewed meanwhile */
#define RETRY_MIN_SEC 30
#define RETRY_MAX_SEC 600
#define PACE_USEC USEC_PER_SEC
#define TROUBLE_USEC (10 * USEC_PER_SEC)

/* A ConfigMap or Secret that pods use, or have used. */
typedef struct ConfigObject {
        char *of; /* key in the ledger */
        char *version;
        size_t n_users;
        int64_t unused_sec;       /* since when it has no users */
        bool is_unread;           /* it has another version than the ledger knows */
        bool is_left_out;         /* the ledger had no room for it */
        uint64_t not_before_usec; /* when it is read again, after a refusal */
        LogOnce logged;
} ConfigObject;

/* Restarts in the pods of a workload. */
typedef struct ConfigRun {
        ConfigRestarts *restarts;
        char *key;           /* key of the group */
        json_object *group;  /* group of a ConfigPlan */
        json_object *object; /* the workload, for events; NULL: it could not be read */
        Program *program;    /* NULL: it has failed, and waits */
        unsigned n_failures; /* in a row */
        int64_t ended_sec;
        int64_t yielded_sec; /* when an update or another run was last found that comes first, or could not be ruled out */
} ConfigRun;

struct ConfigRestarts {
        ConfigRestartsOptions options;
        int64_t delay_sec;
        ConfigPod **pods; /* by key */
        size_t n_pods;
        ConfigObject **objects; /* by key in the ledger */
        size_t n_objects;
        ConfigRun **runs; /* by key of the group */
        size_t n_runs;

        json_object *ledger; /* NULL: not read yet */
        char *ledger_version;
        uint8_t secret[SIPHASH_KEY_SIZE];
        bool is_dirty;    /* the ledger is not written yet */
        bool has_changes; /* the ledger has changes that are not carried out */
        size_t n_unread;
        size_t next_read; /* index of the object that is read next, if it has to be */
        uint64_t due_usec;
};

DEFINE_CLEANUP(ConfigPod *, config_pod_free)

static ConfigObject *config_object_free(ConfigObject *object) {
        if (object) {
                free(object->of);
                free(object->version);
                free(object);
        }
        return NULL;
}

DEFINE_CLEANUP(ConfigObject *, config_object_free)

static ConfigRun *config_run_free(ConfigRun *run) {
        if (run) {
                program_free(run->program);
                free(run->key);
                json_object_put(run->group);
                json_object_put(run->object);
                free(run);
        }
        return NULL;
}

DEFINE_CLEANUP(ConfigRun *, config_run_free)

int config_restarts_new(const ConfigRestartsOptions *options, ConfigRestarts **ret) {
        ConfigRestarts *restarts = calloc(1, sizeof(*restarts));

        if (!restarts)
                return -ENOMEM;
        restarts->options = *options;
        restarts->delay_sec = options->flags->config_delay_sec ?: DELAY_SEC;
        *ret = restarts;
        return 0;
}

ConfigRestarts *config_restarts_free(ConfigRestarts *restarts) {
        if (!restarts)
                return NULL;
        for (size_t i = 0; i < restarts->n_pods; i++)
                config_pod_free(restarts->pods[i]);
        for (size_t i = 0; i < restarts->n_objects; i++)
                config_object_free(restarts->objects[i]);
        for (size_t i = 0; i < restarts->n_runs; i++)
                config_run_free(restarts->runs[i]);
        free(restarts->pods);
        free(restarts->objects);
        free(restarts->runs);
        json_object_put(restarts->ledger);
        free(restarts->ledger_version);
        explicit_bzero(restarts->secret, sizeof(restarts->secret));
        free(restarts);
        return NULL;
}

/* Watches */

static int compare_pod(const void *item, const void *key) {
        return strcmp(((const ConfigPod *) item)->key, key);
}

static int compare_object(const void *item, const void *of) {
        return strcmp(((const ConfigObject *) item)->of, of);
}

static int compare_run(const void *item, const void *key) {
        return strcmp(((const ConfigRun *) item)->key, key);
}

static void set_unread(ConfigRestarts *restarts, ConfigObject *object, bool is_unread) {
        restarts->n_unread += (size_t) is_unread - (size_t) object->is_unread;
        object->is_unread = is_unread;
}

/* Makes it if it is not known yet. */
static int find_object(ConfigRestarts *restarts, const char *of, ConfigObject **ret) {
        cleanup(config_object_free_p) ConfigObject *made = NULL;
        size_t at;

        if (sorted_find(restarts->objects, restarts->n_objects, compare_object, of, &at)) {
                *ret = restarts->objects[at];
                return 0;
        }
        made = calloc(1, sizeof(*made));
        if (!made || text_copy(of, &made->of) < 0 ||
            sorted_insert(&restarts->objects, &restarts->n_objects, at, made) < 0)
                return -ENOMEM;
        made->unused_sec = clock_monotonic_sec();
        set_unread(restarts, made, true);
        *ret = take_ptr(made);
        return 0;
}

static int add_user(const char *of, void *userdata) {
        ConfigObject *object;
        int r = find_object(userdata, of, &object);

        if (r >= 0)
                object->n_users++;
        return r;
}

static void forget_object(ConfigRestarts *restarts, size_t at) {
        ConfigObject *object = restarts->objects[at];

        set_unread(restarts, object, false);
        sorted_remove(restarts->objects, &restarts->n_objects, at);
        config_object_free(object);
}

/* While another controller leads, nothing is known of an object, and forget_unused() does not run. */
static int remove_user(const char *of, void *userdata) {
        ConfigRestarts *restarts = userdata;
        size_t at;

        if (!sorted_find(restarts->objects, restarts->n_objects, compare_object, of, &at) ||
            --restarts->objects[at]->n_users > 0)
                return 0;
        restarts->objects[at]->unused_sec = clock_monotonic_sec();
        if (!restarts->ledger)
                forget_object(restarts, at);
        return 0;
}

/* pod: NULL: it is gone. */
static int replace_pod(ConfigRestarts *restarts, const char *key, ConfigPod *pod) {
        cleanup(config_pod_free_p) ConfigPod *made = pod;
        size_t at;
        int r = made ? config_pod_objects(made, add_user, restarts) : 0;

        if (r < 0)
                return r;
        if (sorted_find(restarts->pods, restarts->n_pods, compare_pod, key, &at)) {
                ConfigPod *old = restarts->pods[at];

                (void) config_pod_objects(old, remove_user, restarts);
                sorted_remove(restarts->pods, &restarts->n_pods, at);
                if (made && text_equal(made->uid, old->uid)) {
                        json_object_put(made->served);
                        made->served = json_object_get(old->served);
                }
                config_pod_free(old);
        }
        if (!made)
                return 0;
        r = sorted_insert(&restarts->pods, &restarts->n_pods, at, made);
        if (r >= 0)
                take_ptr(made);
        return r;
}

static int note_pod(const KubeObject *object, bool is_gone, ConfigRestarts *restarts) {
        cleanup(free_p) char *key = NULL;
        ConfigPod *pod = NULL;

        if (text_format(&key, "%s/%s", object->namespace, object->name) < 0 ||
            (!is_gone && config_pod_new(object->json, &pod) < 0))
                return -ENOMEM;
        return replace_pod(restarts, key, pod);
}

static int on_pod(const KubeObject *object, void *userdata) {
        return note_pod(object, /* is_gone= */ false, userdata);
}

static int on_pod_gone(const KubeObject *object, void *userdata) {
        return note_pod(object, /* is_gone= */ true, userdata);
}

/* version: NULL: the object is gone. When an object without users changes is known for a while, too: should its users come
 * back, they have the value. */
static int note_version(ConfigRestarts *restarts, const char *kind, const KubeObject *object,
                        const char *version) {
        cleanup(free_p) char *of = NULL;
        size_t at;

        if (text_format(&of, "%s/%s/%s", kind, object->namespace, object->name) < 0)
                return -ENOMEM;
        if (sorted_find(restarts->objects, restarts->n_objects, compare_object, of, &at) &&
            (!version || !text_equal(version, restarts->objects[at]->version))) {
                set_unread(restarts, restarts->objects[at], true);
                restarts->objects[at]->not_before_usec = 0;
        }
        return 0;
}

static int on_config_map(const KubeObject *object, void *userdata) {
        return note_version(userdata, "configmap", object, object->resource_version);
}

static int on_config_map_gone(const KubeObject *object, void *userdata) {
        return note_version(userdata, "configmap", object, NULL);
}

static int on_secret(const KubeObject *object, void *userdata) {
        return note_version(userdata, "secret", object, object->resource_version);
}

static int on_secret_gone(const KubeObject *object, void *userdata) {
        return note_version(userdata, "secret", object, NULL);
}

void config_restarts_watches(ConfigRestarts *restarts, const char *namespace, SessionWatch *ret) {
        const SessionWatch watches[CONFIG_WATCHES] = {
                { .path = workload_path(WORKLOAD_POD, namespace, NULL),
                  .fields = "spec.restartPolicy=Always",
                  .on_object = on_pod,
                  .on_gone = on_pod_gone },
                { .path = { .version = "v1", .namespace = namespace, .resource = "configmaps" },
                  .on_object = on_config_map,
                  .on_gone = on_config_map_gone },
                { .path = { .version = "v1", .namespace = namespace, .resource = "secrets" },
                  .on_object = on_secret,
                  .on_gone = on_secret_gone },
        };

        for (size_t i = 0; i < CONFIG_WATCHES; i++) {
                ret[i] = watches[i];
                ret[i].is_metadata = i > 0;
                ret[i].userdata = restarts;
        }
}

/* The ledger */

static KubePath ledger_path(const ConfigRestarts *restarts, const char *name) {
        return (KubePath){ .version = "v1",
                           .namespace = session_namespace(restarts->options.session),
                           .resource = "secrets",
                           .name = name };
}

static int create_ledger(ConfigRestarts *restarts, Error *reterr) {
        const KubePath path = ledger_path(restarts, NULL);
        cleanup(json_object_wipe_p) json_object *body =
                patch_wrap("metadata", patch_wrap("name", json_object_new_string(LEDGER)));
        cleanup(text_wipe) char *key = NULL;
        uint64_t words[2];
        json_object *texts;

        if (getrandom(words, sizeof(words), 0) != sizeof(words))
                return -errno;
        if (text_format(&key, "%016" PRIx64 "%016" PRIx64, words[0], words[1]) < 0 ||
            patch_add_text(body, "apiVersion", "v1") < 0 ||
            patch_add_text(body, "kind", "Secret") < 0 ||
            patch_add(body, "stringData", texts = json_object_new_object()) < 0 ||
            patch_add_text(texts, "key", key) < 0 || patch_add_text(texts, "versions", "{}") < 0)
                return -ENOMEM;
        return session_create(restarts->options.session, &path, body, /* ret= */ NULL, reterr);
}

/* The text of a Secret's key, which ends with a NUL; the caller owns *ret, which is NULL if it is not there. */
static int read_text(json_object *secret, const char *key, char **ret) {
        const char *text = json_get_text(json_get(secret, "data", json_type_object), key);
        size_t size = text ? strlen(text) + 1 : 0;
        cleanup(text_wipe) char *decoded = NULL;

        *ret = NULL;
        if (!text)
                return 0;
        decoded = calloc(1, size);
        if (!decoded)
                return -ENOMEM;
        if (b64_pton(text, (unsigned char *) decoded, size) >= 0)
                *ret = take_ptr(decoded);
        return 0;
}

static bool read_secret(const char *text, uint8_t ret[static SIPHASH_KEY_SIZE]) {
        for (size_t i = 0; i < SIPHASH_KEY_SIZE; i++) {
                const char byte[3] = { text[2 * i], text[2 * i] ? text[2 * i + 1] : '\0', '\0' };
                char *end;

                ret[i] = (uint8_t) strtoul(byte, &end, 16);
                if (end != byte + 2)
                        return false;
        }
        return text[2 * SIPHASH_KEY_SIZE] == '\0';
}

static int take_ledger(ConfigRestarts *restarts, json_object *secret, Error *reterr) {
        cleanup(text_wipe) char *key = NULL;
        cleanup(text_wipe) char *versions = NULL;
        cleanup(json_object_put_p) json_object *ledger = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (read_text(secret, "key", &key) < 0 || read_text(secret, "versions", &versions) < 0)
                return -ENOMEM;
        r = key && versions && read_secret(key, restarts->secret)
                    ? json_parse(versions, strlen(versions), &ledger, &error)
                    : 0;
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (!config_is_ledger(ledger))
                return error_set(reterr, ERROR_INVALID,
                                 "the Secret " LEDGER " is damaged: delete it, which forgets what "
                                 "has changed since");
        if (text_set(&restarts->ledger_version, object_text(secret, "metadata.resourceVersion")) <
            0)
                return -ENOMEM;
        restarts->ledger = take_ptr(ledger);
        restarts->has_changes = config_has_changes(restarts->ledger);
        return 0;
}

/* "KIND/NAMESPACE/NAME" */
static bool is_object_key(const char *of) {
        const char *namespace = strchr(of, '/');
        const char *name = namespace ? strchr(namespace + 1, '/') : NULL;

        return (strncmp(of, "configmap/", 10) == 0 || strncmp(of, "secret/", 7) == 0) && name &&
               name > namespace + 1 && name[1];
}

/* The controller before this one may have noted a change of an object that has no users now: the next pod may have missed it.
 * What has changed since is noted as well, or a pod that comes later would restart for it. */
static int adopt_objects(ConfigRestarts *restarts) {
        json_object_object_foreach(restarts->ledger, of, entry) {
                ConfigObject *object;

                (void) entry;
                if (is_object_key(of) && find_object(restarts, of, &object) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int load(ConfigRestarts *restarts, Error *reterr) {
        const KubePath path = ledger_path(restarts, LEDGER);
        cleanup(json_object_wipe_p) json_object *secret = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r = session_get(restarts->options.session, &path, &secret, &error);

        if (error.kind == ERROR_NOT_FOUND) {
                r = create_ledger(restarts, reterr);
                if (r >= 0)
                        r = session_get(restarts->options.session, &path, &secret, reterr);
        } else if (error.kind != ERROR_NONE)
                return error_copy(reterr, &error);
        if (r >= 0)
                r = take_ledger(restarts, secret, reterr);
        return r < 0 ? r : adopt_objects(restarts);
}

/* An object that changes all the time must not be read for ever. */
static bool is_abandoned(const ConfigObject *object) {
        return object->n_users == 0 && clock_monotonic_sec() >= object->unused_sec + UNUSED_SEC;
}

/* Forgets objects that no pod uses any more, but not yet a change that the next pod may have missed. */
static void forget_unused(ConfigRestarts *restarts) {
        cleanup(json_object_put_p) json_object *kept = json_object_new_object();

        for (size_t i = restarts->n_objects; i > 0; i--) {
                ConfigObject *object = restarts->objects[i - 1];
                json_object *entry = json_get(restarts->ledger, object->of, json_type_object);

                if (is_abandoned(object) || (object->n_users == 0 && !config_is_changing(entry)))
                        forget_object(restarts, i - 1);
                else if (entry && patch_add(kept, object->of, json_object_get(entry)) < 0)
                        return;
        }
        if (!kept)
                return;
        json_object_put(restarts->ledger);
        restarts->ledger = take_ptr(kept);
}

/* Names the first object that is left out for the first time, and counts the others. */
static int trim(ConfigRestarts *restarts) {
        cleanup(json_object_put_p) json_object *removed = json_object_new_array();
        const char *first = NULL;
        size_t n = 0, at;
        int r = removed ? config_trim(restarts->ledger, LEDGER_MAX, removed) : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(removed); i++) {
                const char *of = json_object_get_string(json_object_array_get_idx(removed, i));

                if (!sorted_find(restarts->objects, restarts->n_objects, compare_object, of, &at) ||
                    restarts->objects[at]->is_left_out)
                        continue;
                restarts->objects[at]->is_left_out = true;
                first = first ?: of;
                n++;
        }
        if (n > 0)
                log_write(restarts->options.log, LOG_WARNING, NULL,
                          "The Secret " LEDGER " has no room for the keys of %s%s: containers do "
                          "not restart for its changes. Let fewer pods of its namespace ask for "
                          "restarts, or use objects with fewer keys.",
                          first, n > 1 ? " and others" : "");
        return r;
}

/* Another controller may have written meanwhile: then all is read again. */
static int save(ConfigRestarts *restarts, Error *reterr) {
        const KubePath path = ledger_path(restarts, LEDGER);
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(json_object_wipe_p) json_object *written = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        const char *text;
        int r;

        forget_unused(restarts);
        if (trim(restarts) < 0)
                return -ENOMEM;
        text = json_to_text(restarts->ledger);
        patch = patch_wrap("stringData",
                           patch_wrap("versions", text ? json_object_new_string(text) : NULL));
        if (patch_add(patch, "metadata",
                      patch_wrap("resourceVersion",
                                 json_object_new_string(restarts->ledger_version ?: ""))) < 0)
                return -ENOMEM;
        r = session_patch(restarts->options.session, &path, KUBE_MERGE_PATCH, patch, &written,
                          &error);
        if (error.kind == ERROR_CONFLICT || error.kind == ERROR_NOT_FOUND) {
                json_object_put(restarts->ledger);
                restarts->ledger = NULL;
                for (size_t i = 0; i < restarts->n_objects; i++) {
                        set_unread(restarts, restarts->objects[i], true);
                        (void) text_set(&restarts->objects[i]->version, NULL);
                }
        }
        if (error.kind != ERROR_NONE)
                return error_copy(reterr, &error);
        restarts->is_dirty = false;
        return r < 0 ? r
                     : text_set(&restarts->ledger_version,
                                object_text(written, "metadata.resourceVersion"));
}

/* A pod may name, in a volume, what no object can be named; an answer that cannot be read is no such refusal. */
static bool is_missing(const Session *session, const Error *error) {
        return error->kind == ERROR_NOT_FOUND ||
               (error->kind == ERROR_INVALID && session_code(session) >= 400);
}

/* An object that was left out would push itself, or another one, out again. */
static bool has_room(const ConfigRestarts *restarts, const ConfigObject *object) {
        return !object->is_left_out ||
               json_object_object_get_ex(restarts->ledger, object->of, NULL);
}

/* Errors show names only, never values. */
static int read_object(ConfigRestarts *restarts, ConfigObject *object, Error *reterr) {
        cleanup(free_p) char *copy = NULL;
        cleanup(json_object_wipe_p) json_object *json = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        KubePath path = { .version = "v1" };
        char *namespace, *name;
        int r = text_copy(object->of, &copy);

        if (r < 0)
                return r;
        namespace = strchr(copy, '/') + 1;
        name = strchr(namespace, '/') + 1;
        name[-1] = namespace[-1] = '\0';
        path.resource = text_equal(copy, "secret") ? "secrets" : "configmaps";
        path.namespace = namespace;
        path.name = name;
        set_unread(restarts, object, false);
        r = session_get(restarts->options.session, &path, &json, &error);
        if (error.kind != ERROR_NONE && !is_missing(restarts->options.session, &error)) {
                set_unread(restarts, object, true);
                (void) text_set(&object->version, NULL);
                return error_copy(reterr, &error);
        }
        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        (void) log_once(&object->logged, NULL);
        if (!has_room(restarts, object))
                return 0;
        r = config_note(restarts->ledger, &(const ConfigState){ .of = object->of,
                                                                .object = json,
                                                                .secret = restarts->secret,
                                                                .now_sec = session_server_sec(
                                                                        restarts->options.session),
                                                                .is_watched = object->version });
        if (r >= 0 && text_set(&object->version, object_text(json, "metadata.resourceVersion")) < 0)
                r = -ENOMEM;
        restarts->is_dirty = restarts->is_dirty || r > 0;
        return r < 0 ? r : 0;
}

/* The server answers, knows who asks, and is not just busy: it may show other objects. */
static bool is_of_object(const Session *session) {
        int code = session_code(session);

        return code > 0 && code <= 500 && code != 401 && code != 429;
}

/* An object that the server does not show, such as a Secret that it cannot decrypt, leaves the others their turn. */
static int try_object(ConfigRestarts *restarts, ConfigObject *object, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r = read_object(restarts, object, &error);

        if (error.kind == ERROR_NONE)
                return r;
        if (!is_of_object(restarts->options.session))
                return error_copy(reterr, &error);
        object->not_before_usec = clock_monotonic_usec() + RETRY_MIN_SEC * USEC_PER_SEC;
        if (log_once(&object->logged, error_message(&error)))
                log_write(restarts->options.log, LOG_WARNING, NULL,
                          "Containers do not restart for changes of %s for now: %s", object->of,
                          error_message(&error));
        return 0;
}

/* "KIND/NAMESPACE/NAME": whether kind and namespace are the same. */
static bool is_beside(const ConfigObject *object, const ConfigObject *other) {
        size_t size = (size_t) (strchr(strchr(object->of, '/') + 1, '/') - object->of) + 1;

        return strncmp(object->of, other->of, size) == 0;
}

/* Each turn goes on behind the last object of the one before, and leaves objects to other namespaces: a pod that comes and goes
 * with a thousand names must not keep the others from being read. Objects may be added meanwhile, and none is removed. */
static int read_objects(ConfigRestarts *restarts, Error *reterr) {
        const ConfigObject *last = NULL;
        uint64_t now_usec = clock_monotonic_usec();
        size_t at = restarts->next_read, n_read = 0, n_own = 0;
        int r = 0;

        for (size_t n = restarts->n_objects; r >= 0 && n > 0; n--, at++) {
                ConfigObject *object;

                at = at < restarts->n_objects ? at : 0;
                object = restarts->objects[at];
                if (!object->is_unread || now_usec < object->not_before_usec)
                        continue;
                if (is_abandoned(object)) {
                        restarts->is_dirty = true; /* save() forgets it */
                        continue;
                }
                if (!last || !is_beside(object, last))
                        n_own = 0;
                last = object;
                if (!update_has_place(n_read, n_own, READS_MAX,
                                      restarts->options.flags->all_namespaces))
                        continue;
                restarts->next_read = at + 1;
                r = try_object(restarts, object, reterr);
                n_read++;
                n_own++;
        }
        restarts->has_changes = config_has_changes(restarts->ledger);
        return r;
}

/* Runs */

static void say(const ConfigRun *run, bool is_warning, const char *reason, const char *message) {
        const ConfigRestartsOptions *options = &run->restarts->options;
        const KubeReference object = { .api_version = json_get_text(run->object, "apiVersion"),
                                       .kind = json_get_text(run->object, "kind"),
                                       .namespace = json_get_text(run->group, "namespace"),
                                       .name = object_name(run->object),
                                       .uid = object_text(run->object, "metadata.uid") };

        log_write(options->log, is_warning ? LOG_WARNING : LOG_INFO,
                  LOG_FIELDS({ "WORKLOAD", run->key }, { "REASON", reason }), "\"%s\": %s",
                  run->key, message);
        if (run->object)
                (void) kube_event_send(options->events, &object, is_warning ? "Warning" : "Normal",
                                       reason, message);
}

/* containers: separated by commas. */
static int add_served(ConfigPod *pod, const char *containers, int64_t changed_sec) {
        cleanup(free_p) char *copy = NULL;
        char *rest;

        if (text_copy(containers, &copy) < 0)
                return -ENOMEM;
        rest = copy;
        for (const char *name; (name = strsep(&rest, ","));)
                if (patch_add_nonzero(pod->served, name, changed_sec) < 0)
                        return -ENOMEM;
        return 0;
}

/* The containers have the change, even if the clock of their node says otherwise. The others of the pod, which may wait
 * for a key that is gone, were not restarted. */
static int note_served(const ConfigRun *run) {
        json_object *names = object_list(run->group, "pods");
        int64_t changed_sec = json_get_integer(run->group, "changed");

        for (size_t i = 0; i < json_object_array_length(names); i++) {
                cleanup(free_p) char *key = NULL;
                size_t at;

                if (text_format(&key, "%s/%s", json_get_text(run->group, "namespace"),
                                json_object_get_string(json_object_array_get_idx(names, i))) < 0)
                        return -ENOMEM;
                if (!sorted_find(run->restarts->pods, run->restarts->n_pods, compare_pod, key, &at))
                        continue;
                if (add_served(run->restarts->pods[at], json_get_text(run->group, "containers"),
                               changed_sec) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int on_run(const char *output, size_t size, const Error *error, void *userdata) {
        ConfigRun *run = userdata;
        cleanup(json_object_put_p) json_object *result = NULL;
        cleanup(free_p) char *message = NULL;
        cleanup(error_done) Error unreadable = ERROR_INIT;
        const char *reason = error ? error_message(error) : NULL;
        int r;

        run->program = program_free(run->program);
        run->ended_sec = clock_monotonic_sec();
        r = error ? 0 : json_parse(output, size, &result, &unreadable);
        if (r < 0 && unreadable.kind == ERROR_NONE)
                return r;
        if (r < 0)
                reason = error_message(&unreadable);
        if (json_is(result, "outcome", "restarted")) {
                run->n_failures = 0;
                if (text_format(&message, "%zu pods have restarted with the changed %s",
                                json_object_array_length(object_list(run->group, "pods")),
                                json_get_text(run->group, "cause")) < 0)
                        return -ENOMEM;
                say(run, false, "InPlaceRestartSucceeded", message);
                return note_served(run);
        }
        run->n_failures++;
        if (text_format(&message, "for the changed %s: %s", json_get_text(run->group, "cause"),
                        json_get_text(result, "reason") ?: reason ?: "it was refused") < 0)
                return -ENOMEM;
        say(run, true, "InPlaceRestartFailed", message);
        return 0;
}

/* Reads the workload for its update, and for events: none are sent about one that is gone, or may not be read. False: the
 * server does not tell. */
static bool read_workload(ConfigRun *run) {
        cleanup(error_done) Error error = ERROR_INIT;
        const char *name;
        WorkloadKind kind;
        KubePath path;

        if (workload_name_parse(json_get_text(run->group, "workload"), &kind, &name,
                                /* reterr= */ NULL) < 0)
                return true;
        path = workload_path(kind, json_get_text(run->group, "namespace"), name);
        return !path.version ||
               session_get(run->restarts->options.session, &path, &run->object, &error) >= 0 ||
               error.kind == ERROR_NOT_FOUND || error.kind == ERROR_DENIED;
}

/* Each takes a restart by the other one for a fault. */
static int is_updated(const ConfigRun *run, bool *ret) {
        cleanup(json_object_put_p) json_object *record = NULL;
        int r = rollout_record_read(run->object, &record, NULL);

        *ret = r >= 0 && rollout_record_is_open(record);
        return r == -ENOMEM ? r : 0;
}

static int start(ConfigRun *run) {
        const ConfigRestartsOptions *options = &run->restarts->options;
        json_object *pods = object_list(run->group, "pods");
        size_t n_pods = json_object_array_length(pods), n = 0;
        cleanup(free_p) const char **words = calloc(n_pods + 8, sizeof(*words));
        cleanup(free_p) char *message = NULL;
        cleanup(free_p) char *since = NULL;
        int r;

        if (!words ||
            text_format(&since, "%" PRId64,
                        json_get_integer(run->group, "changed") + run->restarts->delay_sec) < 0 ||
            text_format(&message, "%s of %zu pods restarts for the changed %s",
                        json_get_text(run->group, "containers"), n_pods,
                        json_get_text(run->group, "cause")) < 0)
                return -ENOMEM;
        words[n++] = "__restart-pods";
        words[n++] = json_get_text(run->group, "workload");
        words[n++] = since;
        for (size_t i = 0; i < n_pods; i++)
                words[n++] = json_object_get_string(json_object_array_get_idx(pods, i));
        words[n++] = "--containers";
        words[n++] = json_get_text(run->group, "containers");
        words[n++] = "--namespace";
        words[n++] = json_get_text(run->group, "namespace");
        r = own_run(options->session, options->flags, words, on_run, run, &run->program);
        if (r >= 0)
                say(run, false, "InPlaceRestartStarted", message);
        return r;
}

static bool has_place(const ConfigRestarts *restarts, const char *namespace) {
        size_t n = 0, n_own = 0;

        for (size_t i = 0; i < restarts->n_runs; i++) {
                const ConfigRun *run = restarts->runs[i];

                n += run->program != NULL;
                n_own += run->program && json_is(run->group, "namespace", namespace);
        }
        return update_has_place(n, n_own, CONFIG_RUNS_MAX, restarts->options.flags->all_namespaces);
}

static bool must_wait(const ConfigRun *run, int64_t now_sec) {
        int64_t pause_sec = RETRY_MIN_SEC << (run->n_failures < 6 ? run->n_failures : 6);

        return run->program || now_sec < run->yielded_sec + RETRY_MIN_SEC ||
               (run->n_failures > 0 &&
                now_sec < run->ended_sec + (pause_sec < RETRY_MAX_SEC ? pause_sec : RETRY_MAX_SEC));
}

static int find_run(ConfigRestarts *restarts, const char *key, ConfigRun **ret) {
        cleanup(config_run_free_p) ConfigRun *made = NULL;
        size_t at;

        if (sorted_find(restarts->runs, restarts->n_runs, compare_run, key, &at)) {
                *ret = restarts->runs[at];
                return 0;
        }
        made = calloc(1, sizeof(*made));
        if (!made || text_copy(key, &made->key) < 0 ||
            sorted_insert(&restarts->runs, &restarts->n_runs, at, made) < 0)
                return -ENOMEM;
        made->restarts = restarts;
        *ret = take_ptr(made);
        return 0;
}

/* While the images of the update are pulled, it has no record yet. Beside it, restarts would take pods of their own out of
 * service. */
static int ask_controller(const ConfigRestarts *restarts, json_object *group) {
        const ConfigRestartsOptions *options = &restarts->options;

        return options->is_updated(json_get_text(group, "workload") ?: "",
                                   json_get_text(group, "namespace") ?: "", options->userdata);
}

/* Ends restarts in pods that an update has come for meanwhile. */
static int end_updated(ConfigRestarts *restarts) {
        for (size_t i = 0; i < restarts->n_runs; i++) {
                ConfigRun *run = restarts->runs[i];
                int r = run->program ? ask_controller(restarts, run->group) : 0;

                if (r < 0)
                        return r;
                if (r > 0)
                        run->program = program_free(run->program);
        }
        return 0;
}

static bool covers_run(json_object *budget, const ConfigRun *run) {
        return budget_covers(budget, object_template(run->object));
}

static bool is_beside_run(const ConfigRun *run, const ConfigRun *other) {
        return other != run && other->program &&
               json_is(other->group, "namespace", json_get_text(run->group, "namespace"));
}

typedef struct Sharing {
        const ConfigRun *run;
        bool is_found;
} Sharing;

static int on_budget(json_object *budget, void *userdata) {
        Sharing *sharing = userdata;
        const ConfigRestarts *restarts = sharing->run->restarts;

        if (!covers_run(budget, sharing->run))
                return 0;
        for (size_t i = 0; i < restarts->n_runs; i++)
                if (is_beside_run(sharing->run, restarts->runs[i]) &&
                    covers_run(budget, restarts->runs[i]))
                        sharing->is_found = true;
        return 0;
}

/* A PodDisruptionBudget that allows one more pod to be unavailable would allow each of several runs one. */
static int shares_budget(const ConfigRun *run, bool *ret) {
        const ConfigRestarts *restarts = run->restarts;
        const KubePath path = budgets_path(json_get_text(run->group, "namespace"));
        cleanup(error_done) Error error = ERROR_INIT;
        Sharing sharing = { .run = run };
        size_t n_beside = 0;
        int r;

        for (size_t i = 0; i < restarts->n_runs; i++)
                n_beside += is_beside_run(run, restarts->runs[i]);
        r = n_beside > 0
                    ? session_list(restarts->options.session, &path, on_budget, &sharing, &error)
                    : 0;
        *ret = sharing.is_found || error.kind != ERROR_NONE;
        return error.kind == ERROR_NONE ? r : 0;
}

static int begin(ConfigRestarts *restarts, const char *key, json_object *group) {
        int64_t now_sec = clock_monotonic_sec();
        bool must_yield;
        ConfigRun *run;
        int r = 0;

        if (json_object_array_length(object_list(group, "pods")) == 0 ||
            json_get(group, "waits", json_type_boolean))
                return 0;
        r = find_run(restarts, key, &run);
        if (r >= 0)
                r = ask_controller(restarts, group);
        if (r < 0)
                return r;
        if (r > 0) {
                run->yielded_sec = now_sec;
                return 0;
        }
        /* A newer change may fix what failed, or hangs, or take back what is under way. */
        if (json_get_integer(group, "newest") > json_get_integer(run->group, "newest")) {
                run->program = program_free(run->program);
                run->n_failures = 0;
        }
        if (must_wait(run, now_sec) ||
            !has_place(restarts, json_get_text(group, "namespace") ?: ""))
                return 0;
        json_object_put(run->group);
        json_object_put(run->object);
        run->object = NULL;
        run->group = json_object_get(group);
        must_yield = !read_workload(run);
        r = must_yield ? 0 : is_updated(run, &must_yield);
        if (r >= 0 && !must_yield)
                r = shares_budget(run, &must_yield);
        if (r < 0)
                return r;
        if (must_yield) {
                run->yielded_sec = now_sec;
                return 0;
        }
        /* The watch may have shown a newer workload meanwhile. */
        return must_wait(run, now_sec) ? 0 : start(run);
}

/* Runs that have ended, of groups that have nothing to restart any more. */
static void forget_runs(ConfigRestarts *restarts, json_object *groups) {
        for (size_t i = restarts->n_runs; i > 0; i--) {
                ConfigRun *run = restarts->runs[i - 1];

                if (run->program || json_object_object_get_ex(groups, run->key, NULL))
                        continue;
                sorted_remove(restarts->runs, &restarts->n_runs, i - 1);
                config_run_free(run);
        }
}

static int act(ConfigRestarts *restarts) {
        int64_t now_sec = session_server_sec(restarts->options.session);
        cleanup(config_plan_done) ConfigPlan plan;
        int r = config_plan(restarts->pods, restarts->n_pods, restarts->ledger, restarts->delay_sec,
                            now_sec, &plan);

        if (r >= 0)
                r = end_updated(restarts);
        if (r < 0)
                return r;
        forget_runs(restarts, plan.groups);
        json_object_object_foreach(plan.groups, key, group) {
                r = begin(restarts, key, group);
                if (r < 0)
                        return r;
        }
        r = config_settle(restarts->ledger, &plan, restarts->delay_sec, now_sec);
        restarts->is_dirty = restarts->is_dirty || r > 0;
        restarts->has_changes = config_has_changes(restarts->ledger);
        return 0;
}

bool config_restarts_is_due(const ConfigRestarts *restarts) {
        return restarts &&
               (!restarts->ledger || restarts->is_dirty || restarts->has_changes ||
                restarts->n_unread > 0) &&
               clock_monotonic_usec() >= restarts->due_usec;
}

int config_restarts_turn(ConfigRestarts *restarts, Error *reterr) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r = restarts->ledger ? 0 : load(restarts, &error);

        if (r >= 0)
                r = read_objects(restarts, &error);
        if (r >= 0 && restarts->is_dirty)
                r = save(restarts, &error);
        if (r >= 0 && restarts->has_changes)
                r = act(restarts);
        restarts->due_usec =
                clock_monotonic_usec() + (error.kind == ERROR_NONE ? PACE_USEC : TROUBLE_USEC);
        if (error.kind == ERROR_NONE)
                return r;
        if (session_is_ended(restarts->options.session))
                return error_copy(reterr, &error);
        log_write(restarts->options.log, LOG_WARNING, NULL,
                  "Restarts for changed configuration wait: %s", error_message(&error));
        return 0;
}

int config_restarts_end(ConfigRestarts *restarts, const char *workload, const char *namespace) {
        cleanup(free_p) char *key = NULL;
        ConfigRun *run;
        size_t at;

        if (!restarts)
                return 0;
        if (text_format(&key, "%s %s", namespace, workload) < 0)
                return -ENOMEM;
        if (!sorted_find(restarts->runs, restarts->n_runs, compare_run, key, &at))
                return 0;
        run = restarts->runs[at];
        run->program = program_free(run->program);
        run->yielded_sec = clock_monotonic_sec();
        return 0;
}

size_t config_restarts_runs(const ConfigRestarts *restarts, OwnRun ret[static CONFIG_RUNS_MAX]) {
        size_t n = 0;

        for (size_t i = 0; restarts && n < CONFIG_RUNS_MAX && i < restarts->n_runs; i++)
                if (restarts->runs[i]->program)
                        ret[n++] = (OwnRun){ restarts->runs[i]->program,
                                             json_get_text(restarts->runs[i]->group, "namespace")
                                                     ?: "" };
        return n;
}
