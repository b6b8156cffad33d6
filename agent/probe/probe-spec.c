/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/probe/probe-spec.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/base/utf8.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-fields.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"

#define MESSAGE_MIN ((size_t) 64) /* bytes, for any number of probes */

/* clang-format off */
static const char *const state_names[_PROBE_STATE_MAX] = {
        [PROBE_UNKNOWN]   = "Unknown",
        [PROBE_SUCCEEDED] = "Succeeded",
        [PROBE_FAILED]    = "Failed",
};

static const char *const kind_names[_HANDLER_KIND_MAX] = {
        [HANDLER_NONE]  = "none",
        [HANDLER_EXEC]  = "exec",
        [HANDLER_HTTP]  = "httpGet",
        [HANDLER_TCP]   = "tcpSocket",
        [HANDLER_SLEEP] = "sleep",
        [HANDLER_GRPC]  = "grpc",
};
/* clang-format on */

const char *probe_kind_to_string(HandlerKind kind) {
        return kind_names[kind];
}

/* The spec */

/* clang-format off */
static const JsonField pod_fields[] = {
        { "namespace", JSON_STRING, .offset = offsetof(ProbeSpec, namespace), .is_required = true },
        { "name", JSON_STRING, .offset = offsetof(ProbeSpec, pod), .is_required = true },
        { "uid", JSON_STRING, .offset = offsetof(ProbeSpec, uid), .is_required = true },
        { .key = NULL },
};

static const JsonField item_fields[] = {
        { "containerName", JSON_STRING, .offset = offsetof(ProbeSpec, container), .is_required = true },
        { "name", JSON_STRING, .offset = offsetof(ProbeSpec, name), .is_required = true },
        { .key = NULL },
};

/* A value below 1 means the default, which is 1, as for kruise-daemon. */
#define NUMBER(key, member) \
        { key, JSON_INTEGER, .offset = offsetof(ProbeSpec, member), .min = 1, .max = INT32_MAX }

static const JsonField probe_fields[] = {
        NUMBER("initialDelaySeconds", initial_delay_sec),
        NUMBER("timeoutSeconds", timeout_sec),
        NUMBER("periodSeconds", period_sec),
        NUMBER("successThreshold", success_threshold),
        NUMBER("failureThreshold", failure_threshold),
        { .key = NULL },
};
/* clang-format on */

void probe_spec_done(ProbeSpec *spec) {
        json_fields_done(pod_fields, spec);
        json_fields_done(item_fields, spec);
        free(spec->refusal);
        handler_spec_done(&spec->handler);
        *spec = (ProbeSpec){ .namespace = NULL };
}

void probe_specs_done(ProbeSpecs *specs) {
        for (size_t i = 0; i < specs->n_items; i++)
                probe_spec_done(&specs->items[i]);
        free(specs->items);
        *specs = PROBE_SPECS_INIT;
}

int probe_spec_compare(const ProbeSpec *spec, const char *uid, const char *name) {
        int r = strcmp(spec->uid, uid);

        return r != 0 ? r : strcmp(spec->name, name);
}

static int compare_specs(const void *a, const void *b) {
        const ProbeSpec *other = b;

        return probe_spec_compare(a, other->uid, other->name);
}

/* Refuses a host, so that a probe reaches only its own pod: otherwise an author of the object could
 * make the agent connect from the node's network to anything. OpenKruise's webhook refuses hosts,
 * too. */
static int check_probe(const ProbeSpec *spec, Error *reterr) {
        if (spec->handler.kind == HANDLER_NONE)
                return error_set(reterr, ERROR_INVALID,
                                 "it has none of exec, httpGet, tcpSocket and grpc");
        if (spec->handler.host)
                return error_set(reterr, ERROR_INVALID,
                                 "the host %s is not allowed: a probe reaches its own pod alone",
                                 quote(spec->handler.host, (char[QUOTE_SIZE]){ 0 }));
        return 0;
}

static int read_probe(struct json_object *item, ProbeSpec *spec) {
        const JsonPath path = { .key = "probe" };
        cleanup(error_done) Error error = ERROR_INIT;
        struct json_object *probe;
        int r;

        spec->initial_delay_sec = spec->timeout_sec = spec->period_sec = 1;
        spec->success_threshold = spec->failure_threshold = 1;
        r = json_read_object(item, NULL, path.key, &probe, &error);
        if (r >= 0 && probe)
                r = json_fields_read(probe_fields, probe, &path, spec, NULL, &error);
        if (r >= 0 && probe)
                r = handler_spec_read_probe(probe, &path, &spec->handler, &error);
        if (r >= 0)
                r = check_probe(spec, &error);
        if (error.kind != ERROR_NONE)
                r = text_copy(error_message(&error), &spec->refusal);

        return r;
}

