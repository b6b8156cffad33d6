/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/document/json-reader.h"
#include "agent/recreate/recreate-json.h"
#include "agent/recreate/recreate-notes.h"
#include "agent/recreate/recreate-text.h"

#define SECONDS_MAX ((int64_t) 10 * 366 * 24 * 3600)

DEFINE_CLEANUP(RecreateSpec *, recreate_spec_free)

static int set_text(char **text, const char *value) {
        char *copy = strdup(value);

        if (!copy)
                return -ENOMEM;

        free(*text);
        *text = copy;
        return 0;
}

static int read_identity(struct json_object *metadata, RecreateSpec *spec, Error *reterr) {
        const JsonPath path = { .key = "metadata" };
        const struct {
                const char *key;
                char **text;
        } texts[] = {
                { "namespace", &spec->namespace },
                { "name", &spec->name },
                { "uid", &spec->uid },
                { "resourceVersion", &spec->version },
        };
        int r;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                const char *text;

                r = json_read_string(metadata, &path, texts[i].key, &text, reterr);
                if (r < 0)
                        return r;
                if (!text || !text[0])
                        return json_refuse(&path, reterr, "has no %s", texts[i].key);
                r = set_text(texts[i].text, text);
                if (r < 0)
                        return r;
        }

        return 0;
}

static bool has_label(struct json_object *labels, const char *key) {
        const char *text = recreate_json_text(labels, key);

        return text && strcmp(text, "true") == 0;
}

static int read_metadata(struct json_object *object, RecreateSpec *spec, Error *reterr) {
        struct json_object *metadata = recreate_json_get(object, "metadata", json_type_object);
        struct json_object *labels = recreate_json_get(metadata, "labels", json_type_object);
        const char *created = recreate_json_text(metadata, "creationTimestamp");
        const char *pod_uid = recreate_json_text(labels, RECREATE_LABEL_POD_UID);
        int r;

        r = read_identity(metadata, spec, reterr);
        if (r < 0)
                return r;

        if (created)
                (void) rfc3339_parse(created, &spec->created_at);
        spec->is_deleted = recreate_json_text(metadata, "deletionTimestamp");
        spec->is_active = has_label(labels, RECREATE_LABEL_ACTIVE);
        spec->is_managed = has_label(labels, RECREATE_LABEL_MANAGED);
        return pod_uid ? set_text(&spec->pod_uid, pod_uid) : 0;
}

static int read_bool(struct json_object *object, const JsonPath *path, const char *key, bool *ret,
                     Error *reterr) {
        const JsonPath here = { .parent = path, .key = key };
        struct json_object *value = NULL;

        (void) json_object_object_get_ex(object, key, &value);
        if (value && !json_object_is_type(value, json_type_boolean))
                return json_refuse_type(&here, value, "true or false", reterr);

        if (value)
                *ret = json_object_get_boolean(value);
        return 0;
}

/* What is absurd becomes the next thing that is not. */
static int read_seconds(struct json_object *object, const JsonPath *path, const char *key,
                        int64_t *ret, Error *reterr) {
        int64_t seconds = -1;
        int r;

        if (!json_object_object_get_ex(object, key, NULL))
                return 0;
        if (json_object_is_type(json_object_object_get(object, key), json_type_null))
                return 0;

        r = json_read_integer(object, path, key, &seconds, reterr);
        if (r < 0)
                return r;

        *ret = seconds < 0 ? 0 : seconds > SECONDS_MAX ? SECONDS_MAX : seconds;
        return 0;
}

static int read_context(struct json_object *object, const JsonPath *path,
                        RecreateContainer *container, Error *reterr) {
        const JsonPath here = { .parent = path, .key = "statusContext" };
        struct json_object *context;
        const char *id;
        int r;

        r = json_read_object(object, path, "statusContext", &context, reterr);
        if (r < 0 || !context)
                return r;
        r = json_read_string(context, &here, "containerID", &id, reterr);
        if (r < 0)
                return r;
        r = json_read_integer(context, &here, "restartCount", &container->restart_count, reterr);
        if (r < 0)
                return r;

        return id && id[0] ? set_text(&container->context_id, id) : 0;
}

static bool is_listed(const RecreateSpec *spec, const char *name) {
        for (size_t i = 0; i < spec->n_containers; i++)
                if (strcmp(spec->containers[i].name, name) == 0)
                        return true;

        return false;
}

static int read_container(struct json_object *object, const JsonPath *path, RecreateSpec *spec,
                          Error *reterr) {
        RecreateContainer *container = &spec->containers[spec->n_containers];
        const char *name;
        int r;

        if (!json_object_is_type(object, json_type_object))
                return json_refuse_type(path, object, "an object", reterr);

        r = json_read_string(object, path, "name", &name, reterr);
        if (r < 0)
                return r;
        if (!name || !name[0])
                return json_refuse(path, reterr, "has no name");
        if (is_listed(spec, name))
                return json_refuse(path, reterr, "is the same container as one before it");

        r = set_text(&container->name, name);
        if (r < 0)
                return r;

        spec->n_containers++;
        return read_context(object, path, container, reterr);
}

