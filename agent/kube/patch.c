/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/patch.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/loop.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kube/retry.h"

#define CODE_FORBIDDEN 403

/* clang-format off */
static const struct {
        const char *name; /* verb as a role names it */
        const char *method;
        const char *content_type;
} verbs[_KUBE_PATCH_VERB_MAX] = {
        [KUBE_PATCH_GET]       = { "get",    "GET",    NULL                       },
        [KUBE_PATCH_LIST]      = { "list",   "GET",    NULL                       },
        [KUBE_PATCH_CREATE]    = { "create", "POST",   KUBE_JSON                  },
        [KUBE_PATCH_MERGE]     = { "patch",  "PATCH",  KUBE_MERGE_PATCH           },
        [KUBE_PATCH_STRATEGIC] = { "patch",  "PATCH",  KUBE_STRATEGIC_MERGE_PATCH },
        [KUBE_PATCH_STEPS]     = { "patch",  "PATCH",  KUBE_JSON_PATCH            },
        [KUBE_PATCH_DELETE]    = { "delete", "DELETE", KUBE_JSON                  },
};
/* clang-format on */

static bool is_read(const KubePatch *patch) {
        return patch->verb == KUBE_PATCH_GET || patch->verb == KUBE_PATCH_LIST;
}

static KubePatchOutcome find_outcome(const KubeReply *reply, const Error *error) {
        if (!error)
                return KUBE_PATCH_TAKEN;
        if (error->kind == ERROR_CONFLICT)
                return KUBE_PATCH_CONFLICT;
        if (error->kind == ERROR_NOT_FOUND)
                return KUBE_PATCH_GONE;

        return kube_is_retriable(reply, error) || error->kind == ERROR_CANCELED
                       ? KUBE_PATCH_UNKNOWN
                       : KUBE_PATCH_REFUSED;
}

/* Admission webhooks and policies use the same code, and say that it was their decision: "admission
 * webhook "NAME" denied the request", "ValidatingAdmissionPolicy 'NAME' ... denied request". */
static bool is_right_missing(const KubeReply *reply, const Error *error) {
        return error && reply->code == CODE_FORBIDDEN &&
               !strstr(error_message(error), "denied the request") &&
               !strstr(error_message(error), "denied request");
}

int kube_patch_read(const KubeReply *reply, struct json_object **ret, Error *reterr) {
        return json_parse_without(reply->body, reply->size, KUBE_MANAGED_FIELDS, KUBE_DEPTH_OBJECT,
                                  ret, reterr);
}

static int read_version(const KubeReply *reply, char **ret) {
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(error_done) Error unread = ERROR_INIT;
        const char *version;
        int r;

        r = kube_patch_read(reply, &object, &unread);
        if (r < 0)
                return unread.kind == ERROR_NONE ? r : 0;

        version =
                json_get_filled(json_get(object, "metadata", json_type_object), "resourceVersion");
        *ret = version ? strdup(version) : NULL;
        return version && !*ret ? -ENOMEM : 0;
}

void kube_patch_fail(KubePatch *patch, const KubeReply *reply) {
        patch->n_conflicts = 0;
        kube_patch_rest(patch, kube_retry_usec(++patch->n_failures, reply, random_number()));
}

void kube_patch_conflict(KubePatch *patch, const KubeReply *reply) {
        bool is_explained = ++patch->n_conflicts < KUBE_PATCH_CONFLICTS_MAX;

        kube_patch_rest(patch,
                        is_explained ? KUBE_PATCH_CONFLICT_USEC
                                     : kube_retry_usec(patch->n_conflicts, reply, random_number()));
}

static void patch_note(KubePatch *patch, const KubePatchAnswer *answer) {
        if (answer->outcome == KUBE_PATCH_CONFLICT)
                kube_patch_conflict(patch, answer->reply);
        else if (answer->error)
                kube_patch_fail(patch, answer->reply);
        else if (!is_read(patch))
                kube_patch_succeed(patch);
        if (answer->version)
                patch->n_conflicts = 0;
        if (!answer->error && patch->digest != 0)
                repeat_note(&patch->repeat, patch->digest, kube_client_now_usec(patch->client));
}

static int on_replied(const KubeReply *reply, const Error *error, void *userdata) {
        KubePatch *patch = userdata;
        cleanup(free_p) char *right = take_ptr(patch->right), *version = NULL;
        cleanup(error_done) Error named = ERROR_INIT;
        KubePatchAnswer answer = {
                .outcome = find_outcome(reply, error),
                .reply = reply,
                .error = error,
        };
        int r;

        patch->call = kube_call_unref(patch->call);
        if (is_right_missing(reply, error)) {
                (void) error_set(&named, error->kind, "the right to %s is missing: %s", right,
                                 error_message(error));
                answer.error = &named;
        }
        if (!error && !is_read(patch)) {
                r = read_version(reply, &version);
                if (r < 0)
                        return r;
                answer.version = version;
        }

        patch_note(patch, &answer);
        return patch->on_answered(&answer, patch->userdata);
}

