/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/sorted.h"
#include "agent/base/text.h"
#include "agent/image/manifest-spec.h"
#include "cri/containerd.h"
#include "cri/types.h"

#define POLL_USEC ((uint64_t) 100 * 1000)
#define DOWNLOADS_AT_ONCE 3 /* unless containerd is configured otherwise */

/* Between two layers there may be an instant without an ingest, but not for so many polls. */
#define QUIET_POLLS 5

/* Manifests of ended pulls; more than run at a time with the default settings. */
#define CLAIMS_MAX 16

/* Labels that containerd puts on blobs (its docs/garbage-collection.md and remotes/docker). The
 * first one names a host without its port, its value is a comma list of repositories. */
#define LABEL_SOURCE "containerd.io/distribution.source."
#define LABEL_CONFIG "containerd.io/gc.ref.content.config" /* only manifests refer to a config */

/* State of one of the manifest's blobs. */
typedef struct BlobState {
        bool is_complete;
        bool was_there; /* before the pull began */
        uint64_t most;  /* most bytes ever present */
} BlobState;

/* Ranks of manifests. A tag that is pulled again may resolve to an old manifest. */
enum { RANK_NONE, RANK_OLD, RANK_NEW, RANK_ASKED_FOR };

/*
 * Finding the blobs of one pull in containerd's content store
 *
 * List the manifests that are labelled with the repository → pick one → read it → from then on ask
 * which of its blobs are complete. Each step is one call; none is started before the last one has
 * ended, and one that brought something is followed by the next at once.
 *
 * Once the image's ID is known it is the manifest with this config that is searched for, and the end of
 * the last step is the end of the pull.
 */
typedef struct ProgressFind {
        Progress *progress; /* owner, which embeds this search */

        char *label;      /* containerd's label for the registry's host */
        char *repository; /* the label's value */
        char *digest;     /* digest of the requested manifest or index; NULL for a tag */
        char *image_id;   /* NULL until the runtime has pulled it */
        struct timespec started;
        RpcCall *call;

        char *candidate; /* the best manifest of the list that is being read */
        int candidate_rank;
        struct timespec candidate_created;

        char *manifest_digest; /* NULL until it is found */
        bool is_old;           /* it was there before the pull: it counts only if it lacks a blob */
        bool is_used;          /* this pull fetched the manifest or a blob of it */
        bool is_leased;        /* in the lease of this pull */
        bool is_checked;       /* the blobs were checked at least once */
        char *text;            /* text of the manifest, as far as it was read */
        size_t text_size;
        Manifest manifest;
        BlobState *blobs; /* states of the manifest's blobs */
} ProgressFind;

typedef struct Claim {
        char *manifest;
        char *reference;
} Claim;

/* Bytes of a blob that were counted for some pull. */
typedef struct Counted {
        char *digest;
        uint64_t bytes;        /* from its first byte on */
        struct timespec began; /* start of the ingest, or time at which the blob was complete */
        uint64_t at_usec;
} Counted;

struct ProgressTracker {
        sd_event *event;
        const Runtimes *runtimes;
        uint64_t stall_usec;
        Progress *items;

        Timer poll;
        RpcCall *call;
        uint64_t answered_usec; /* time of the store's last answer */
        unsigned asked_by;      /* the connection that answered, counted from 1 */
        bool is_unsupported;
        size_t n_ingests; /* ingests of all pulls, also of others than the agent's */
        size_t n_strays;  /* ingests of unknown manifests */
        uint64_t offsets; /* sum of their offsets at the last poll */
        bool is_active;   /* some of them have grown since the poll before */
        uint64_t bytes;
        Counted **counted; /* by digest: blobs that came while any of the items ran */
        size_t n_counted;
        Claim claims[CLAIMS_MAX];
        size_t next_claim;
};

struct Progress {
        LIST_LINKS(Progress);
        ProgressTracker *tracker;
        ProgressChanged on_changed;
        ProgressStalled on_stalled;
        ProgressCounted on_counted; /* NULL while the pull runs */
        void *userdata;

        char *reference;
        char *lease_id; /* or NULL */
        ProgressFind find;
        ProgressReport report;
        uint64_t arrived; /* present bytes in the store, which may go back, unlike the report */
        size_t n_ingests; /* current number of ingests of its blobs */
        bool has_begun;   /* the first byte of a blob has arrived */
        unsigned n_quiet; /* polls in a row without an ingest */
        uint64_t begun_usec;
        uint64_t
                silent_usec; /* since the last byte, divided among the ingests; see progress_note_silence() */
        uint64_t seen_bytes; /* bytes of the tracker at the last poll */
        bool was_active;
        bool is_stalled;
};

DEFINE_CLEANUP(Progress *, progress_end)

