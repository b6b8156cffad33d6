/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/pod-report.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/rfc3339.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/workload.h"
#include "agent/pod/pod.h"
#include "agent/view/format.h"

static size_t length(json_object *list) {
        return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

/* Goes through main containers and native sidecars. */
typedef struct Containers {
        json_object *pod;
        json_object *spec;   /* the current one */
        json_object *status; /* status of the container; NULL: none */
        bool is_main;
        size_t next;
} Containers;

static bool containers_next(Containers *containers) {
        for (;;) {
                const char *key = containers->is_main ? "spec.containers" : "spec.initContainers";
                json_object *list = object_at(containers->pod, key);

                if (containers->next < length(list)) {
                        containers->spec = json_object_array_get_idx(list, containers->next++);
                        if (!containers->is_main &&
                            !json_is(containers->spec, "restartPolicy", "Always"))
                                continue;

                        containers->status =
                                json_find(object_at(containers->pod,
                                                    containers->is_main
                                                            ? "status.containerStatuses"
                                                            : "status.initContainerStatuses"),
                                          "name", json_get_text(containers->spec, "name") ?: "");
                        return true;
                }
                if (containers->is_main)
                        return false;

                containers->is_main = true;
                containers->next = 0;
        }
}

static bool is_from_metadata(json_object *variable) {
        const char *path = object_text(variable, "valueFrom.fieldRef.fieldPath");

        return path && (strncmp(path, "metadata.labels", strlen("metadata.labels")) == 0 ||
                        strncmp(path, "metadata.annotations", strlen("metadata.annotations")) == 0);
}

static bool has_environment(json_object *pod) {
        Containers containers = { .pod = pod };

        while (containers_next(&containers)) {
                json_object *variables = object_at(containers.spec, "env");

                for (size_t i = 0; i < length(variables); i++)
                        if (is_from_metadata(json_object_array_get_idx(variables, i)))
                                return true;
        }

        return false;
}

static const char *environment_of(json_object *pod, const char *verdict) {
        if (!has_environment(pod))
                return "-";
        if (strcmp(verdict, "Verified") == 0)
                return "current";
        if (strcmp(verdict, "EnvironmentStale") == 0 || strcmp(verdict, "CannotRestart") == 0)
                return "stale";

        return "unknown";
}

static void append(FILE *to, const char *text) {
        if (ftell(to) > 0)
                (void) fputc(',', to);
        (void) fputs(text, to);
}

typedef enum Part {
        PART_IMAGE,
        PART_SHORT_IMAGE,
        PART_SHORT_ID,
        PART_ID,
} Part;

/* The status keeps the ID of an image that does not run any more. */
static const char *reason_not_running(json_object *status) {
        return object_text(status, "state.waiting.reason")
                       ?: object_text(status, "state.terminated.reason");
}

static void append_part(FILE *to, const Containers *containers, Part part) {
        const char *id = json_get_filled(containers->status, "imageID");
        const char *reason = reason_not_running(containers->status);
        const char *name = json_get_text(containers->spec, "name") ?: "";
        const char *image;

        if (part == PART_IMAGE || part == PART_SHORT_IMAGE) {
                image = template_written_image(containers->pod, name);
                append(to, !image || !image[0]  ? "-"
                           : part == PART_IMAGE ? image
                                                : image_short(image));
        } else {
                append(to, reason                        ? reason
                           : id && part == PART_SHORT_ID ? format_short_id(id, FORMAT_BUFFER)
                                                         : id ?: "-");
        }
}

/* The kubelet does not report what it has mounted. */
static void append_volumes(FILE *to, json_object *pod, Part part) {
        json_object *volumes = object_list(pod, "spec.volumes");

        for (size_t i = 0; i < length(volumes); i++) {
                const char *image = volume_image(json_object_array_get_idx(volumes, i));

                if (image)
                        append(to, part == PART_IMAGE         ? image
                                   : part == PART_SHORT_IMAGE ? image_short(image)
                                                              : "-");
        }
}

static int join(json_object *pod, Part part, char **ret) {
        Containers containers = { .pod = pod };
        char *text = NULL;
        size_t size;
        FILE *to = text_open(&text, &size);

        if (!to)
                return -ENOMEM;

        while (containers_next(&containers))
                append_part(to, &containers, part);
        append_volumes(to, pod, part);
        if (text_close(to, &text) < 0)
                return -ENOMEM;

        *ret = text;
        return 0;
}

/* Why the first container that waits does not start, in the kubelet's words; NULL: none waits. */
static const char *waiting_message(json_object *pod) {
        Containers containers = { .pod = pod };
        const char *message = NULL;

        while (!message && containers_next(&containers))
                message = object_text(containers.status, "state.waiting.message");
        return message;
}

static void count_restarts(json_object *pod, PodReport *report) {
        Containers containers = { .pod = pod };

        while (containers_next(&containers)) {
                int64_t started =
                        json_get_time(object_at(containers.status, "state.running"), "startedAt");

                report->restarts += json_get_integer(containers.status, "restartCount");
                if (started > report->since)
                        report->since = started;
        }
}

int pod_report_make(json_object *pod, PodReport *ret) {
        json_object *condition =
                json_find(object_at(pod, "status.conditions"), "type", POD_VERIFIED_CONDITION);
        PodReport report = {
                .namespace = object_text(pod, "metadata.namespace") ?: "",
                .name = object_name(pod),
                .node = json_get_filled(object_at(pod, "spec"), "nodeName") ?: "-",
                .verdict = json_get_filled(condition, "reason") ?: "-",
                .message = json_get_filled(condition, "message") ?: waiting_message(pod) ?: "",
        };
        int64_t verdict_since = json_get_time(condition, "lastTransitionTime");
        int r;

        report.environment = environment_of(pod, report.verdict);
        count_restarts(pod, &report);
        if (verdict_since > 0)
                report.since = verdict_since;
        r = join(pod, PART_IMAGE, &report.images)
                    ?: join(pod, PART_SHORT_IMAGE, &report.short_images)
                    ?: join(pod, PART_SHORT_ID, &report.running)
                    ?: join(pod, PART_ID, &report.running_ids);
        if (r < 0) {
                pod_report_done(&report);
                return r;
        }

        *ret = report;
        return 0;
}

void pod_report_done(PodReport *report) {
        free(report->images);
        free(report->short_images);
        free(report->running);
        free(report->running_ids);
        *report = POD_REPORT_INIT;
}

static bool add_known(json_object *object, const char *key, const char *text) {
        return !text || !text[0] || strcmp(text, "-") == 0 ||
               patch_add_text(object, key, text) >= 0;
}

static json_object *container_json(const Containers *containers) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();

        if (!object ||
            patch_add_text(object, "name", json_get_text(containers->spec, "name") ?: "") < 0 ||
            !add_known(object, "image", json_get_text(containers->spec, "image")) ||
            !add_known(object, "runningImage", json_get_text(containers->status, "image")) ||
            !add_known(object, "runningImageID", json_get_text(containers->status, "imageID")) ||
            !add_known(object, "reason", reason_not_running(containers->status)) ||
            patch_add_number(object, "restarts",
                             (uint64_t) json_get_integer(containers->status, "restartCount")) < 0)
                return NULL;

        return take_ptr(object);
}

