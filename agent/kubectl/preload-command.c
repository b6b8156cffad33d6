/* SPDX-License-Identifier: Apache-2.0 */

/*
 * kubectl inplace preload
 */

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"
#include "agent/kubectl/commands.h"
#include "agent/kubectl/hint.h"
#include "agent/kubectl/pod-choice.h"
#include "agent/kubectl/preload.h"
#include "agent/kubectl/sets.h"
#include "agent/kubectl/workload.h"
#include "agent/view/output.h"
#include "agent/view/terminal.h"

/* Where the pods of a workload are, and how they get their images: {name: null}. */
typedef struct Likeness {
        json_object *nodes, *secrets;
} Likeness;

static void likeness_done(Likeness *likeness) {
        json_object_put(likeness->nodes);
        json_object_put(likeness->secrets);
}

static int split_names(json_object *names, const char *text) {
        cleanup(free_p) char *copy = strdup(text);
        char *rest = copy;
        int r = copy ? 0 : -ENOMEM;

        for (const char *name; r >= 0 && (name = strsep(&rest, ","));)
                r = name[0] ? patch_add_null(names, name) : 0;
        return r;
}

static int add_pod(json_object *pod, void *userdata) {
        Likeness *likeness = userdata;
        json_object *spec = json_get(pod, "spec", json_type_object);
        const char *node = json_get_filled(spec, "nodeName");
        int r;

        /* Evicted pods stay as objects, also when their node takes no pods any more. */
        if (pod_has_ended(pod))
                return 0;
        r = node ? patch_add_null(likeness->nodes, node) : 0;
        return r < 0 ? r : pod_spec_add_secrets(spec, likeness->secrets);
}

static int find_likeness(Session *session, const char *name, Likeness *ret, Error *reterr) {
        cleanup(pod_choice_done) PodChoice choice = POD_CHOICE_INIT;
        size_t n_pods;
        int r;

        r = pod_choice_of_name(session, name, &choice, reterr);
        if (r >= 0)
                r = pod_choice_list(session, &choice, session_namespace(session), add_pod, ret,
                                    &n_pods, reterr);
        if (r < 0)
                return r;

        return json_object_object_length(ret->nodes) > 0
                       ? 0
                       : error_set(reterr, ERROR_NOT_FOUND,
                                   "no pod of %s is on a node: use --nodes or --selector", name);
}

static int check_set(const Flags *flags, Error *reterr) {
        const char *flag = flags->nodes          ? "--nodes"
                           : flags->watch        ? "--watch"
                           : flags->ttl_sec > 0  ? "--ttl"
                           : flags->max_failures ? "--max-failures"
                                                 : NULL;

        if (flag)
                return error_set(reterr, ERROR_INVALID, "%s has no effect on an image set", flag);
        if (flags->parallelism && strcmp(flags->parallelism, "100%") != 0 &&
            (strchr(flags->parallelism, '%') || atoll(flags->parallelism) > IMAGE_SET_LIMIT_MAX))
                return error_set(reterr, ERROR_INVALID,
                                 "of an image set, --parallelism is a number of nodes up to %d, or "
                                 "100%% for no limit",
                                 IMAGE_SET_LIMIT_MAX);
        if (flags->first && atoll(flags->first) > IMAGE_SET_LIMIT_MAX)
                return error_set(reterr, ERROR_INVALID, "--first is a number of nodes up to %d",
                                 IMAGE_SET_LIMIT_MAX);
        if (flags->withdraw && flags->n_arguments > 0)
                return error_set(reterr, ERROR_INVALID,
                                 "--withdraw takes the whole set back: repeat --set with the other "
                                 "images instead");
        if (flags->withdraw && (flags->first || flags->parallelism))
                return error_set(reterr, ERROR_INVALID,
                                 "--withdraw takes the whole set back, with its limits: give "
                                 "neither --first nor --parallelism");
        return 0;
}

static int check(const Flags *flags, Error *reterr) {
        if (flags->sets && (flags->set || flags->n_arguments > 0))
                return error_set(reterr, ERROR_INVALID,
                                 "--sets goes with neither --set nor images");
        if (flags->set)
                return check_set(flags, reterr);
        if (flags->first)
                return error_set(reterr, ERROR_INVALID, "--first needs an image set: --set NAME");
        if (!!flags->nodes + !!flags->selector + !!flags->like > 1)
                return error_set(reterr, ERROR_INVALID,
                                 "only one of --nodes, --selector and --like is possible");
        if (flags->watch && flags->withdraw)
                return error_set(reterr, ERROR_INVALID,
                                 "only one of --watch and --withdraw is possible");

        return 0;
}

static size_t count_phase(const PreloadResult *result, const char *phase) {
        size_t n = 0;

        for (size_t i = 0; result->nodes && i < json_object_array_length(result->nodes); i++)
                n += json_is(json_object_array_get_idx(result->nodes, i), "phase", phase);
        return n;
}

/* Offers a command for the same images on the same nodes. */
static void offer(const Session *session, const Flags *flags, const char *flag) {
        cleanup(free_p) const char **words =
                calloc((size_t) flags->n_arguments + 4, sizeof(*words));
        size_t n = (size_t) flags->n_arguments;

        if (!words)
                return;

        memcpy(words, flags->arguments, n * sizeof(*words));
        words[n++] = flag;
        if (flags->nodes || flags->selector || flags->like) {
                words[n++] = flags->nodes ? "--nodes" : flags->selector ? "--selector" : "--like";
                words[n++] = flags->nodes ?: flags->selector ?: flags->like;
        }
        hint(session, /* namespace= */ NULL, "kubectl inplace preload", words);
}