/* Returns 1 if it was added. */
static int read_item(struct json_object *pod, struct json_object *item, ProbeSpec *ret) {
        cleanup(probe_spec_done) ProbeSpec spec = { .namespace = NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = json_fields_read(pod_fields, pod, NULL, &spec, NULL, &error)
                    ?: json_fields_read(item_fields, item, NULL, &spec, NULL, &error);
        if (error.kind != ERROR_NONE)
                return 0;
        if (r >= 0)
                r = read_probe(item, &spec);
        if (r < 0)
                return r;

        *ret = spec;
        spec = (ProbeSpec){ .namespace = NULL };
        return 1;
}

static size_t count_items(struct json_object *pods) {
        size_t n = 0;

        for (size_t i = 0; pods && i < json_object_array_length(pods); i++) {
                struct json_object *list =
                        json_get(json_object_array_get_idx(pods, i), "probes", json_type_array);

                n += list ? json_object_array_length(list) : 0;
        }

        return n;
}

static int read_pod(struct json_object *pod, ProbeSpecs *specs, size_t n_max) {
        struct json_object *list = json_get(pod, "probes", json_type_array);
        int r;

        for (size_t i = 0; list && specs->n_items < n_max && i < json_object_array_length(list);
             i++) {
                r = read_item(pod, json_object_array_get_idx(list, i),
                              &specs->items[specs->n_items]);
                if (r < 0)
                        return r;
                specs->n_items += (size_t) r;
        }

        return 0;
}

/* Sorts, and keeps one of equal items. */
static void sort_specs(ProbeSpecs *specs) {
        size_t n = 0;

        qsort(specs->items, specs->n_items, sizeof(*specs->items), compare_specs);
        for (size_t i = 0; i < specs->n_items; i++)
                if (n > 0 && compare_specs(&specs->items[n - 1], &specs->items[i]) == 0)
                        probe_spec_done(&specs->items[i]);
                else
                        specs->items[n++] = specs->items[i];
        specs->n_items = n;
}

int probe_specs_read(struct json_object *node_pod_probe, ProbeSpecs *ret, size_t *ret_n_refused,
                     Error *reterr) {
        const JsonPath path = { .key = "spec" };
        cleanup(probe_specs_done) ProbeSpecs specs = PROBE_SPECS_INIT;
        struct json_object *spec, *pods = NULL;
        size_t n_all, n_max;
        int r;

        r = json_read_object(node_pod_probe, NULL, path.key, &spec, reterr);
        if (r >= 0 && spec)
                r = json_read_list(spec, &path, "podProbes", &pods, reterr);
        if (r < 0)
                return r;

        n_all = count_items(pods);
        n_max = n_all < PROBES_MAX ? n_all : PROBES_MAX;
        specs.items = calloc(n_max + 1, sizeof(*specs.items));
        if (!specs.items)
                return -ENOMEM;

        for (size_t i = 0; pods && i < json_object_array_length(pods); i++) {
                r = read_pod(json_object_array_get_idx(pods, i), &specs, n_max);
                if (r < 0)
                        return r;
        }

        sort_specs(&specs);
        *ret_n_refused = n_all - specs.n_items;
        *ret = specs;
        specs = PROBE_SPECS_INIT;
        return 0;
}

static bool lists_are_equal(char *const *a, char *const *b) {
        for (; a && b && *a && *b; a++, b++)
                if (strcmp(*a, *b) != 0)
                        return false;

        return (!a || !*a) && (!b || !*b);
}

static bool headers_are_equal(const HandlerSpec *a, const HandlerSpec *b) {
        if (a->n_headers != b->n_headers)
                return false;
        for (size_t i = 0; i < a->n_headers; i++)
                if (!text_equal(a->headers[i].name, b->headers[i].name) ||
                    !text_equal(a->headers[i].value, b->headers[i].value))
                        return false;

        return true;
}

bool probe_spec_runs_the_same(const ProbeSpec *a, const ProbeSpec *b) {
        const HandlerSpec *left = &a->handler, *right = &b->handler;

        return left->kind == right->kind && left->port == right->port &&
               text_equal(a->namespace, b->namespace) && text_equal(a->pod, b->pod) &&
               text_equal(a->container, b->container) && text_equal(a->refusal, b->refusal) &&
               text_equal(left->scheme, right->scheme) && text_equal(left->path, right->path) &&
               text_equal(left->service, right->service) &&
               lists_are_equal(left->command, right->command) && headers_are_equal(left, right);
}

/* The status */

void probe_result_done(ProbeResult *result) {
        free(result->message);
        *result = (ProbeResult){ .message = NULL };
}

int probe_result_set_message(ProbeResult *result, const char *text, size_t size) {
        cleanup(free_p) char *copy = malloc(size + 1), *repaired = NULL;

        if (!copy)
                return -ENOMEM;

        memcpy(copy, text, size);
        copy[size] = '\0';
        repaired = utf8_repair(copy);
        if (!repaired)
                return -ENOMEM;

        utf8_hide_controls(repaired);
        if (strlen(repaired) > PROBE_MESSAGE_MAX)
                repaired[utf8_cut(repaired, PROBE_MESSAGE_MAX)] = '\0';
        free(result->message);
        result->message = take_ptr(repaired);
        return 0;
}

struct json_object *probe_status_get(struct json_object *node_pod_probe) {
        return json_get(json_get(node_pod_probe, "status", json_type_object), "podProbeStatuses",
                        json_type_array);
}

static ProbeState read_state(struct json_object *item) {
        for (ProbeState state = 0; state < _PROBE_STATE_MAX; state++)
                if (json_is(item, "state", state_names[state]))
                        return state;

        return PROBE_UNKNOWN;
}

int probe_status_find(struct json_object *list, const char *uid, const char *name,
                      ProbeResult *ret) {
        struct json_object *pod = json_find(list, "uid", uid);
        struct json_object *item =
                json_find(json_get(pod, "probeStates", json_type_array), "name", name);
        const char *message = json_get_text(item, "message") ?: "";
        ProbeResult result = { .message = NULL };
        int r;

        if (!item)
                return 0;

        result.state = read_state(item);
        result.probe_sec = json_get_time(item, "lastProbeTime");
        result.transition_sec = json_get_time(item, "lastTransitionTime");
        r = probe_result_set_message(&result, message, strlen(message));
        if (r < 0)
                return r;

        *ret = result;
        return 1;
}

static int add_time(struct json_object *object, const char *key, int64_t sec) {
        char text[RFC3339_SIZE];

        return patch_add_text(object, key, rfc3339_format(sec, text));
}

/* Returns the size of a character in JSON with the most escapes on its way to the store: the API
 * server also escapes HTML's characters, and two that end a line of JavaScript. */
static size_t encoded_size(uint32_t c, size_t size) {
        if (c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t')
                return 2;
        if (c < 0x20 || c == '<' || c == '>' || c == '&' || c == 0x2028 || c == 0x2029)
                return strlen("\\u0000");

        return size;
}

/* Returns the size of the longest prefix of valid UTF-8 text within the limit of bytes in JSON. */
static size_t cut_encoded(const char *text, size_t max) {
        const char *end = text;
        uint32_t c;

        for (size_t size; (size = utf8_decode(end, &c)) > 0; end += size) {
                size_t n = encoded_size(c, size);

                if (n > max)
                        break;
                max -= n;
        }

        return (size_t) (end - text);
}

/* The limit leaves room for the messages of all other probes. */
static int add_message(struct json_object *object, const char *message, size_t max) {
        const size_t size = cut_encoded(message, max);

        if (size == 0) {
                json_object_object_del(object, "message");
                return 0;
        }

        return patch_add(object, "message", json_object_new_string_len(message, (int) size));
}

/* Keeps members of the former state that the agent does not know. */
static int make_state(struct json_object *former, const ProbeReport *report, size_t message_max,
                      struct json_object **ret) {
        const ProbeResult *result = report->result;
        const char *state = state_names[result->state];
        cleanup(json_object_put_p) struct json_object *object =
                former ? json_copy(former) : json_object_new_object();
        int r;

        if (patch_add_text(object, "name", report->spec->name) < 0)
                return -ENOMEM;

        if (!json_is(former, "state", state) || !json_get_filled(former, "lastTransitionTime")) {
                r = add_time(object, "lastTransitionTime", result->transition_sec);
                if (r < 0)
                        return r;
        }

        r = patch_add_text(object, "state", state);
        if (r >= 0)
                r = add_time(object, "lastProbeTime", result->probe_sec);
        if (r >= 0)
                r = add_message(object, result->message ?: "", message_max);
        if (r < 0)
                return r;

        *ret = take_ptr(object);
        return 0;
}

typedef struct Merge {
        const ProbeReport *reports;
        size_t n_reports;
        bool *is_done; /* for each report: the state is in the list */
        size_t message_max;
        bool has_new_states;
        struct json_object *list;
} Merge;

static int compare_report(const void *key, const void *report) {
        const ProbeSpec *asked = key;

        return probe_spec_compare(asked, ((const ProbeReport *) report)->spec->uid,
                                  ((const ProbeReport *) report)->spec->name);
}

static bool find_report(const Merge *merge, const char *uid, const char *name, size_t *ret) {
        const ProbeSpec key = { .uid = (char *) uid, .name = (char *) name };
        const ProbeReport *found = bsearch(&key, merge->reports, merge->n_reports,
                                           sizeof(*merge->reports), compare_report);

        *ret = found ? (size_t) (found - merge->reports) : 0;
        return found;
}

/* Merges one state of the former list, unless it is a duplicate. */
static int merge_state(Merge *merge, const char *uid, struct json_object *former,
                       struct json_object *states) {
        const char *name = json_get_filled(former, "name");
        struct json_object *state = NULL;
        size_t i;
        int r;

        if (!name || !find_report(merge, uid, name, &i) || merge->is_done[i]) {
                merge->has_new_states = true;
                return 0;
        }

        merge->is_done[i] = true;
        if (!merge->reports[i].result)
                return patch_append(states, json_object_get(former));

        r = make_state(former, &merge->reports[i], merge->message_max, &state);
        if (r < 0)
                return r;

        merge->has_new_states = merge->has_new_states || !text_equal(json_get_text(former, "state"),
                                                                     json_get_text(state, "state"));
        return patch_append(states, state);
}

static int add_pod(Merge *merge, const ProbeSpec *spec, const char *uid,
                   struct json_object *states) {
        cleanup(json_object_put_p) struct json_object *pod = json_object_new_object();
        int r;

        if (patch_add_text(pod, "namespace", spec->namespace) < 0 ||
            patch_add_text(pod, "name", spec->pod) < 0 || patch_add_text(pod, "uid", uid) < 0) {
                json_object_put(states);
                return -ENOMEM;
        }

        r = patch_add(pod, "probeStates", states);
        return r < 0 ? r : patch_append(merge->list, take_ptr(pod));
}

/* Merges one pod of the former list: the states to keep first, then the new ones. */
static int merge_pod(Merge *merge, struct json_object *former) {
        struct json_object *former_states = json_get(former, "probeStates", json_type_array);
        cleanup(json_object_put_p) struct json_object *states = json_object_new_array();
        const char *uid = json_get_filled(former, "uid");
        const ProbeSpec *spec = NULL;
        int r = states ? 0 : -ENOMEM;

        for (size_t i = 0;
             uid && r >= 0 && former_states && i < json_object_array_length(former_states); i++)
                r = merge_state(merge, uid, json_object_array_get_idx(former_states, i), states);

        for (size_t i = 0; uid && r >= 0 && i < merge->n_reports; i++) {
                struct json_object *state = NULL;

                if (strcmp(merge->reports[i].spec->uid, uid) != 0)
                        continue;
                spec = merge->reports[i].spec;
                if (merge->is_done[i] || !merge->reports[i].result)
                        continue;

                merge->is_done[i] = merge->has_new_states = true;
                r = make_state(NULL, &merge->reports[i], merge->message_max, &state);
                if (r >= 0)
                        r = patch_append(states, state);
        }
        if (r < 0)
                return r;

        if (!spec || json_object_array_length(states) == 0) {
                merge->has_new_states = true;
                return 0;
        }

        return add_pod(merge, spec, uid, take_ptr(states));
}

static int merge_new_pods(Merge *merge) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < merge->n_reports; i++) {
                cleanup(json_object_put_p) struct json_object *pod = NULL;

                if (merge->is_done[i] || !merge->reports[i].result)
                        continue;

                pod = json_object_new_object();
                if (patch_add_text(pod, "uid", merge->reports[i].spec->uid) < 0)
                        return -ENOMEM;
                r = merge_pod(merge, pod);
        }

        return r;
}

static size_t choose_message_max(size_t n_reports) {
        size_t max = PROBE_MESSAGES_MAX / (n_reports > 0 ? n_reports : 1);

        return max < MESSAGE_MIN ? MESSAGE_MIN : max;
}

int probe_status_merge(struct json_object *list, const ProbeReport *reports, size_t n_reports,
                       struct json_object **ret) {
        cleanup(free_p) bool *is_done = calloc(n_reports + 1, sizeof(*is_done));
        cleanup(json_object_put_p) struct json_object *merged = json_object_new_array();
        Merge merge = {
                .reports = reports,
                .n_reports = n_reports,
                .is_done = is_done,
                .message_max = choose_message_max(n_reports),
                .list = merged,
        };
        int r = is_done && merged ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++)
                r = merge_pod(&merge, json_object_array_get_idx(list, i));
        if (r >= 0)
                r = merge_new_pods(&merge);
        if (r < 0)
                return r;

        if (list ? json_object_equal(list, merged) : json_object_array_length(merged) == 0)
                return PROBE_STATUS_SAME;

        *ret = take_ptr(merged);
        return merge.has_new_states ? PROBE_STATUS_STATES : PROBE_STATUS_MESSAGES;
}