static int add_guard(json_object *guard, const KubePatchRequest *request) {
        if (request->uid && patch_add_text(guard, "uid", request->uid) < 0)
                return -ENOMEM;

        return request->version ? patch_add_text(guard, "resourceVersion", request->version) : 0;
}

/* Puts the guard of a patch into its metadata, next to other changes there. */
static int guard_patch(const KubePatchRequest *request) {
        json_object *metadata;

        if (!request->uid && !request->version)
                return 0;
        if (!json_object_object_get_ex(request->body, "metadata", &metadata)) {
                metadata = json_object_new_object();
                if (patch_add(request->body, "metadata", metadata) < 0)
                        return -ENOMEM;
        }

        return add_guard(metadata, request);
}

/* Makes the body to send, owned by the caller; NULL in *ret: there is none. */
static int make_body(const KubePatchRequest *request, json_object **ret) {
        cleanup(json_object_put_p) json_object *guard = NULL, *options = NULL;
        int r;

        if (request->verb != KUBE_PATCH_DELETE) {
                r = request->body ? guard_patch(request) : 0;
                if (r >= 0)
                        *ret = json_object_get(request->body);
                return r;
        }

        guard = json_object_new_object();
        if (!guard || add_guard(guard, request) < 0)
                return -ENOMEM;

        options = patch_wrap("preconditions", take_ptr(guard));
        if (patch_add_text(options, "kind", "DeleteOptions") < 0 ||
            patch_add_text(options, "apiVersion", "v1") < 0)
                return -ENOMEM;

        *ret = take_ptr(options);
        return 0;
}

/* Returns "patch nodeimages/status.apps.kruise.io"; owned by the caller. */
static char *name_right(const KubePatchRequest *request) {
        const KubePath *path = &request->path;
        bool has_group = path->group && path->group[0];
        char *right;

        (void) text_format(&right, "%s %s%s%s%s%s", verbs[request->verb].name, path->resource,
                           path->subresource ? "/" : "", path->subresource ?: "",
                           has_group ? "." : "", has_group ? path->group : "");
        return right;
}

static int patch_call(KubePatch *patch, const KubePatchRequest *request, json_object *body) {
        cleanup(free_p) char *path = NULL;
        KubeRequest call = {
                .verb = verbs[request->verb].name,
                .method = verbs[request->verb].method,
                .accept = request->accept ?: KUBE_METADATA_ONLY,
                .reply_max = request->reply_max,
                .content_type = verbs[request->verb].content_type,
                .on_replied = on_replied,
                .userdata = patch,
        };
        int r;

        if (body) {
                call.body = json_to_text(body);
                if (!call.body)
                        return -ENOMEM;
        }

        r = kube_path_format(&request->path, &path);
        if (r < 0)
                return r;

        call.path = path;
        return kube_call(patch->client, &call, &patch->call);
}

int kube_patch_send(KubePatch *patch, const KubePatchRequest *request) {
        cleanup(json_object_put_p) json_object *body = NULL;
        int r;

        assert(!patch->call);
        r = make_body(request, &body);
        if (r < 0)
                return r;

        free(patch->right);
        patch->right = name_right(request);
        if (!patch->right)
                return -ENOMEM;

        patch->verb = request->verb;
        patch->digest = request->digest;
        patch->on_answered = request->on_answered;
        return patch_call(patch, request, body);
}

uint64_t kube_patch_when_usec(const KubePatch *patch, uint64_t digest) {
        uint64_t usec = digest != 0 ? repeat_when_usec(&patch->repeat, digest) : 0;

        return usec > patch->rest_usec ? usec : patch->rest_usec;
}

void kube_patch_rest(KubePatch *patch, uint64_t usec) {
        patch->rest_usec = usec > 0 ? kube_client_now_usec(patch->client) + usec : 0;
}

void kube_patch_succeed(KubePatch *patch) {
        patch->n_failures = 0;
        patch->rest_usec = 0;
}

void kube_patch_cancel(KubePatch *patch) {
        patch->call = kube_call_unref(patch->call);
        patch->right = (free(patch->right), NULL);
}

static bool is_number(const char *text) {
        return text[0] && strspn(text, "0123456789") == strlen(text);
}

bool kube_version_is_older(const char *version, const char *than) {
        size_t a = strlen(version), b = strlen(than);

        if (!is_number(version) || !is_number(than))
                return false;

        return a != b ? a < b : strcmp(version, than) < 0;
}
