/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/image-status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/redact.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/document/json-reader.h"
#include "agent/image/image-ref.h"

static const char *const phase_names[_IMAGE_PHASE_MAX] = {
        [IMAGE_WAITING] = "Waiting",     [IMAGE_PULLING] = "Pulling",
        [IMAGE_BACKING_OFF] = "BackOff", [IMAGE_SUCCEEDED] = "Succeeded",
        [IMAGE_FAILED] = "Failed",       [IMAGE_MISSING] = "Missing",
};

void image_status_done(ImageStatus *status) {
        texts_free(status->repo_digests);
        free(status->image_id);
        free(status->message);
        free(status->resolved);
        free(status->pin);
        *status = (ImageStatus){ 0 };
}

int image_status_set_digests(ImageStatus *status, const char *const *digests, size_t n_digests) {
        cleanup(texts_free_p) char **copies = calloc(IMAGE_DIGESTS_MAX + 1, sizeof(copies[0]));
        size_t n = 0;

        if (!copies)
                return -ENOMEM;

        for (size_t i = 0; i < n_digests && n < IMAGE_DIGESTS_MAX; i++) {
                if (strlen(digests[i]) > IMAGE_DIGEST_TEXT_MAX)
                        continue;

                if (text_copy(digests[i], &copies[n++]) < 0)
                        return -ENOMEM;
        }

        texts_free(status->repo_digests);
        status->repo_digests = take_ptr(copies);
        return 0;
}

int image_status_copy(const ImageStatus *status, ImageStatus *ret) {
        cleanup(image_status_done) ImageStatus copy = *status;
        int r;

        copy.message = NULL;
        copy.resolved = NULL;
        copy.pin = NULL;
        copy.image_id = NULL;
        copy.repo_digests = NULL;
        r = text_copy(status->message, &copy.message)
                    ?: text_copy(status->resolved, &copy.resolved)
                    ?: text_copy(status->pin, &copy.pin)
                    ?: text_copy(status->image_id, &copy.image_id)
                    ?: texts_copy(status->repo_digests, &copy.repo_digests);
        if (r < 0)
                return r;

        *ret = copy;
        copy = (ImageStatus){ 0 };
        return 0;
}

const char *image_status_message(const ImageStatus *status) {
        if (status->phase != IMAGE_SUCCEEDED)
                return status->message;

        return status->pin ?: status->message ?: status->resolved;
}

bool image_phase_is_final(ImagePhase phase) {
        return phase == IMAGE_SUCCEEDED || phase == IMAGE_FAILED;
}

const char *image_phase_to_string(ImagePhase phase) {
        return phase_names[phase];
}

int image_status_progress(const ImageStatus *status) {
        if (status->phase == IMAGE_SUCCEEDED)
                return 100;
        if (status->bytes_total == 0 || status->bytes_done == 0)
                return 0;
        if (status->bytes_done >= status->bytes_total)
                return 99;

        return (int) ((double) status->bytes_done / (double) status->bytes_total * 99);
}

/* Whether the image counts as held. While it is still being pulled, the ID is known for a moment:
 * that is not worth its own write to the API server. */
static bool is_held(const ImageStatus *status) {
        return status->phase != IMAGE_PULLING;
}

static int put_image_id(json_object *entry, const char *name, const ImageStatus *status) {
        cleanup(free_p) char *text = NULL;

        if (!status->image_id || !is_held(status))
                return 0;

        return text_format(&text, "%s@%s", name, status->image_id)
                       ?: patch_add_text(entry, "imageID", text);
}

json_object *image_status_to_json(const ImageStatus *status, const char *name, const char *tag) {
        cleanup(json_object_put_p) json_object *entry = json_object_new_object();
        int r;

        r = patch_add_text(entry, "tag", tag)
            ?: patch_add_text(entry, "phase", phase_names[status->phase])
            ?: patch_add_nonzero(entry, "progress", image_status_progress(status))
            ?: patch_add_time(entry, "startTime", status->started_at)
            ?: patch_add_time(entry, "completionTime", status->completed_at)
            ?: patch_add_nonzero(entry, "version", status->version)
            ?: put_image_id(entry, name, status)
            ?: patch_add_filled(entry, "message", image_status_message(status));
        return r < 0 ? NULL : take_ptr(entry);
}

