/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of the local API share
 */

#include "agent/base/list.h"
#include "agent/node/api-caller.h"
#include "agent/node/api.h"
#include "cri/client.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef struct Preload Preload;
typedef struct ImageListing ImageListing;
typedef struct Restarting Restarting;
typedef struct Verification Verification;

struct Api {
        CompletionQueue *completions;
        Log *log;
        Images *images;
        const Runtimes *runtimes;
        const DiagnosisSubject *subject;
        Stops *stops;
        Pods *pods;
        const Meta *meta;
        StateFile *state_file;
        char *node_name;
        gid_t restart_group;
        char *restart_group_name;
        ApiObserver on_request;
        ApiRefused on_refused;
        ApiFreed on_freed;
        void *userdata;

        RpcServer *server;
        Listener *listener;
        ImagesWatcher watcher;
        Preload *preloads;
        ImageListing *listings;
        Restarting *restartings;
        size_t n_restartings;
        Verification *verifications;
        size_t n_verifications;
};

/* Answer, and count the answer. */
int api_reply(Api *api, RpcRequest *request, const ProtobufCMessage *reply);
int api_refuse(Api *api, RpcRequest *request, ErrorKind kind, const char *reason);

/* Logs a call that changes something: "Preload 3 images for jo (uid 1000, pid 4242)". */
int api_log_change(Api *api, const RpcRequest *request, const char *request_id, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

/* api-preload.c */
int api_preload(RpcRequest *request, const void *message, void *userdata);
int preload_on_image(Preload *preload, const Image *image);
void preload_drop(Preload *preload);
Preload *preload_next(const Preload *preload);
const char *preload_owner(const Preload *preload);
size_t preload_n_images(const Preload *preload);

/* api-room.c: forgets finished requests for so many more images of a new one, or refuses that. */
int api_make_room(Api *api, const Peer *peer, size_t n_more, Error *reterr);

/* api-cancel.c */
int api_cancel(RpcRequest *request, const void *message, void *userdata);

/* api-images.c */
int api_list_images(RpcRequest *request, const void *message, void *userdata);
void listing_drop(ImageListing *listing);

/* api-restart.c */
int api_restart(RpcRequest *request, const void *message, void *userdata);
void restarting_drop(Restarting *restarting);

/* api-verify.c */
int api_verify(RpcRequest *request, const void *message, void *userdata);
void verification_drop(Verification *verification);

/* api-status.c */
int api_get_status(RpcRequest *request, const void *message, void *userdata);
int api_diagnose(RpcRequest *request, const void *message, void *userdata);
int api_get_version(RpcRequest *request, const void *message, void *userdata);
