/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of an image: image.c pulls it in rounds, image-wants.c keeps who wants it
 */

#include "agent/image/image.h"

struct Image {
        ImageDirty on_dirty;
        void *userdata;

        char *key;
        char *name;
        char *tag;
        Error malformed; /* why the reference is none */

        Wants wants;
        bool must_restart;
        ImageNotes notes;
        ImageWish wish; /* all wants together; without a name if there are none */

        Pull *pull;
        ImageStatus status; /* of the last round that ended */
};

/* Another round has ended, or something like it: takes its status over. Whom the last one has served
 * keeps what it was. */
int image_set_status(Image *image, ImageStatus *status);
