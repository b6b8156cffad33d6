/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An API server for the commands of kubectl inplace
 *
 * Its functions stand for those of the session, see tests/CMakeLists.txt. It has the objects that the test gives it, and
 * notes what is written as lines of text. A test with rules of its own for it defines PLAYED_CLOCK, PLAYED_CREATE
 * or PLAYED_PATCH before. To be included once.
 */

#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/session.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/stderr-capture.h"

#define PLAYED_NOW 1000 /* seconds since the epoch */

static struct {
        json_object *objects;   /* {"nodeimages": [object]} */
        const char *missing[2]; /* kinds of OpenKruise that are not served */
        const char *refused;    /* kind that the user may not use; NULL: none */
        char writes[16384];
        bool is_dry_run;
} cluster;

int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr);
int __wrap_session_list(Session *session, const KubePath *path, SessionItem on_item, void *userdata,
                        Error *reterr);
int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr);
int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *patch, json_object **ret, Error *reterr);
int __wrap_session_delete(Session *session, const KubePath *path, json_object *options,
                          Error *reterr);
int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr);
int __wrap_session_fail(const Session *session, int r, const Error *error);
bool __wrap_session_is_dry_run(const Session *session);
const char *__wrap_session_namespace(const Session *session);
int64_t __wrap_session_server_sec(const Session *session);
const char *__wrap_session_target(const Session *session);

static inline int cluster_refuse(const KubePath *path, Error *reterr) {
        return cluster.refused && strcmp(cluster.refused, path->resource) == 0
                       ? error_set(reterr, ERROR_DENIED, "no right to use %s", path->resource)
                       : 0;
}

static inline json_object *cluster_list(const KubePath *path) {
        return json_get(cluster.objects, path->resource, json_type_array);
}

static inline const char *cluster_name(json_object *object) {
        return json_get_text(json_get(object, "metadata", json_type_object), "name");
}

int __wrap_session_get(Session *session, const KubePath *path, json_object **ret, Error *reterr) {
        json_object *list = cluster_list(path);
        int r = cluster_refuse(path, reterr);

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++)
                if (strcmp(cluster_name(json_object_array_get_idx(list, i)), path->name) == 0) {
                        *ret = json_copy(json_object_array_get_idx(list, i));
                        return 0;
                }
        return r < 0 ? r
                     : error_set(reterr, ERROR_NOT_FOUND, "%s \"%s\" not found", path->resource,
                                 path->name);
}

/* A selector is one label, with its value or without. */
static inline bool cluster_is_chosen(json_object *object, const KubePath *path) {
        json_object *labels = json_get(json_get(object, "metadata", json_type_object), "labels",
                                       json_type_object);
        cleanup(free_p) char *key = NULL;
        const char *end;

        if (path->fields && strcmp(strchr(path->fields, '=') + 1, cluster_name(object)) != 0)
                return false;
        if (!path->labels)
                return true;

        end = strchr(path->labels, '=');
        key = end ? strndup(path->labels, (size_t) (end - path->labels)) : strdup(path->labels);
        return end ? json_is(labels, key, end + 1) : json_object_object_get_ex(labels, key, NULL);
}

int __wrap_session_list(Session *session, const KubePath *path, SessionItem on_item, void *userdata,
                        Error *reterr) {
        json_object *list = cluster_list(path);
        int r = cluster_refuse(path, reterr);

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++) {
                cleanup(json_object_put_p) json_object *object =
                        json_copy(json_object_array_get_idx(list, i));

                if (cluster_is_chosen(object, path))
                        r = on_item(object, userdata);
        }
        return r;
}

static inline int cluster_note(const char *verb, const KubePath *path, json_object *body) {
        size_t size = strlen(cluster.writes);

        (void) snprintf(
                cluster.writes + size, sizeof(cluster.writes) - size, "%s %s%s%s %s\n", verb,
                path->resource, path->name ? "/" : "", path->name ?: "",
                body ? json_object_to_json_string_ext(body, JSON_C_TO_STRING_PLAIN |
                                                                    JSON_C_TO_STRING_NOSLASHESCAPE)
                     : "");
        for (char *at = cluster.writes + size; *at; at++)
                if (*at == '"')
                        *at = '\'';
        return 0;
}

/* The server gives a name to an object without one. */
#ifndef PLAYED_CREATE
int __wrap_session_create(Session *session, const KubePath *path, json_object *body,
                          json_object **ret, Error *reterr) {
        if (ret)
                *ret = parse("{'metadata':{'name':'new','uid':'new-uid'}}");
        return cluster_refuse(path, reterr) ?: cluster_note("create", path, body);
}
#endif

#ifndef PLAYED_PATCH
int __wrap_session_patch(Session *session, const KubePath *path, const char *content_type,
                         json_object *patch, json_object **ret, Error *reterr) {
        return cluster_refuse(path, reterr) ?: cluster_note("patch", path, patch);
}
#endif

int __wrap_session_delete(Session *session, const KubePath *path, json_object *options,
                          Error *reterr) {
        return cluster_refuse(path, reterr) ?: cluster_note("delete", path, options);
}

int __wrap_session_find_kruise(Session *session, const char *resource, const char **ret,
                               Error *reterr) {
        *ret = "v1alpha1";
        for (size_t i = 0; i < 2; i++)
                if (cluster.missing[i] && strcmp(cluster.missing[i], resource) == 0)
                        *ret = NULL;
        return cluster_refuse(&(KubePath){ .resource = resource }, reterr);
}

int __wrap_session_fail(const Session *session, int r, const Error *error) {
        assert_int_not_equal(error->kind, ERROR_NONE);
        complain("%s", error_message(error));
        return EXIT_STATUS_FAILED;
}

bool __wrap_session_is_dry_run(const Session *session) {
        return cluster.is_dry_run;
}

const char *__wrap_session_namespace(const Session *session) {
        return "shop";
}

#ifndef PLAYED_CLOCK
int64_t __wrap_session_server_sec(const Session *session) {
        return PLAYED_NOW;
}
#endif

const char *__wrap_session_target(const Session *session) {
        return "https://k";
}

typedef struct Played {
        Stderr out, err;
        int status;
} Played;

/* Runs a command on a cluster with these objects, and keeps what it prints. */
#define PLAY(played, objects_text, call)                     \
        do {                                                 \
                cluster.objects = parse("%s", objects_text); \
                cluster.writes[0] = '\0';                    \
                stdout_pipe(&(played)->out);                 \
                stderr_pipe(&(played)->err);                 \
                (played)->status = (call);                   \
                (void) stderr_restore(&(played)->err);       \
                (void) stderr_restore(&(played)->out);       \
                json_object_put(cluster.objects);            \
        } while (0)
