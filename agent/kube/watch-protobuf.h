/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protobuf half of watch-message.h
 */

#include "agent/kube/watch-message.h"

int watch_protobuf_event(Slice frame, WatchEvent *event, Error *reterr);
int watch_protobuf_list(Slice body, WatchList *list, Error *reterr);
int watch_protobuf_item(const WatchList *list, size_t i, WatchEvent *event, Error *reterr);
