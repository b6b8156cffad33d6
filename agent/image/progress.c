/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/base/text.h"
#include "agent/image/fetched.h"
#include "agent/image/manifest-spec.h"
#include "cri/containerd.h"
#include "cri/types.h"

#define POLL_USEC ((uint64_t) 100 * 1000)
#define DOWNLOADS_AT_ONCE 3 /* layers that containerd fetches at a time by default */

/* Between two layers there may be an instant without an ingest, but not for so many polls. */
#define QUIET_POLLS 5

#define LINES_SIZE_MAX 8192 /* size of a text of many lines that come from the runtime */

/* containerd puts it on the manifest of an image, which alone refers to a config (see its
 * docs/garbage-collection.md). */
#define LABEL_CONFIG "containerd.io/gc.ref.content.config"

/* containerd puts "LABEL_SOURCE.REGISTRY=REPOSITORY,..." on what it fetches, a moment after LABEL_CONFIG. */
#define LABEL_SOURCE "containerd.io/distribution.source."
#define SOURCE_TRIES 5

/* State of one of the manifest's blobs. */
typedef struct BlobState {
        bool is_complete;
        bool was_there; /* before the pull began */
        uint64_t most;  /* most bytes ever present */
} BlobState;

/*
 * Finding the blobs of one pull in containerd's content store
 *
 * List what the pull's lease refers to → find the manifest in it → read the manifest → from then on ask
 * which of its blobs are complete. Each step is one call; none is started before the last one has
 * ended, and one that brought something is followed by the next at once.
 *
 * Once the runtime has pulled the image, the end of the last step is the end of the pull.
 */
typedef struct ProgressFind {
        Progress *progress; /* owner, which embeds this search */

        struct timespec started;
        RpcCall *call;

        char *manifest_digest; /* NULL until it is found */
        char *sources; /* repositories that it came from, "REGISTRY=REPOSITORY,...", one registry a line */
        char *digests; /* blobs of the lease when it was found: the manifest and its index, one a line */
        unsigned n_tries;   /* searches that brought nothing */
        bool has_ingests;   /* the lease refers to an ingest: something arrives */
        bool had_ingests;   /* an ingest was seen before the manifest was found */
        bool is_checked;    /* the manifest was found, and its blobs were checked at least once */
        bool is_unreadable; /* the manifest is none that can be counted: it is not read again */
        char *text;         /* text of the manifest, as far as it was read */
        size_t text_size;
        Manifest manifest;
        BlobState *blobs; /* states of the manifest's blobs */
} ProgressFind;

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
        uint64_t offsets; /* sum of their offsets at the last poll */
        bool is_active;   /* the sum has changed since the poll before */
        uint64_t bytes;
        Fetched fetched; /* blobs that came while any of the items ran */
};

struct Progress {
        LIST_LINKS(Progress);
        ProgressTracker *tracker;
        ProgressChanged on_changed;
        ProgressStalled on_stalled;
        ProgressCounted on_counted; /* NULL while the pull runs */
        void *userdata;

        char *lease_id;   /* ID of the lease; NULL: the pull shows nothing */
        bool is_followed; /* another process pulls: see progress_follow() */
        ProgressFind find;
        ProgressReport report;
        uint64_t arrived; /* present bytes in the store, which may go back, unlike the report */
        size_t n_ingests; /* current number of ingests of its blobs */
        bool has_begun;   /* the first byte of a blob has arrived */
        unsigned n_quiet; /* polls in a row without an ingest */
        uint64_t begun_usec;
        uint64_t
                silent_usec; /* since the last byte, divided among the ingests; see progress_note_silence() */
        bool is_stalled;
};

DEFINE_CLEANUP(Progress *, progress_end)