static void print_interruption(const Session *session, const Flags *flags,
                               const PreloadResult *result) {
        size_t n_running = count_phase(result, "Running"),
               n_left = count_phase(result, "NotRequested");

        if (flags->withdraw || n_running + n_left + result->n_silent == 0)
                return;

        if (n_left > 0)
                complain("%zu node%s not requested to pull", n_left,
                         n_left == 1 ? " was" : "s were");
        if (result->n_silent > 0)
                complain("%zu node%s to pull when an agent runs there", result->n_silent,
                         result->n_silent == 1 ? " is" : "s are");
        complain("%zu node%s still pulling; to watch it, or to take the request back:", n_running,
                 n_running == 1 ? " is" : "s are");
        offer(session, flags, "--watch");
        offer(session, flags, "--withdraw");
}

static int print_tree(const Flags *flags, const PreloadResult *result) {
        cleanup(json_object_put_p) json_object *tree = json_object_new_object();

        if (patch_add_number(tree, "nodes", result->n_nodes) < 0 ||
            patch_add_number(tree, "succeeded", result->n_done) < 0 ||
            patch_add_number(tree, "failed", result->n_failed) < 0 ||
            patch_add(tree, "items", json_object_get(result->nodes)) < 0)
                return -ENOMEM;

        return output_tree(flags->format, tree);
}

static int print_names(const PreloadResult *result) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < json_object_array_length(result->nodes); i++)
                r = print_safe("nodeimage.apps.kruise.io/%s",
                               json_get_text(json_object_array_get_idx(result->nodes, i), "name"));
        return r;
}

static int print_reasons(const char *reasons) {
        int r = 0;

        while (r >= 0 && *reasons) {
                size_t size = strcspn(reasons, "\n");

                r = print_safe("%.*s", (int) size, reasons);
                reasons += size + (reasons[size] == '\n');
        }

        return r;
}

static int print_result(const Flags *flags, const PreloadResult *result) {
        if (!result->nodes)
                return 0;
        if (output_is_document(flags->format))
                return print_tree(flags, result);
        if (flags->wants_names)
                return print_names(result);

        return print_reasons(result->reasons);
}

static int conclude(const Session *session, const Flags *flags, const PreloadResult *result) {
        if (result->n_failed > 0 || count_phase(result, "NotRequested") > 0)
                return EXIT_STATUS_PARTLY;
        if (result->n_nodes > 0 || result->n_done > 0 || session_is_dry_run(session))
                return EXIT_STATUS_DONE;

        complain(
                "%s",
                flags->watch || flags->withdraw
                        ? "no node has such a request: kubectl inplace images lists those there are"
                        : "there is no such node: kubectl inplace doctor lists nodes without an agent");
        return EXIT_STATUS_FAILED;
}

static int preload(Session *session, const Flags *flags, const PreloadRequest *request) {
        cleanup(preload_result_done) PreloadResult result = { .n_nodes = 0 };
        cleanup(error_done) Error error = ERROR_INIT;
        int r, printed;

        r = preload_run(session, request, &result, &error);
        printed = print_result(flags, &result);
        if (printed < 0)
                return printed;
        if (r < 0) {
                r = session_fail(session, r, &error);
                if (session_is_ended(session))
                        print_interruption(session, flags, &result);
                return r;
        }

        if (result.n_silent > 0 || count_phase(&result, "NotRequested") > 0)
                print_interruption(session, flags, &result);
        return conclude(session, flags, &result);
}

int kubectl_preload(Session *session, const Flags *flags) {
        cleanup(likeness_done) Likeness likeness = { .nodes = json_object_new_object(),
                                                     .secrets = json_object_new_object() };
        cleanup(error_done) Error error = ERROR_INIT;
        const PreloadRequest request = {
                .images = (const char *const *) flags->arguments,
                .n_images = (size_t) flags->n_arguments,
                .nodes = likeness.nodes,
                .secrets = likeness.secrets,
                .labels = flags->nodes || flags->like ? NULL : flags->selector ?: "",
                .parallelism = flags->parallelism,
                .max_failures = flags->max_failures,
                .ttl_sec = flags->ttl_sec,
                .mode = flags->withdraw ? PRELOAD_WITHDRAW
                        : flags->watch  ? PRELOAD_WATCH
                                        : PRELOAD_PULL,
                .is_shown = !flags->wants_names && !output_is_document(flags->format),
        };
        int r;

        r = check(flags, &error);
        if (r < 0) {
                complain("%s", error_message(&error));
                return EXIT_STATUS_USAGE;
        }

        if (!likeness.nodes || !likeness.secrets)
                return -ENOMEM;
        if (flags->sets)
                return sets_list(session, flags);
        if (flags->nodes)
                r = split_names(likeness.nodes, flags->nodes);
        else if (flags->like)
                r = find_likeness(session, flags->like, &likeness, &error);
        if (r < 0)
                return session_fail(session, r, &error);

        return flags->set ? sets_write(session, flags, likeness.secrets)
                          : preload(session, flags, &request);
}