/* Layers that are fetched on demand. */
static int put_on_demand(json_object *entry, const ImageOnDemand *found) {
        cleanup(json_object_put_p) json_object *object = json_object_new_object();
        int r;

        if (found->n_layers == 0)
                return 0;

        r = patch_add_nonzero(object, "layers", found->n_layers)
                    ?: patch_add(object, "allLayers", json_object_new_int64(found->n_layers_all));
        if (r >= 0 && found->is_counted)
                r = patch_add(object, "bytesPresent",
                              json_object_new_int64((int64_t) found->bytes_present))
                            ?: patch_add_nonzero(object, "bytesTotal",
                                                 (int64_t) found->bytes_total);
        return r < 0 ? r : patch_add(entry, "onDemand", take_ptr(object));
}

json_object *image_status_to_own_json(const ImageStatus *status, const char *name,
                                      const char *tag) {
        cleanup(json_object_put_p) json_object *entry = image_status_to_json(status, name, tag);
        bool is_waiting = status->phase == IMAGE_WAITING || status->phase == IMAGE_MISSING;
        int r;

        r = patch_add_time(entry, "lastTransitionTime", is_waiting ? status->waiting_at : 0)
            ?: patch_add_nonzero(entry, "attempt", status->attempt)
            ?: put_on_demand(entry, &status->on_demand)
            ?: patch_add_time(entry, "nextAttemptTime", status->next_attempt_at);
        return r < 0 ? NULL : take_ptr(entry);
}

static int phase_from_string(const char *text, ImagePhase *ret, Error *reterr) {
        for (ImagePhase phase = 0; text && phase < _IMAGE_PHASE_MAX; phase++)
                if (strcmp(phase_names[phase], text) == 0) {
                        *ret = phase;
                        return 0;
                }

        return error_set(reterr, ERROR_INVALID, "an image has no phase");
}

/* The class of the failure is the text before the first colon of a message. */
static PullReason reason_of_message(const char *message) {
        cleanup(free_p) char *word = strndup(message, strcspn(message, ":"));

        return word ? pull_reason_from_string(word) : PULL_REASON_UNKNOWN;
}

/* Finds the field whose texts begin as this one. */
static char **field_of_message(ImageStatus *status, const char *message) {
        if (message && strncmp(message, IMAGE_RESOLVED, strlen(IMAGE_RESOLVED)) == 0)
                return &status->resolved;
        if (message && strncmp(message, IMAGE_NOT_PINNED, strlen(IMAGE_NOT_PINNED)) == 0)
                return &status->pin;

        return &status->message;
}

static int read_texts(json_object *entry, const char *name, ImageStatus *status) {
        const char *image_id = json_get_text(entry, "imageID");
        const char *message = json_get_text(entry, "message");
        char **text = field_of_message(status, message);
        size_t prefix = strlen(name);
        int r;

        if (image_id && strncmp(image_id, name, prefix) == 0 && image_id[prefix] == '@') {
                r = text_copy(image_id + prefix + 1, &status->image_id);
                if (r < 0)
                        return r;
        }

        if (status->phase == IMAGE_FAILED)
                status->reason = message ? reason_of_message(message) : PULL_REASON_UNKNOWN;

        r = text_copy(message, text);
        if (r < 0)
                return r;
        if (*text)
                (void) redact_text(*text); /* a status of an older version may have secrets */
        return 0;
}

/* Only the agent's own file has this member. */
static void read_on_demand(json_object *entry, ImageOnDemand *found) {
        json_object *object = json_get(entry, "onDemand", json_type_object);
        int64_t present = json_get_integer(object, "bytesPresent");
        int64_t total = json_get_integer(object, "bytesTotal");

        if (!object)
                return;

        found->n_layers = (unsigned) json_get_integer(object, "layers");
        found->n_layers_all = (unsigned) json_get_integer(object, "allLayers");
        found->is_counted = total > 0 && present >= 0 && present <= total;
        if (found->is_counted) {
                found->bytes_present = (uint64_t) present;
                found->bytes_total = (uint64_t) total;
        }
}

