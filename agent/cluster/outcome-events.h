/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events about images, for those who have asked for them
 *
 * The reasons are OpenKruise's (PullImageSucceed, PullImageFailed). A success is told about the
 * NodeImage; a failure about each of the owners of the tag, too.
 */

#include "agent/image/image-status.h"
#include "agent/image/wish.h"
#include "agent/kube/event.h"

/* node_image: what the event is about. The status is final. */
int outcome_events_send(KubeEvents *events, const KubeReference *node_image, const ImageWish *wish,
                        const ImageStatus *status);
