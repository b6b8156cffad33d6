/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The request of an httpGet hook
 *
 * As the kubelet makes it: no proxy, no certificate is verified, any answer is success, and a
 * server that answers https in plain HTTP is asked once more without TLS, and without the header
 * Authorization. No redirect is followed, and no time limit is kept here.
 */

#include "agent/pod/hook.h"

typedef struct HookHttp HookHttp;

/* address: of the pod, if the hook names no host. Copies what it needs. on_done runs once, not from
 * within. Refused if there is nobody to ask. */
int hook_http_new(sd_event *event, const HookSpec *spec, const char *address, HookDone on_done,
                  void *userdata, HookHttp **ret, Error *reterr);

/* "10.0.0.7:8443" if that was asked once more without TLS; NULL: it was not. Borrowed. */
const char *hook_http_plain_host(const HookHttp *http);

/* Ends it if it still runs; no callback then. Returns NULL. */
HookHttp *hook_http_free(HookHttp *http);
