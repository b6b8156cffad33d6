/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The calls of the local API, and their shared state
 *
 * Each call has a file of its own; api.c serves them on the socket.
 */

#include "agent/api/diagnosis.h"
#include "agent/base/log-once.h"
#include "agent/cluster/pod-waits.h"
#include "agent/image/pins.h"
#include "agent/inplace/inplace.h"
#include "agent/observe/metrics.h"
#include "agent/pod/pods.h"
#include "agent/pod/stops.h"
#include "agent/probe/probes.h"
#include "agent/rpc/listener.h"
#include "agent/rpc/room.h"
#include "agent/rpc/server.h"
#include "cri/client.h"
#include "proto/inplaced/v1/node.pb-c.h"

typedef struct Api Api;
typedef struct Preload Preload;
typedef struct ImageListing ImageListing;
typedef struct Restarting Restarting;
typedef struct Verification Verification;
typedef struct Watch Watch;
typedef struct Pulls Pulls;

struct Api {
        CompletionQueue *completions;
        Log *log;
        Metrics *metrics;
        Images *images;
        const Runtimes *runtimes;
        const DiagnosisSubject *subject;
        Stops *stops;
        Pods *pods;
        const PodWaits *pod_waits;
        const InPlace *meta;
        const Probes *probes;
        const Pins *pins;
        StateFile *state_file;
        char *node_name;
        gid_t restart_group;
        char *restart_group_name;
        LogOnce shortage; /* why no connection could be accepted */
        void (*on_changed)(void *userdata);
        void *userdata;

        RpcServer *server;
        Listener *listener;
        ImagesWatcher watcher;
        size_t status_size; /* size of the last reply to GetStatus, in bytes */
        Preload *preloads;
        ImageListing *listings;
        size_t n_listings;
        Restarting *restartings;
        size_t n_restartings;
        Verification *verifications;
        size_t n_verifications;
        Watch *watches;
        Pulls *pulls; /* NULL while no caller follows the pulls */
};

/* Counts an answered call. */
void api_count(Api *api, const char *method, ErrorKind result);

/* Answer the call and count it. */
int api_reply(Api *api, RpcRequest *request, const ProtobufCMessage *reply);
int api_refuse(Api *api, RpcRequest *request, ErrorKind kind, const char *reason);

/* Replaces a kind that the runtime's refusal may have, but that a caller would take for its own time
 * limit, for an agent that stops, or for another server. */
ErrorKind api_kind_for_caller(ErrorKind kind);

/* Adds a caller whose call stays open to the use, for the one who requests the same. */
void api_count_follower(RoomUse *use, const RpcRequest *follower, const RpcRequest *request);
/* Fails if one more of these has no room, with the reason for the caller. */
int api_check_followers(const RoomUse *use, const char *what, const RpcRequest *request,
                        Error *reterr);

/* Logs a call that changes something: "Preload 3 images for jo (uid 1000, pid 4242)". */
int api_log_change(Api *api, const RpcRequest *request, const char *request_id, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

/* Describes the peer: "jo (uid 1000, pid 4242)". The caller owns *ret. */
int api_describe_caller(const Peer *peer, char **ret);

/* The requesters of an image, as from owner_reference_to_words(). All zero: none so far. */
typedef struct RequestedBy {
        char **words; /* owned, as are the texts */
        size_t n_words;
} RequestedBy;

/* Adds the first few. A local request that is done counts only if it pins. */
int requested_by_add(RequestedBy *requested, const Image *image);
void requested_by_done(RequestedBy *requested);

/* Fills the message and returns it; NULL if no layer is fetched on demand. */
Inplaced__V1__OnDemand *on_demand_message(const ImageOnDemand *found, Inplaced__V1__OnDemand *ret);

Inplaced__V1__Step step_message(ImageStep step);

/* Borrows from the runtime. */
int runtime_message_init(Inplaced__V1__Runtime *message, const Api *api, const Runtime *runtime);
void runtime_message_done(Inplaced__V1__Runtime *message);

/* Checks the right to restart containers, which root and the members of one group have. */
int api_check_restart(const Api *api, const RpcRequest *request, Error *reterr);

/* Returns the text if it is printable ASCII, else "?", since the runtime may send anything. Borrowed. */
char *plain_text(const char *text);

/* preload.c */
int api_preload(RpcRequest *request, const void *message, void *userdata);
int api_cancel(RpcRequest *request, const void *message, void *userdata);
int preloads_on_image(Api *api, const Image *image);
void preload_drop(Preload *preload);

/* The request's caller and root may withdraw it. */
bool may_withdraw(const Peer *peer, const ImageRequest *request);

/* unpin.c */
int api_unpin(RpcRequest *request, const void *message, void *userdata);

/* images.c */
int api_list_images(RpcRequest *request, const void *message, void *userdata);
void listing_drop(ImageListing *listing);

/* retry.c */
int api_retry(RpcRequest *request, const void *message, void *userdata);

/* restart.c */
int api_restart(RpcRequest *request, const void *message, void *userdata);
void restarting_drop(Restarting *restarting);

/* verify.c */
int api_verify(RpcRequest *request, const void *message, void *userdata);
void verification_drop(Verification *verification);

int api_watch(RpcRequest *request, const void *message, void *userdata);
int watches_on_image(Api *api, const Image *image);
int watches_on_runtime(Api *api);
void watch_drop(Watch *watch);

/* pulls.c */
int api_watch_pulls(RpcRequest *request, const void *message, void *userdata);
Pulls *pulls_free(Pulls *pulls);

/* probes.c */
int api_list_probes(RpcRequest *request, const void *message, void *userdata);

/* status.c */
int api_get_status(RpcRequest *request, const void *message, void *userdata);
int api_diagnose(RpcRequest *request, const void *message, void *userdata);
int api_get_version(RpcRequest *request, const void *message, void *userdata);
