/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/images-log.h"

#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"

/* Of a name or a tag, which may be anything. */
#define TEXT_SIZE_MAX 256

static const char *separator(const char *tag) {
        return strchr(tag, ':') ? "@" : ":";
}

static void clean(char *text) {
        for (; *text; text++)
                if ((unsigned char) *text < ' ' || (unsigned char) *text >= 0x7f)
                        *text = '?';
}

void images_log_outcome(Log *log, const Image *image, const ImageStatus *status) {
        const char *tag = image_tag(image);
        cleanup(free_p) char *reference = NULL;
        char duration[32];

        if (asprintf(&reference, "%.*s%s%.*s", TEXT_SIZE_MAX, image_name(image), separator(tag),
                     TEXT_SIZE_MAX, tag) < 0) {
                reference = NULL;
                return;
        }
        clean(reference);
        (void) snprintf(duration, sizeof(duration), "%.3f",
                        (double) status->duration_usec / 1000000);

        if (status->phase == IMAGE_FAILED)
                log_warning(log,
                            LOG_FIELDS({ "MESSAGE_ID", MESSAGE_IMAGE_FAILED },
                                       { "IMAGE", reference },
                                       { "REASON", pull_reason_to_string(status->reason) },
                                       { "DURATION_SEC", duration }),
                            "Cannot pull `%s`: %s", reference, status->message ?: "no reason");
        else
                log_info(log,
                         LOG_FIELDS({ "MESSAGE_ID", MESSAGE_IMAGE_PULLED }, { "IMAGE", reference },
                                    { "IMAGE_ID", status->image_id }, { "DURATION_SEC", duration }),
                         "%s `%s` as %s in %s s.", status->was_present ? "Found" : "Pulled",
                         reference, status->image_id ?: "an unknown image", duration);
}