static int add_volumes(json_object *object, json_object *pod) {
        json_object *volumes = object_list(pod, "spec.volumes"), *list = NULL;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < length(volumes); i++) {
                json_object *volume = json_object_array_get_idx(volumes, i), *item;
                const char *image = volume_image(volume);

                if (!image)
                        continue;
                if (!list)
                        r = patch_add(object, "imageVolumes", list = json_object_new_array());
                item = patch_wrap("name",
                                  json_object_new_string(json_get_text(volume, "name") ?: ""));
                if (r < 0 || patch_append(list, item) < 0)
                        return -ENOMEM;
                r = patch_add_text(item, "image", image);
        }
        return r;
}

json_object *pod_report_json(json_object *pod, const PodReport *report) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        json_object *list = json_object_new_array();
        Containers containers = { .pod = pod };
        char since[RFC3339_SIZE];

        if (patch_add(object, "containers", list) < 0 ||
            patch_add_text(object, "namespace", report->namespace) < 0 ||
            patch_add_text(object, "name", report->name) < 0 ||
            !add_known(object, "node", report->node) ||
            !add_known(object, "verdict", report->verdict) ||
            !add_known(object, "message", report->message) ||
            !add_known(object, "environment", report->environment) ||
            patch_add_number(object, "restarts", (uint64_t) report->restarts) < 0)
                return NULL;
        if (report->since > 0 &&
            patch_add_text(object, "since", rfc3339_format(report->since, since)) < 0)
                return NULL;
        while (containers_next(&containers))
                if (patch_append(list, container_json(&containers)) < 0)
                        return NULL;
        if (add_volumes(object, pod) < 0)
                return NULL;

        return take_ptr(object);
}
