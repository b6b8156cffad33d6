/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A status as an event of the local API
 */

#include "agent/image/image-status.h"
#include "proto/inplaced/v1/node.pb-c.h"

/* Borrows everything that it is given for the life of the event. */
void preload_event_init(Inplaced__V1__PreloadEvent *event, const char *request_id,
                        const char *image, const ImageStatus *status);

/* Text that every protobuf reader takes and no terminal obeys. The runtime may send anything. */
bool is_plain_text(const char *text);