static int read_containers(struct json_object *object, const JsonPath *path, RecreateSpec *spec,
                           Error *reterr) {
        const JsonPath here = { .parent = path, .key = "containers" };
        struct json_object *list;
        size_t n;
        int r;

        r = json_read_list(object, path, "containers", &list, reterr);
        if (r < 0)
                return r;

        n = list ? json_object_array_length(list) : 0;
        if (n > RECREATE_CONTAINERS_MAX)
                return json_refuse(&here, reterr, "has more than %d items",
                                   RECREATE_CONTAINERS_MAX);

        spec->containers = calloc(n + 1, sizeof(spec->containers[0]));
        if (!spec->containers)
                return -ENOMEM;

        for (size_t i = 0; i < n; i++) {
                const JsonPath item = { .parent = &here, .index = i };

                r = read_container(json_object_array_get_idx(list, i), &item, spec, reterr);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_strategy(struct json_object *object, const JsonPath *path, RecreateSpec *spec,
                         Error *reterr) {
        const JsonPath here = { .parent = path, .key = "strategy" };
        struct json_object *strategy;
        const char *policy = NULL;
        int r;

        r = json_read_object(object, path, "strategy", &strategy, reterr);
        if (r < 0 || !strategy)
                return r;

        r = json_read_string(strategy, &here, "failurePolicy", &policy, reterr);
        if (r >= 0)
                r = read_bool(strategy, &here, "orderedRecreate", &spec->is_ordered, reterr);
        if (r >= 0)
                r = read_bool(strategy, &here, "forceRecreate", &spec->is_forced, reterr);
        if (r >= 0)
                r = read_seconds(strategy, &here, "terminationGracePeriodSeconds", &spec->grace_sec,
                                 reterr);
        if (r >= 0)
                r = read_seconds(strategy, &here, "unreadyGracePeriodSeconds", &spec->unready_sec,
                                 reterr);
        if (r >= 0)
                r = read_seconds(strategy, &here, "minStartedSeconds", &spec->min_started_sec,
                                 reterr);

        spec->ignores_failure = policy && strcmp(policy, "Ignore") == 0;
        return r;
}

static int read_spec(struct json_object *object, RecreateSpec *spec, Error *reterr) {
        const JsonPath path = { .key = "spec" };
        struct json_object *inner;
        const char *pod_name;
        int r;

        r = json_read_object(object, NULL, "spec", &inner, reterr);
        if (r < 0)
                return r;
        r = json_read_string(inner, &path, "podName", &pod_name, reterr);
        if (r < 0)
                return r;
        if (!pod_name || !pod_name[0])
                return json_refuse(&path, reterr, "has no podName");
        r = set_text(&spec->pod_name, pod_name);
        if (r >= 0)
                r = read_strategy(inner, &path, spec, reterr);
        if (r >= 0)
                r = read_seconds(inner, &path, "activeDeadlineSeconds", &spec->deadline_sec,
                                 reterr);
        if (r >= 0)
                r = read_seconds(inner, &path, "ttlSecondsAfterFinished", &spec->ttl_sec, reterr);
        if (r >= 0)
                r = read_containers(inner, &path, spec, reterr);

        return r;
}

static void drop_containers(RecreateSpec *spec) {
        /* One that was refused may already have its texts. */
        for (size_t i = 0; spec->containers && i < spec->n_containers; i++) {
                free(spec->containers[i].name);
                free(spec->containers[i].context_id);
        }
        free(spec->containers);
        spec->containers = NULL;
        spec->n_containers = 0;
}

int recreate_spec_parse(struct json_object *object, RecreateDialect dialect, RecreateSpec **ret,
                        Error *reterr) {
        cleanup(recreate_spec_free_p) RecreateSpec *spec = NULL;
        cleanup(error_done) Error problem = ERROR_INIT;
        int r;

        spec = malloc(sizeof(*spec));
        if (!spec)
                return -ENOMEM;

        *spec = (RecreateSpec){
                .grace_sec = -1, .unready_sec = -1, .deadline_sec = -1, .ttl_sec = -1
        };
        r = read_metadata(object, spec, reterr);
        if (r < 0)
                return r;

        r = read_spec(object, spec, &problem);
        if (r < 0 && problem.kind == ERROR_NONE)
                return r;
        if (r < 0) {
                drop_containers(spec);
                spec->problem = recreate_text_copy(error_message(&problem));
                if (!spec->problem)
                        return -ENOMEM;
        }

        r = recreate_notes_read(object, dialect, spec);
        if (r < 0)
                return r;

        *ret = take_ptr(spec);
        return 0;
}

RecreateSpec *recreate_spec_free(RecreateSpec *spec) {
        if (!spec)
                return NULL;

        recreate_notes_done(spec);
        drop_containers(spec);
        free(spec->problem);
        free(spec->pod_name);
        free(spec->pod_uid);
        free(spec->version);
        free(spec->uid);
        free(spec->name);
        free(spec->namespace);
        free(spec);
        return NULL;
}

static bool is_number(const char *text) {
        return text[0] && strlen(text) < 20 && strspn(text, "0123456789") == strlen(text);
}

bool recreate_spec_is_older(const char *version, const char *than) {
        return is_number(version) && is_number(than) &&
               strtoull(version, NULL, 10) < strtoull(than, NULL, 10);
}