int image_status_from_json(json_object *entry, const char *name, ImageStatus *ret, Error *reterr) {
        cleanup(image_status_done) ImageStatus status = { 0 };
        int r;

        r = phase_from_string(json_get_text(entry, "phase"), &status.phase, reterr);
        if (r < 0)
                return r;

        status.version = json_get_integer(entry, "version");
        status.started_at = json_get_time(entry, "startTime");
        status.completed_at = json_get_time(entry, "completionTime");
        status.attempt = (unsigned) json_get_integer(entry, "attempt");
        read_on_demand(entry, &status.on_demand);
        r = read_texts(entry, name, &status);
        if (r < 0)
                return r;

        *ret = status;
        status = (ImageStatus){ 0 };
        return 0;
}

int image_status_read_final(json_object *entry, const char *name, ImageStatus *ret) {
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        r = image_status_from_json(entry, name, ret, &error);
        if (r < 0)
                return error.kind == ERROR_NONE ? r : 0;

        return image_phase_is_final(ret->phase);
}

#define TEXT_SIZE_MAX 600 /* a runtime's nested errors repeat themselves beyond that */

/* Copies the text as one printable line. A long text loses its middle: the name is at its
 * beginning, the cause at its end. */
static int clean_line(const char *text, char **ret) {
        size_t size = strlen(text);
        char *line;

        if (size <= TEXT_SIZE_MAX)
                line = strdup(text);
        else
                (void) text_format(&line, "%.*s ... %s", TEXT_SIZE_MAX / 2, text,
                                   text + size - TEXT_SIZE_MAX / 2);
        if (!line)
                return -ENOMEM;

        for (char *c = line; *c; c++)
                if (*c == '\n' || *c == '\t')
                        *c = ' ';
        text_make_plain(line);

        *ret = line;
        return 0;
}

int image_status_set_resolved(ImageStatus *status, const char *reference) {
        cleanup(free_p) char *line = NULL;
        char *text = NULL;
        int r;

        if (reference) {
                r = clean_line(reference, &line);
                if (r < 0)
                        return r;
                if (text_format(&text, IMAGE_RESOLVED "%s", line) < 0)
                        return -ENOMEM;
        }

        free(status->resolved);
        status->resolved = text;
        return 0;
}

static void set_reason(ImageStatus *status, PullReason reason, char *message) {
        free(status->message);
        status->message = message;
        status->reason = reason;
}

int image_status_set_failure(ImageStatus *status, PullReason reason, const char *text,
                             unsigned attempt, uint64_t n_attempts) {
        cleanup(free_p) char *line = NULL;
        char limit[32] = "";
        char *message;
        int r;

        r = clean_line(text, &line);
        if (r < 0)
                return r;

        if (n_attempts > 0)
                (void) snprintf(limit, sizeof(limit), " of %" PRIu64, n_attempts);
        if (text_format(&message, "%s: %s; %s (attempt %u%s)", pull_reason_to_string(reason), line,
                        pull_reason_advice(reason), attempt, limit) < 0)
                return -ENOMEM;

        set_reason(status, reason, message);
        return 0;
}

int image_status_set_pause(ImageStatus *status, PullReason reason, const char *text) {
        cleanup(free_p) char *line = NULL;
        char *message;
        int r;

        r = clean_line(text, &line);
        if (r < 0)
                return r;

        if (text_format(&message, "%s: %s; %s", pull_reason_to_string(reason), line,
                        pull_reason_advice(reason)) < 0)
                return -ENOMEM;

        set_reason(status, reason, message);
        return 0;
}

int image_status_set_past_deadline(ImageStatus *status, int64_t deadline_sec) {
        const char *earlier = status->message;
        char *message;

        if (text_format(&message,
                        "%s: pulling exceeds the activeDeadlineSeconds (%" PRId64
                        "), which inplacectl calls --timeout%s%s",
                        pull_reason_to_string(PULL_REASON_DEADLINE), deadline_sec,
                        earlier ? "; before that: " : "", earlier ?: "") < 0)
                return -ENOMEM;

        set_reason(status, PULL_REASON_DEADLINE, message);
        return 0;
}

void image_status_clear_failure(ImageStatus *status) {
        set_reason(status, PULL_REASON_NONE, NULL);
}

int image_status_set_success(ImageStatus *status) {
        char *message = NULL;

        if (status->on_demand.n_layers > 0) {
                message = on_demand_describe(&status->on_demand);
                if (!message)
                        return -ENOMEM;
        }

        set_reason(status, PULL_REASON_NONE, message);
        return 0;
}