/* Makes the search start again. */
static void progress_find_forget(ProgressFind *find) {
        find->call = rpc_call_unref(find->call);
        manifest_done(&find->manifest);
        free(take_ptr(find->manifest_digest));
        free(take_ptr(find->sources));
        free(take_ptr(find->digests));
        free(take_ptr(find->text));
        free(take_ptr(find->blobs));
        find->text_size = 0;
        find->is_checked = false;
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

static int on_blobs(const void *message, void *userdata) {
        const ContentList *list = message;
        ProgressFind *find = userdata;

        for (size_t i = 0; i < list->n_info; i++) {
                size_t blob = find_blob(find, list->info[i]->digest);

                if (blob == find->manifest.n_blobs)
                        continue;

                find->blobs[blob].is_complete = true;
                find->blobs[blob].was_there =
                        time_is_before(created_at(list->info[i]), find->started);
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
        find->n_tries++;
        return progress->on_counted ? progress->on_counted(NULL, progress->userdata) : 0;
}

/* Reports the final count when the state of all blobs is known. */
static int progress_report_counted(Progress *progress);

/* Asks for the ingests of all pulls, if the runtime is there and they are not being asked for. */
static int tracker_ask(ProgressTracker *tracker);

static int on_checked(const void *reply, const Error *error, void *userdata) {
        ProgressFind *find = userdata;
        bool is_first = !find->is_checked;

        find->call = rpc_call_unref(find->call);
        if (find->progress->on_counted)
                return error ? progress_find_fail(find) : progress_report_counted(find->progress);
        if (error || !is_first)
                return 0;

        find->is_checked = true;
        return tracker_ask(find->progress->tracker); /* to stop a pull that is too large at once */
}

static int progress_find_check(ProgressFind *find, RpcClient *client) {
        cleanup(texts_free_p) char **filters = NULL;
        size_t n = 0;

        filters = calloc(find->manifest.n_blobs + 1, sizeof(filters[0]));
        if (!filters)
                return -ENOMEM;

        for (size_t i = 0; i < find->manifest.n_blobs; i++) {
                if (find->blobs[i].is_complete && !find->progress->on_counted)
                        continue;
                if (text_format(&filters[n], "digest==%s", find->manifest.blobs[i].digest) < 0)
                        return -ENOMEM;
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
        if (r < 0) {
                find->is_unreadable = !error;
                return progress_find_fail(find);
        }

        find->blobs = calloc(find->manifest.n_blobs + 1, sizeof(find->blobs[0]));
        if (!find->blobs)
                return -ENOMEM;

        return progress_find_step(find);
}

/* Adds a line to the text, unless it has become too large. */
static int add_line(char **text, const char *first, const char *between, const char *last) {
        char *longer;

        if (*text && strlen(*text) + strlen(first) + strlen(last) > LINES_SIZE_MAX)
                return 0;
        if (text_format(&longer, "%s%s%s%s\n", *text ?: "", first, between, last) < 0)
                return -ENOMEM;

        free(*text);
        *text = longer;
        return 0;
}

static int note_sources(ProgressFind *find, const ContentInfo *info) {
        const size_t prefix = strlen(LABEL_SOURCE);
        int r = 0;

        for (size_t i = 0; r >= 0 && i < info->n_labels; i++)
                if (strncmp(info->labels[i]->key, LABEL_SOURCE, prefix) == 0)
                        r = add_line(&find->sources, info->labels[i]->key + prefix, "=",
                                     info->labels[i]->value);
        return r;
}

static int on_manifests(const void *message, void *userdata) {
        const ContentList *list = message;
        ProgressFind *find = userdata;
        int r;

        if (find->manifest_digest || list->n_info == 0)
                return 0;

        r = note_sources(find, list->info[0]);
        if (r < 0 ||
            (find->progress->is_followed && !find->sources && find->n_tries < SOURCE_TRIES))
                return r;

        return text_copy(list->info[0]->digest, &find->manifest_digest);
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
        return find->manifest_digest ? progress_find_step(find) : progress_find_fail(find);
}

/* Lists the blobs of the lease that are manifests of an image. */
static int progress_find_list(ProgressFind *find, RpcClient *client, const Leased *leased) {
        cleanup(texts_free_p) char **filters = NULL;
        size_t n = 0;

        filters = calloc(leased->n_resources + 1, sizeof(filters[0]));
        if (!filters)
                return -ENOMEM;

        find->has_ingests = false;
        for (size_t i = 0; i < leased->n_resources; i++) {
                const LeasedResource *resource = leased->resources[i];

                find->has_ingests |= strcmp(resource->type, "ingests") == 0;
                if (strcmp(resource->type, "content") != 0)
                        continue;
                if (add_line(&find->digests, resource->id, "", "") < 0)
                        return -ENOMEM;
                if (text_format(&filters[n], "digest==%s,labels.\"" LABEL_CONFIG "\"",
                                resource->id) < 0)
                        return -ENOMEM;
                n++;
        }
        find->had_ingests |= find->has_ingests;
        if (n == 0)
                return progress_find_fail(find);

        return content_list(client, (const char *const *) filters, n, on_manifests, on_listed, find,
                            &find->call);
}

static int on_leased(const void *reply, const Error *error, void *userdata) {
        ProgressFind *find = userdata;
        RpcClient *client = runtimes_client(find->progress->tracker->runtimes);

        find->call = rpc_call_unref(find->call);
        return error || !client ? progress_find_fail(find)
                                : progress_find_list(find, client, reply);
}

static int progress_find_step(ProgressFind *find) {
        RpcClient *client = runtimes_client(find->progress->tracker->runtimes);

        if (!client || !find->progress->lease_id || find->is_unreadable)
                return progress_find_fail(find);
        if (find->call)
                return 0;
        if (!find->manifest_digest)
                return leases_list(client, find->progress->lease_id, on_leased, find, &find->call);
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

/* Forgets counts older than all running pulls, which cannot have seen them. */
static void tracker_forget_fetched(ProgressTracker *tracker) {
        uint64_t earliest = UINT64_MAX;

        for (const Progress *progress = tracker->items; progress; progress = progress->next)
                earliest = progress->begun_usec < earliest ? progress->begun_usec : earliest;

        fetched_forget(&tracker->fetched, earliest);
}

ProgressSupport progress_tracker_support(const ProgressTracker *tracker) {
        if (tracker->asked_by == 0 || tracker->asked_by != tracker_connection(tracker))
                return PROGRESS_UNKNOWN;

        return tracker->is_unsupported ? PROGRESS_UNSUPPORTED : PROGRESS_SUPPORTED;
}

static bool tracker_is_blind(const ProgressTracker *tracker) {
        return progress_tracker_support(tracker) == PROGRESS_UNSUPPORTED;
}

/* Without its manifest, a pull that has received something and has nothing on its way may be unpacking. */
static bool progress_may_be_stalled(const Progress *progress) {
        const ProgressTracker *tracker = progress->tracker;
        const ProgressFind *find = &progress->find;

        if (tracker->stall_usec == 0 || progress->is_stalled || progress->on_counted ||
            !progress->lease_id || tracker_is_blind(tracker))
                return false;
        if (progress->report.step == IMAGE_STEP_UNPACKING)
                return false;

        return find->is_checked || !find->had_ingests || find->has_ingests;
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
        if (may_be_queued && tracker->is_active)
                progress->silent_usec = 0;
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
        const FetchedBlob blob = {
                .digest = digest,
                .bytes = now,
                .began = began_at(ingest),
                .is_arriving = ingest,
        };
        uint64_t added;
        int r;

        r = fetched_add(&tracker->fetched, &blob, progress->find.started,
                        loop_now_usec(tracker->event), &added);
        if (r < 0)
                return r;

        *bytes_fetched += added;
        tracker->bytes += added;
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
 * the snapshotter fetches them on demand, so ingests show whether a download runs. */
static ImageStep progress_step(const Progress *progress) {
        const ProgressFind *find = &progress->find;
        bool has_config = find->blobs[MANIFEST_CONFIG].is_complete;

        if (is_all_complete(find) || (has_config && progress->n_quiet >= QUIET_POLLS))
                return IMAGE_STEP_UNPACKING;

        return IMAGE_STEP_DOWNLOADING;
}

/* Whether a pull that began earlier fetches this blob. */
static bool is_awaited_by_older(const Progress *progress, const char *digest) {
        for (const Progress *older = progress->next; older; older = older->next) {
                size_t blob;

                if (!older->find.blobs || older->report.bytes_needed == 0)
                        continue;
                blob = find_blob(&older->find, digest);
                if (blob < older->find.manifest.n_blobs && !older->find.blobs[blob].is_complete)
                        return true;
        }

        return false;
}

/* Counts only blobs that certainly will be fetched: see the header. */
static uint64_t progress_needed(const Progress *progress, const ContentIngests *ingests) {
        const ProgressFind *find = &progress->find;
        bool is_fetched = false;
        uint64_t needed = 0;

        for (size_t i = MANIFEST_CONFIG + 1; i < find->manifest.n_blobs; i++) {
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
        if (!progress->find.is_checked) {
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

        if (!progress->find.is_checked && progress->find.has_ingests &&
            progress->tracker->is_active)
                progress->silent_usec = 0;
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

static void tracker_sum_up(ProgressTracker *tracker, const ContentIngests *ingests) {
        uint64_t offsets = 0;

        for (size_t i = 0; i < ingests->n_statuses; i++)
                offsets += (uint64_t) ingests->statuses[i]->offset;

        tracker->n_ingests = ingests->n_statuses;
        tracker->is_active = offsets != tracker->offsets;
        tracker->offsets = offsets;
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

        tracker->answered_usec = loop_now_usec(tracker->event);
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
        fetched_done(&tracker->fetched);
        free(tracker);
        return NULL;
}

void progress_tracker_set_stall(ProgressTracker *tracker, uint64_t stall_usec) {
        tracker->stall_usec = stall_usec;
}

uint64_t progress_tracker_bytes(const ProgressTracker *tracker) {
        return tracker->bytes;
}

int progress_begin(ProgressTracker *tracker, const char *lease_id, ProgressChanged on_changed,
                   ProgressStalled on_stalled, void *userdata, Progress **ret) {

        cleanup(progress_end_p) Progress *progress = NULL;
        int r;

        progress = calloc(1, sizeof(*progress));
        if (!progress)
                return -ENOMEM;

        progress->tracker = tracker;
        progress->on_changed = on_changed;
        progress->on_stalled = on_stalled;
        progress->userdata = userdata;
        progress->begun_usec = loop_now_usec(tracker->event);
        progress->report.step = IMAGE_STEP_RESOLVING;
        list_prepend(&tracker->items, progress);

        r = text_copy(lease_id, &progress->lease_id);
        if (r < 0)
                return r;

        progress->find.progress = progress;
        (void) clock_gettime(CLOCK_REALTIME, &progress->find.started);
        if (!timer_is_running(&tracker->poll)) {
                r = tracker_poll_later(tracker);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(progress);
        return 0;
}

int progress_follow(ProgressTracker *tracker, const char *lease_id, struct timespec began,
                    ProgressChanged on_changed, void *userdata, Progress **ret) {
        int r;

        r = progress_begin(tracker, lease_id, on_changed, /* on_stalled= */ NULL, userdata, ret);
        if (r < 0)
                return r;

        (*ret)->is_followed = true;
        (*ret)->find.started = began;
        return 0;
}

const ProgressReport *progress_report(const Progress *progress) {
        return &progress->report;
}

bool progress_is_settled(const Progress *progress) {
        return progress->report.step != IMAGE_STEP_RESOLVING || progress->find.n_tries > 0;
}

PulledManifest progress_manifest(const Progress *progress) {
        const ProgressFind *find = &progress->find;

        return find->is_checked ? (PulledManifest){ .digest = find->manifest_digest,
                                                    .sources = find->sources ?: "",
                                                    .digests = find->digests ?: "" }
                                : (PulledManifest){ .digest = NULL };
}

int progress_count(Progress *progress, ProgressCounted on_counted) {
        ProgressFind *find = &progress->find;
        int r;

        progress->on_counted = on_counted;
        find->call = rpc_call_unref(find->call);
        if (!find->blobs) /* a part of the manifest may have been read */
                progress_find_forget(find);
        if (!runtimes_client(progress->tracker->runtimes) || !progress->lease_id ||
            tracker_is_blind(progress->tracker))
                return 0;

        r = progress_find_step(find);
        return r < 0 ? r : 1;
}

Progress *progress_end(Progress *progress) {
        if (!progress)
                return NULL;

        list_remove(&progress->tracker->items, progress);
        tracker_forget_fetched(progress->tracker);
        progress_find_forget(&progress->find);
        free(progress->lease_id);
        free(progress);
        return NULL;
}
