/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Services of containerd beside CRI, on the same socket
 *
 * Runtimes without these services answer ERROR_UNSUPPORTED. Everything that CRI pulls is in containerd's
 * namespace "k8s.io".
 */

#include "agent/rpc/client.h"
#include "cri/types.h"

/*
 * The content store (containerd.services.content.v1)
 *
 * CRI reports nothing about a pull before it ends; here a download can be seen growing.
 */

/* ContentIngests: current downloads. */
int content_list_ingests(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret);

/* A stream of ContentList: blobs that are complete and match one of the filters (containerd's
 * filter syntax, as in "digest==sha256:..."). */
int content_list(RpcClient *client, const char *const *filters, size_t n_filters,
                 RpcMessage on_list, RpcDone done, void *userdata, RpcCall **ret);

/* ContentInfoReply: a complete blob with its labels; NOT_FOUND if there is none. */
int content_info(RpcClient *client, const char *digest, RpcDone done, void *userdata,
                 RpcCall **ret);

/* A stream of ContentPart: the bytes of a blob. */
int content_read(RpcClient *client, const char *digest, RpcMessage on_part, RpcDone done,
                 void *userdata, RpcCall **ret);

/*
 * Snapshots (containerd.services.snapshots.v1)
 *
 * How a snapshotter keeps the unpacked layers of images: most have them on the disk, some fetch them when
 * their files are read.
 */

/* SnapshotReply: a snapshot with its labels; NOT_FOUND if the snapshotter has none of that name. */
int snapshot_stat(RpcClient *client, const char *snapshotter, const char *name, RpcDone done,
                  void *userdata, RpcCall **ret);

/*
 * Leases (containerd.services.leases.v1)
 *
 * Content that a lease refers to is not collected as garbage. cri_pull_image() takes the ID of a lease.
 */

/* Lasts until the time, as in RFC 3339, or until leases_delete(). */
int leases_create(RpcClient *client, const char *id, const char *expires, RpcDone done,
                  void *userdata, RpcCall **ret);

int leases_delete(RpcClient *client, const char *id, RpcDone done, void *userdata, RpcCall **ret);

/* Leased: the resources that the lease refers to. */
int leases_list(RpcClient *client, const char *id, RpcDone done, void *userdata, RpcCall **ret);

/* LeaseList: the leases that expire, as those of pulls do; not those of sandboxes. */
int leases_list_expiring(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret);

/*
 * Image records (containerd.services.images.v1)
 *
 * Each name of an image has a record of its own: its tags, its digests and its ID.
 */

typedef struct ImageLabel {
        const char *key;
        const char *value; /* "": there is no such label */
} ImageLabel;

/* ImageRecords: records that match one of the filters. */
int image_records_list(RpcClient *client, const char *const *filters, size_t n_filters,
                       RpcDone done, void *userdata, RpcCall **ret);

#define IMAGE_LABELS_MAX 2

/* Sets or removes these labels alone; NOT_FOUND if there is no such record. */
int image_record_set_labels(RpcClient *client, const char *name, const ImageLabel *labels,
                            size_t n_labels, RpcDone done, void *userdata, RpcCall **ret);

/*
 * Events of images (containerd.services.events.v1)
 *
 * CRI does not report that an image was removed; containerd does, to all subscribers. The agent does not
 * subscribe to events of containers: containerd before 2.0 gives each CRI container event to one subscriber
 * only, so that the kubelet would miss it.
 */

#define EVENT_IMAGE_REMOVED "/images/delete"
#define EVENT_IMAGE_UPDATED "/images/update" /* another target, or other labels */

/* A stream of messages without details, one for each name of an image that has this event. It ends with
 * the connection. Earlier events are not reported. */
int events_watch_images(RpcClient *client, const char *event, RpcMessage on_event, RpcDone done,
                        void *userdata, RpcCall **ret);