static bool claims_other(const char *manifest, const char *reference, const char *claimed,
                         const char *claimed_by) {
        return claimed && strcmp(claimed, manifest) == 0 && strcmp(claimed_by, reference) != 0;
}

/* Whether another pull has this manifest. containerd's label names neither the port of a registry
 * nor a tag, so that several manifests may fit. */
static bool is_claimed(const char *manifest, const Progress *progress) {
        const ProgressTracker *tracker = progress->tracker;

        for (const Progress *other = tracker->items; other; other = other->next)
                if (claims_other(manifest, progress->reference, other->find.manifest_digest,
                                 other->reference))
                        return true;

        for (size_t i = 0; i < CLAIMS_MAX; i++)
                if (claims_other(manifest, progress->reference, tracker->claims[i].manifest,
                                 tracker->claims[i].reference))
                        return true;

        return false;
}

static int host_without_port(const char *registry, char **ret) {
        const char *end = strrchr(registry, ':');

        if (registry[0] == '[') {
                registry++;
                end = strchr(registry, ']');
        }

        *ret = end ? strndup(registry, (size_t) (end - registry)) : strdup(registry);
        return *ret ? 0 : -ENOMEM;
}

static int progress_find_init(ProgressFind *find, const ImageRef *ref) {
        cleanup(free_p) char *host = NULL;
        int r;

        (void) clock_gettime(CLOCK_REALTIME, &find->started);
        r = host_without_port(ref->registry, &host);
        if (r < 0)
                return r;

        if (asprintf(&find->label, LABEL_SOURCE "%s", host) < 0) {
                find->label = NULL;
                return -ENOMEM;
        }

        find->repository = strdup(ref->repository);
        find->digest = ref->digest[0] ? strdup(ref->digest) : NULL;
        return find->repository && (find->digest || !ref->digest[0]) ? 0 : -ENOMEM;
}

/* Starts the search again, because the manifest belongs to another pull. */
static void progress_find_forget(ProgressFind *find) {
        find->call = rpc_call_unref(find->call);
        manifest_done(&find->manifest);
        free(take_ptr(find->manifest_digest));
        free(take_ptr(find->candidate));
        free(take_ptr(find->text));
        free(take_ptr(find->blobs));
        find->text_size = 0;
        find->is_checked = false;
        find->is_used = false;
        find->is_leased = false;
}

static void progress_find_done(ProgressFind *find) {
        progress_find_forget(find);
        free(take_ptr(find->label));
        free(take_ptr(find->repository));
        free(take_ptr(find->digest));
        free(take_ptr(find->image_id));
}

/* Whether the manifest is found, and its blobs are checked. */
static bool progress_find_is_done(const ProgressFind *find) {
        return find->is_checked;
}

static size_t find_blob(const ProgressFind *find, const char *digest) {
        size_t i = 0;

        while (i < find->manifest.n_blobs && strcmp(find->manifest.blobs[i].digest, digest) != 0)
                i++;

        return i;
}

/* The runtime has the same clock, because it runs on this machine. */
static struct timespec created_at(const ContentInfo *info) {
        return (struct timespec){
                .tv_sec = info->created_at ? info->created_at->seconds : 0,
                .tv_nsec = info->created_at ? info->created_at->nanos : 0,
        };
}

