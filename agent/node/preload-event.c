/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/preload-event.h"

/* clang-format off */
static const Inplaced__V1__Phase phases[_IMAGE_PHASE_MAX] = {
        [IMAGE_WAITING]   = INPLACED__V1__PHASE__PHASE_WAITING,
        [IMAGE_PULLING]   = INPLACED__V1__PHASE__PHASE_PULLING,
        [IMAGE_SUCCEEDED] = INPLACED__V1__PHASE__PHASE_SUCCEEDED,
        [IMAGE_FAILED]    = INPLACED__V1__PHASE__PHASE_FAILED,
};

static const Inplaced__V1__Step steps[_IMAGE_STEP_MAX] = {
        [IMAGE_STEP_NONE]                = INPLACED__V1__STEP__STEP_UNSPECIFIED,
        [IMAGE_STEP_QUEUED]              = INPLACED__V1__STEP__STEP_QUEUED,
        [IMAGE_STEP_WAITING_FOR_RUNTIME] = INPLACED__V1__STEP__STEP_WAITING_FOR_RUNTIME,
        [IMAGE_STEP_LOOKING]             = INPLACED__V1__STEP__STEP_LOOKING,
        [IMAGE_STEP_RESOLVING]           = INPLACED__V1__STEP__STEP_RESOLVING,
        [IMAGE_STEP_DOWNLOADING]         = INPLACED__V1__STEP__STEP_DOWNLOADING,
        [IMAGE_STEP_UNPACKING]           = INPLACED__V1__STEP__STEP_UNPACKING,
        [IMAGE_STEP_BACKING_OFF]         = INPLACED__V1__STEP__STEP_BACKING_OFF,
};
/* clang-format on */

bool is_plain_text(const char *text) {
        for (; *text; text++)
                if ((unsigned char) *text < ' ' || (unsigned char) *text >= 0x7f)
                        return false;

        return true;
}

/* Only digests that the runtime spelled properly; the list is ours, so it may be shortened. */
static size_t count_plain(char **texts) {
        size_t n = 0;

        while (texts && texts[n] && is_plain_text(texts[n]))
                n++;

        return n;
}

void preload_event_init(Inplaced__V1__PreloadEvent *event, const char *request_id,
                        const char *image, const ImageStatus *status) {
        bool has_failed = status->reason != PULL_REASON_NONE;

        inplaced__v1__preload_event__init(event);
        event->request_id = (char *) request_id;
        event->image = (char *) image;
        event->phase = phases[status->phase];
        event->step = steps[status->step];
        event->attempt = status->attempt;
        event->bytes_done = status->bytes_done;
        event->bytes_total = status->bytes_total;
        event->reason = (char *) (has_failed ? pull_reason_to_string(status->reason) : "");
        event->message = status->message ?: (char *) "";
        if (status->phase != IMAGE_SUCCEEDED)
                return;

        event->image_id = status->image_id ?: (char *) "";
        event->was_present = status->was_present;
        event->repo_digests = status->repo_digests;
        event->n_repo_digests = count_plain(status->repo_digests);
}