static bool is_before(struct timespec a, struct timespec b) {
        return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

static int on_blobs(const void *message, void *userdata) {
        const ContentList *list = message;
        ProgressFind *find = userdata;

        for (size_t i = 0; i < list->n_info; i++) {
                size_t blob = find_blob(find, list->info[i]->digest);

                if (blob == find->manifest.n_blobs)
                        continue;

                find->blobs[blob].is_complete = true;
                find->blobs[blob].was_there = is_before(created_at(list->info[i]), find->started);
                find->is_used |= !find->blobs[blob].was_there;
        }

        return 0;
}

static bool is_all_complete(const ProgressFind *find) {
        for (size_t i = 0; i < find->manifest.n_blobs; i++)
                if (!find->blobs[i].is_complete)
                        return false;

        return true;
}

/* Ends the search without a result. Then the pull cannot be counted. */
static int progress_find_fail(ProgressFind *find) {
        Progress *progress = find->progress;

        progress_find_forget(find);
        return progress->on_counted ? progress->on_counted(NULL, progress->userdata) : 0;
}

/* Reports the final count when the state of all blobs is known. */
static int progress_report_counted(Progress *progress);

/* Asks for the ingests of all pulls, if the runtime is there and they are not being asked for. */
static int tracker_ask(ProgressTracker *tracker);

/* Rejects a manifest that was complete before the pull began: it is not the one of this pull. */
static int progress_find_accept(ProgressFind *find) {
        if (find->is_checked)
                return 0;
        if (find->is_old && !find->is_used && is_all_complete(find)) {
                progress_find_forget(find);
                return 0;
        }

        find->is_checked = true;
        return tracker_ask(find->progress->tracker); /* to stop a pull that is too large at once */
}

/* An old manifest in the pull's own lease counts as used: an earlier attempt has fetched it. No
 * other pull has that lease. */
static int on_leased(const void *reply, const Error *error, void *userdata) {
        const Leased *leased = reply;
        ProgressFind *find = userdata;

        find->call = rpc_call_unref(find->call);
        for (size_t i = 0; !error && i < leased->n_resources; i++)
                find->is_leased |= strcmp(leased->resources[i]->id, find->manifest_digest) == 0;

        find->is_used |= find->is_leased;
        return progress_find_accept(find);
}

static int on_checked(const void *reply, const Error *error, void *userdata) {
        ProgressFind *find = userdata;
        const char *lease_id = find->progress->lease_id;
        RpcClient *client = runtimes_client(find->progress->tracker->runtimes);

        find->call = rpc_call_unref(find->call);
        if (find->image_id)
                return error ? progress_find_fail(find) : progress_report_counted(find->progress);
        if (error)
                return 0;
        if (client && lease_id && (!find->is_used || !find->is_checked))
                return leases_list(client, lease_id, on_leased, find, &find->call);

        return progress_find_accept(find);
}

static void free_filters(char ***filters) {
        for (char **filter = *filters; filter && *filter; filter++)
                free(*filter);
        free(*filters);
}

static int progress_find_check(ProgressFind *find, RpcClient *client) {
        cleanup(free_filters) char **filters = NULL;
        size_t n = 0;

        filters = calloc(find->manifest.n_blobs + 1, sizeof(filters[0]));
        if (!filters)
                return -ENOMEM;

        for (size_t i = 0; i < find->manifest.n_blobs; i++) {
                if (find->blobs[i].is_complete && !find->image_id)
                        continue;
                if (asprintf(&filters[n], "digest==%s", find->manifest.blobs[i].digest) < 0) {
                        filters[n] = NULL;
                        return -ENOMEM;
                }
                n++;
        }
        if (n == 0)
                return 0;

        return content_list(client, (const char *const *) filters, n, on_blobs, on_checked, find,
                            &find->call);
}

static int on_part(const void *message, void *userdata) {
        const ContentPart *part = message;
        ProgressFind *find = userdata;
        char *text;

        if (find->text_size + part->data.len > MANIFEST_SIZE_MAX)
                return 0; /* a manifest that is cut off will not parse */

        text = realloc(find->text, find->text_size + part->data.len + 1);
        if (!text)
                return -ENOMEM;

        if (part->data.len > 0)
                memcpy(text + find->text_size, part->data.data, part->data.len);
        find->text = text;
        find->text_size += part->data.len;
        return 0;
}

/* Starts the next call, if one is due and the runtime is there. */
static int progress_find_step(ProgressFind *find);

static int on_read(const void *reply, const Error *error, void *userdata) {
        ProgressFind *find = userdata;
        int r;

        find->call = rpc_call_unref(find->call);
        r = error ? -EIO
                  : manifest_spec_parse(find->text ?: "", find->text_size, &find->manifest, NULL);
        free(take_ptr(find->text));
        find->text_size = 0;
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return progress_find_fail(find);

        find->blobs = calloc(find->manifest.n_blobs + 1, sizeof(find->blobs[0]));
        if (!find->blobs)
                return -ENOMEM;

        return progress_find_step(find);
}

static int rank_of(const ProgressFind *find, const ContentInfo *info) {
        if (find->digest && strcmp(find->digest, info->digest) == 0)
                return RANK_ASKED_FOR;

        return is_before(created_at(info), find->started) ? RANK_OLD : RANK_NEW;
}

/* A pull fetches its manifest first: so the oldest new manifest is the likeliest, or the newest old
 * one. */
static bool is_better(const ProgressFind *find, int rank, struct timespec created) {
        if (rank != find->candidate_rank)
                return rank > find->candidate_rank;

        return rank == RANK_OLD ? is_before(find->candidate_created, created)
                                : is_before(created, find->candidate_created);
}

static int progress_find_consider(ProgressFind *find, const ContentInfo *info) {
        struct timespec created = created_at(info);
        int rank = rank_of(find, info);

        /* Several tags may mean one image. */
        if (!is_better(find, rank, created) ||
            (!find->image_id && is_claimed(info->digest, find->progress)))
                return 0;

        free(find->candidate);
        find->candidate = strdup(info->digest);
        find->candidate_rank = rank;
        find->candidate_created = created;
        return find->candidate ? 0 : -ENOMEM;
}

static int on_manifests(const void *message, void *userdata) {
        const ContentList *list = message;
        int r;

        for (size_t i = 0; i < list->n_info; i++) {
                r = progress_find_consider(userdata, list->info[i]);
                if (r < 0)
                        return r;
        }

        return 0;
}

static unsigned tracker_connection(const ProgressTracker *tracker) {
        Runtime *runtime = runtimes_chosen(tracker->runtimes);

        return runtime ? runtime_n_connects(runtime) : 0;
}

/* Notes a runtime without a content store; the next connection may be to another runtime. */
static void tracker_note_answer(ProgressTracker *tracker, const Error *error) {
        if (error && error->kind != ERROR_UNSUPPORTED)
                return;

        tracker->asked_by = tracker_connection(tracker);
        tracker->is_unsupported = error != NULL;
}

static int on_listed(const void *reply, const Error *error, void *userdata) {
        ProgressFind *find = userdata;

        find->call = rpc_call_unref(find->call);
        find->is_old = find->candidate_rank == RANK_OLD;
        find->is_used = !is_before(find->candidate_created, find->started);
        find->manifest_digest = take_ptr(find->candidate);
        return find->manifest_digest ? progress_find_step(find) : progress_find_fail(find);
}

/* Writes the repository as a pattern that matches nothing else. */
static int quote_repository(const char *repository, char **ret) {
        char *quoted = malloc(3 * strlen(repository) + 1);
        char *to = quoted;

        if (!quoted)
                return -ENOMEM;

        for (const char *c = repository; *c; c++)
                to += *c == '.' ? sprintf(to, "[.]") : sprintf(to, "%c", *c);
        *to = '\0';
        *ret = quoted;
        return 0;
}

/* Filters manifests by the repository, later by the image's ID. */
static int progress_find_filter(const ProgressFind *find, char **ret) {
        cleanup(free_p) char *repository = NULL;
        int r;

        if (find->image_id)
                return asprintf(ret, "labels.\"" LABEL_CONFIG "\"==\"%s\"", find->image_id) < 0
                               ? -ENOMEM
                               : 0;

        r = quote_repository(find->repository, &repository);
        if (r < 0)
                return r;

        return asprintf(ret, "labels.\"%s\"~=\"(^|,)%s(,|$)\",labels.\"" LABEL_CONFIG "\"",
                        find->label, repository) < 0
                       ? -ENOMEM
                       : 0;
}

static int progress_find_list(ProgressFind *find, RpcClient *client) {
        cleanup(free_p) char *filter = NULL;
        int r;

        r = progress_find_filter(find, &filter);
        if (r < 0) {
                filter = NULL;
                return r;
        }

        find->candidate_rank = RANK_NONE;
        return content_list(client, &(const char *){ filter }, 1, on_manifests, on_listed, find,
                            &find->call);
}

static int progress_find_step(ProgressFind *find) {
        RpcClient *client = runtimes_client(find->progress->tracker->runtimes);

        if (!client)
                return progress_find_fail(find);
        if (find->call)
                return 0;
        if (!find->manifest_digest)
                return progress_find_list(find, client);
        if (!find->blobs)
                return content_read(client, find->manifest_digest, on_part, on_read, find,
                                    &find->call);

        return progress_find_check(find, client);
}

/* Whether the ingest fetches this blob. The name of an ingest ends with the digest:
 * "layer-sha256:...". */
static bool is_ingest_of(const ContentIngest *ingest, const char *digest) {
        size_t size = strlen(ingest->ref), suffix = strlen(digest);

        return size >= suffix && strcmp(ingest->ref + size - suffix, digest) == 0;
}

static const ContentIngest *ingest_of(const char *digest, const ContentIngests *ingests) {
        for (size_t i = 0; i < ingests->n_statuses; i++)
                if (is_ingest_of(ingests->statuses[i], digest))
                        return ingests->statuses[i];

        return NULL;
}

/* Returns the present bytes of a blob: none if it is neither on its way nor known to be
 * complete. */
static uint64_t bytes_of(const ManifestBlob *blob, const BlobState *state,
                         const ContentIngest *ingest) {
        uint64_t offset = ingest ? (uint64_t) ingest->offset : 0;

        return state->is_complete || offset > blob->size ? blob->size : offset;
}

static uint64_t now_usec(ProgressTracker *tracker) {
        return loop_now_usec(tracker->event);
}

static int compare_counted(const void *item, const void *key) {
        const Counted *counted = item;

        return strcmp(counted->digest, key);
}

static void counted_free(Counted *counted) {
        free(counted->digest);
        free(counted);
}

static int tracker_find_counted(ProgressTracker *tracker, const char *digest, Counted **ret) {
        Counted **items, *counted;
        size_t at;

        if (sorted_find(tracker->counted, tracker->n_counted, compare_counted, digest, &at)) {
                *ret = tracker->counted[at];
                return 0;
        }

        items = reallocarray(tracker->counted, tracker->n_counted + 1, sizeof(items[0]));
        if (!items)
                return -ENOMEM;

        tracker->counted = items;
        counted = calloc(1, sizeof(*counted));
        if (!counted)
                return -ENOMEM;

        counted->digest = strdup(digest);
        if (!counted->digest) {
                counted_free(counted);
                return -ENOMEM;
        }

        sorted_insert(tracker->counted, &tracker->n_counted, at, counted);
        *ret = counted;
        return 0;
}

/* Forgets counts older than all running pulls, which cannot have seen them. */
static void tracker_forget_counted(ProgressTracker *tracker) {
        uint64_t earliest = UINT64_MAX;

        for (const Progress *progress = tracker->items; progress; progress = progress->next)
                earliest = progress->begun_usec < earliest ? progress->begun_usec : earliest;

        for (size_t i = tracker->n_counted; i-- > 0;)
                if (tracker->counted[i]->at_usec < earliest) {
                        counted_free(tracker->counted[i]);
                        sorted_remove(tracker->counted, &tracker->n_counted, i);
                }
}

ProgressSupport progress_tracker_support(const ProgressTracker *tracker) {
        if (tracker->asked_by == 0 || tracker->asked_by != tracker_connection(tracker))
                return PROGRESS_UNKNOWN;

        return tracker->is_unsupported ? PROGRESS_UNSUPPORTED : PROGRESS_SUPPORTED;
}

static bool tracker_is_blind(const ProgressTracker *tracker) {
        return progress_tracker_support(tracker) == PROGRESS_UNSUPPORTED;
}

/* Bytes without a manifest may belong to a pull whose manifest is not found yet: as long as any
 * arrive, or once they have arrived and no download is left, it is not stalled. */
static bool progress_may_be_stalled(const Progress *progress) {
        const ProgressTracker *tracker = progress->tracker;

        if (tracker->stall_usec == 0 || progress->is_stalled || progress->on_counted ||
            tracker_is_blind(tracker))
                return false;
        if (progress->report.step == IMAGE_STEP_UNPACKING)
                return false;

        return progress_find_is_done(&progress->find) || !progress->was_active ||
               tracker->n_strays > 0;
}

static int progress_check_stall(Progress *progress) {
        if (!progress_may_be_stalled(progress) ||
            progress->silent_usec < progress->tracker->stall_usec)
                return 0;

        progress->is_stalled = true;
        return progress->on_stalled(progress->userdata);
}

/* Whether the pull may wait for containerd: release 2 downloads three layers at a time, of all
 * pulls together. Later layers wait with empty ingests. */
static bool progress_may_be_queued(const Progress *progress) {
        return !progress->has_begun && progress->tracker->n_ingests > DOWNLOADS_AT_ONCE;
}

/*
 * containerd writes a layer in pieces of 1 MiB, and shows no byte of a piece before the piece is complete.
 * Layers that share a line fill their pieces at the same time, so that each layer makes the wait for the next
 * visible byte longer: the silence is divided by their number. A pull that waits for its turn is behind layers
 * of other pulls: their bytes count as its own.
 *
 * A store that does not answer proves no silence: only its answers count.
 */
static void progress_note_silence(Progress *progress, uint64_t since_usec, uint64_t now) {
        const ProgressTracker *tracker = progress->tracker;
        uint64_t from = since_usec > progress->begun_usec ? since_usec : progress->begun_usec;
        bool may_be_queued = progress_may_be_queued(progress);
        size_t n_sharing = progress->n_ingests > 1 ? progress->n_ingests : 1;

        if (may_be_queued && n_sharing < DOWNLOADS_AT_ONCE)
                n_sharing = DOWNLOADS_AT_ONCE;
        progress->silent_usec += (now - from) / n_sharing;
        if (may_be_queued && (tracker->is_active || tracker->bytes != progress->seen_bytes))
                progress->silent_usec = 0;
        progress->seen_bytes = tracker->bytes;
}

static struct timespec began_at(const ContentIngest *ingest) {
        struct timespec began = { 0 };

        if (!ingest)
                (void) clock_gettime(CLOCK_REALTIME, &began);
        else if (ingest->started_at)
                began = (struct timespec){ .tv_sec = ingest->started_at->seconds,
                                           .tv_nsec = ingest->started_at->nanos };
        return began;
}

/* Counts the new bytes of a blob for this pull, unless another pull has counted them. */
static int progress_add_fetched(Progress *progress, const char *digest, uint64_t now,
                                const ContentIngest *ingest, uint64_t *bytes_fetched) {
        ProgressTracker *tracker = progress->tracker;
        struct timespec began = began_at(ingest);
        Counted *counted;
        int r;

        r = tracker_find_counted(tracker, digest, &counted);
        if (r < 0)
                return r;

        if (counted->at_usec == 0 && is_before(began, progress->find.started))
                counted->bytes = now; /* bytes that an earlier pull has left */
        else if (ingest && is_before(counted->began, began))
                counted->bytes = 0; /* the runtime has started the blob again */
        if (now > counted->bytes) {
                *bytes_fetched += now - counted->bytes;
                tracker->bytes += now - counted->bytes;
                counted->bytes = now;
        }
        counted->began = is_before(counted->began, began) ? began : counted->began;
        counted->at_usec = now_usec(tracker);
        return 0;
}

static int progress_add_blob(Progress *progress, size_t i, const ContentIngests *ingests,
                             ProgressReport *report, uint64_t *arrived) {
        const ManifestBlob *blob = &progress->find.manifest.blobs[i];
        BlobState *state = &progress->find.blobs[i];
        const ContentIngest *ingest;
        uint64_t now;

        if (state->was_there)
                return 0;

        ingest = state->is_complete ? NULL : ingest_of(blob->digest, ingests);
        progress->n_ingests += ingest != NULL;
        progress->has_begun = progress->has_begun || (ingest && ingest->offset > 0);
        now = bytes_of(blob, state, ingest);
        state->most = now > state->most ? now : state->most;
        *arrived += now;
        report->bytes_done += state->most; /* the report never goes back */
        report->bytes_total += blob->size;
        if (now == 0)
                return 0;

        return progress_add_fetched(progress, blob->digest, now, ingest, &report->bytes_fetched);
}

/* Returns the step of the pull. Layers may not be fetched at all, if they were unpacked before or
 * the snapshotter fetches them on demand, so ingests show whether a download runs. Blobs from
 * before the pull show nothing: the registry may not have answered yet. */
static ImageStep progress_step(const Progress *progress) {
        const ProgressFind *find = &progress->find;
        bool has_config = find->blobs[MANIFEST_CONFIG].is_complete;

        if (!find->is_used && progress->n_ingests == 0)
                return IMAGE_STEP_RESOLVING;
        if (is_all_complete(find) || (has_config && progress->n_quiet >= QUIET_POLLS))
                return IMAGE_STEP_UNPACKING;

        return IMAGE_STEP_DOWNLOADING;
}

/* Whether a pull that began earlier fetches this blob. */
static bool is_awaited_by_older(const Progress *progress, const char *digest) {
        for (const Progress *older = progress->next; older; older = older->next) {
                size_t blob = older->find.blobs ? find_blob(&older->find, digest) : 0;

                if (older->report.bytes_needed > 0 && blob < older->find.manifest.n_blobs &&
                    !older->find.blobs[blob].is_complete)
                        return true;
        }

        return false;
}

/* Counts only blobs that certainly will be fetched: see the header. */
static uint64_t progress_needed(const Progress *progress, const ContentIngests *ingests) {
        const ProgressFind *find = &progress->find;
        bool is_fetched = false;
        uint64_t needed = 0;

        for (size_t i = MANIFEST_CONFIG + 1; find->is_leased && i < find->manifest.n_blobs; i++) {
                const ManifestBlob *blob = &find->manifest.blobs[i];
                const BlobState *state = &find->blobs[i];
                const ContentIngest *ingest = ingest_of(blob->digest, ingests);

                is_fetched |= ingest || (state->is_complete && !state->was_there);
                if (is_fetched && !is_awaited_by_older(progress, blob->digest))
                        needed += blob->size - bytes_of(blob, state, ingest);
        }

        return needed;
}

static int progress_compute(Progress *progress, const ContentIngests *ingests,
                            ProgressReport *ret) {
        ProgressReport report = { .step = IMAGE_STEP_RESOLVING };
        uint64_t arrived = 0;
        int r;

        progress->n_ingests = 0;
        progress->has_begun = false;
        report.bytes_fetched = progress->report.bytes_fetched;
        if (!progress_find_is_done(&progress->find)) {
                *ret = report;
                return 0;
        }

        for (size_t i = 0; i < progress->find.manifest.n_blobs; i++) {
                r = progress_add_blob(progress, i, ingests, &report, &arrived);
                if (r < 0)
                        return r;
        }

        progress->n_quiet = progress->n_ingests > 0 ? 0 : progress->n_quiet + 1;
        report.step = progress_step(progress);
        report.bytes_needed = progress_needed(progress, ingests);
        if (arrived != progress->arrived)
                progress->silent_usec = 0;
        progress->arrived = arrived;
        *ret = report;
        return 0;
}

static int progress_update(Progress *progress, const ContentIngests *ingests) {
        const ProgressReport *old = &progress->report;
        ProgressReport report;
        int r;

        r = progress_compute(progress, ingests, &report);
        if (r < 0)
                return r;

        /* The manifest is another pull's, or uncertain: an old image may lack a blob as well. */
        if (progress_find_is_done(&progress->find) && report.step == IMAGE_STEP_RESOLVING) {
                progress_find_forget(&progress->find);
                report.bytes_done = report.bytes_total = 0;
        }

        if (!progress_find_is_done(&progress->find) && progress->tracker->is_active) {
                progress->was_active = true;
                progress->silent_usec = 0;
        }
        if (report.step == old->step && report.bytes_done == old->bytes_done &&
            report.bytes_total == old->bytes_total && report.bytes_fetched == old->bytes_fetched &&
            report.bytes_needed == old->bytes_needed)
                return 0;

        progress->silent_usec = 0;
        progress->report = report;
        return progress->on_changed(&report, progress->userdata);
}

static int progress_report_counted(Progress *progress) {
        ProgressReport report;
        int r;

        progress->find.is_checked = true;
        r = progress_compute(progress, &(ContentIngests){ .n_statuses = 0 }, &report);
        if (r < 0)
                return r;

        return progress->on_counted(&report, progress->userdata);
}

static bool tracker_has_owner(const ProgressTracker *tracker, const ContentIngest *ingest) {
        for (const Progress *progress = tracker->items; progress; progress = progress->next)
                for (size_t i = 0; i < progress->find.manifest.n_blobs; i++)
                        if (is_ingest_of(ingest, progress->find.manifest.blobs[i].digest))
                                return true;

        return false;
}

static void tracker_sum_up(ProgressTracker *tracker, const ContentIngests *ingests) {
        uint64_t offsets = 0;

        tracker->n_ingests = ingests->n_statuses;
        tracker->n_strays = 0;
        for (size_t i = 0; i < ingests->n_statuses; i++) {
                if (tracker_has_owner(tracker, ingests->statuses[i]))
                        continue;

                offsets += (uint64_t) ingests->statuses[i]->offset;
                tracker->n_strays++;
        }

        tracker->is_active = offsets != tracker->offsets;
        tracker->offsets = offsets;
}

static void claim_done(Claim *claim) {
        free(take_ptr(claim->manifest));
        free(take_ptr(claim->reference));
}

/* A claim outlives its pull for a while. */
static int tracker_keep_claim(ProgressTracker *tracker, const char *manifest,
                              const char *reference) {
        Claim *claim = &tracker->claims[tracker->next_claim];

        claim_done(claim);
        claim->manifest = strdup(manifest);
        claim->reference = strdup(reference);
        tracker->next_claim = (tracker->next_claim + 1) % CLAIMS_MAX;
        return claim->manifest && claim->reference ? 0 : -ENOMEM;
}

int progress_tracker_claim(ProgressTracker *tracker, const ImageRef *ref, const char *manifest) {
        cleanup(free_p) char *reference = NULL;
        int r;

        r = image_ref_canonical_reference(ref, &reference);
        if (r < 0)
                return r;

        /* A progress that is being counted found its manifest by the config. */
        for (Progress *other = tracker->items; other; other = other->next)
                if (!other->on_counted &&
                    claims_other(manifest, reference, other->find.manifest_digest,
                                 other->reference))
                        progress_find_forget(&other->find);

        return tracker_keep_claim(tracker, manifest, reference);
}

/* Tells the pulls that began before the agent knew that the runtime shows no bytes. */
static int tracker_report_blindness(ProgressTracker *tracker) {
        Progress *next;
        int r = 0;

        for (Progress *progress = tracker->items; r >= 0 && progress; progress = next) {
                next = progress->next;
                if (!progress->on_counted)
                        r = progress->on_changed(NULL, progress->userdata);
        }

        return r;
}

static int on_ingests(const void *reply, const Error *error, void *userdata) {
        ProgressTracker *tracker = userdata;
        const ContentIngests *ingests = reply;
        uint64_t since_usec = tracker->answered_usec;
        Progress *next;
        int r;

        tracker->call = rpc_call_unref(tracker->call);
        tracker_note_answer(tracker, error);
        if (error)
                return tracker_is_blind(tracker) ? tracker_report_blindness(tracker) : 0;

        tracker->answered_usec = now_usec(tracker);
        tracker_sum_up(tracker, ingests);
        for (Progress *progress = tracker->items; progress; progress = next) {
                next = progress->next; /* the callback may end this one, not another */
                if (progress->on_counted)
                        continue;

                r = progress_find_step(&progress->find);
                if (r < 0)
                        return r;

                progress_note_silence(progress, since_usec, tracker->answered_usec);
                r = progress_update(progress, ingests);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int tracker_poll_later(ProgressTracker *tracker);

static int tracker_ask(ProgressTracker *tracker) {
        RpcClient *client = runtimes_client(tracker->runtimes);

        if (!tracker->items || !client || tracker->call || tracker_is_blind(tracker))
                return 0;

        return content_list_ingests(client, on_ingests, tracker, &tracker->call);
}

static int on_poll(void *userdata) {
        ProgressTracker *tracker = userdata;
        Progress *next;
        int r;

        for (Progress *progress = tracker->items; progress; progress = next) {
                next = progress->next;
                r = progress_check_stall(progress);
                if (r < 0)
                        return r;
        }

        r = tracker_ask(tracker);
        return r < 0 ? r : tracker_poll_later(tracker);
}

/* Polls only while images are pulled from a runtime that has a content store. */
static int tracker_poll_later(ProgressTracker *tracker) {
        timer_stop(&tracker->poll);
        if (!tracker->items || tracker_is_blind(tracker))
                return 0;

        return timer_start(&tracker->poll, POLL_USEC);
}

int progress_tracker_runtime_changed(ProgressTracker *tracker) {
        RpcClient *client = runtimes_client(tracker->runtimes);

        if (!client || tracker->call || progress_tracker_support(tracker) != PROGRESS_UNKNOWN)
                return 0;

        return content_list_ingests(client, on_ingests, tracker, &tracker->call);
}

int progress_tracker_new(sd_event *event, const Runtimes *runtimes, uint64_t stall_usec,
                         ProgressTracker **ret) {
        ProgressTracker *tracker;

        tracker = calloc(1, sizeof(*tracker));
        if (!tracker)
                return -ENOMEM;

        tracker->event = event;
        timer_init(&tracker->poll, event, POLL_USEC / 4, on_poll, tracker);
        tracker->runtimes = runtimes;
        tracker->stall_usec = stall_usec;
        *ret = tracker;
        return 0;
}

ProgressTracker *progress_tracker_free(ProgressTracker *tracker) {
        if (!tracker)
                return NULL;

        timer_done(&tracker->poll);
        rpc_call_unref(tracker->call);
        for (size_t i = 0; i < CLAIMS_MAX; i++)
                claim_done(&tracker->claims[i]);
        tracker_forget_counted(tracker);
        free(tracker->counted);
        free(tracker);
        return NULL;
}

void progress_tracker_set_stall(ProgressTracker *tracker, uint64_t stall_usec) {
        tracker->stall_usec = stall_usec;
}

uint64_t progress_tracker_bytes(const ProgressTracker *tracker) {
        return tracker->bytes;
}

int progress_begin(ProgressTracker *tracker, const ImageRef *ref, const char *lease_id,
                   ProgressChanged on_changed, ProgressStalled on_stalled, void *userdata,
                   Progress **ret) {

        cleanup(progress_end_p) Progress *progress = NULL;
        int r;

        progress = calloc(1, sizeof(*progress));
        if (!progress)
                return -ENOMEM;

        progress->tracker = tracker;
        progress->on_changed = on_changed;
        progress->on_stalled = on_stalled;
        progress->userdata = userdata;
        progress->begun_usec = now_usec(tracker);
        progress->report.step = IMAGE_STEP_RESOLVING;
        list_prepend(&tracker->items, progress);

        r = image_ref_canonical_reference(ref, &progress->reference);
        if (r < 0)
                return r;

        r = text_copy(lease_id, &progress->lease_id);
        if (r < 0)
                return r;

        progress->find.progress = progress;
        r = progress_find_init(&progress->find, ref);
        if (r < 0)
                return r;

        if (!timer_is_running(&tracker->poll)) {
                r = tracker_poll_later(tracker);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(progress);
        return 0;
}

static bool has_blob(const ProgressFind *find, const char *digest) {
        return find->blobs && find_blob(find, digest) < find->manifest.n_blobs;
}

int progress_count(Progress *progress, const char *image_id, ProgressCounted on_counted) {
        ProgressFind *find = &progress->find;
        RpcClient *client = runtimes_client(progress->tracker->runtimes);
        int r;

        progress->on_counted = on_counted;
        find->call = rpc_call_unref(find->call);
        if (!client || tracker_is_blind(progress->tracker))
                return 0;

        find->image_id = strdup(image_id);
        if (!find->image_id)
                return -ENOMEM;

        if (!has_blob(find, image_id))
                progress_find_forget(find);
        r = progress_find_step(find);
        return r < 0 ? r : 1;
}

Progress *progress_end(Progress *progress) {
        if (!progress)
                return NULL;

        list_remove(&progress->tracker->items, progress);
        tracker_forget_counted(progress->tracker);
        progress_find_done(&progress->find);
        free(progress->reference);
        free(progress->lease_id);
        free(progress);
        return NULL;
}
