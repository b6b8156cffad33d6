/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/cleanup.h"
#include "agent/base/list.h"
#include "agent/base/loop.h"
#include "agent/image/progress-find.h"
#include "cri/content.h"

#define POLL_USEC ((uint64_t) 100 * 1000)

/* Of pulls that have ended; more than run at a time with the default settings. */
#define CLAIMS_MAX 16

typedef struct Claim {
        char *manifest;
        char *reference;
} Claim;

struct ProgressTracker {
        sd_event *event;
        const Runtimes *runtimes;
        uint64_t stall_usec;
        Progress *items;

        sd_event_source *timer;
        RpcCall *call;
        uint64_t answered_usec;  /* when the store was last seen */
        unsigned unsupported_by; /* the connection that said so, counted from 1 */
        uint64_t n_ingests;
        uint64_t offsets; /* of all ingests at the last look */
        bool is_active;   /* some ingest has grown since the look before */
        uint64_t bytes;
        Claim claims[CLAIMS_MAX];
        size_t next_claim;
};

struct Progress {
        LIST_LINKS(Progress);
        ProgressTracker *tracker;
        ProgressChanged on_changed;
        ProgressStalled on_stalled;
        void *userdata;

        char *reference;
        ProgressFind find;
        ProgressReport report;
        uint64_t arrived; /* as the store says; it may go back, unlike what is reported */
        uint64_t changed_usec;
        bool was_active;
        bool is_stalled;
};

DEFINE_CLEANUP(Progress *, progress_end)

static uint64_t now_usec(ProgressTracker *tracker) {
        uint64_t usec = 0;

        (void) sd_event_now(tracker->event, CLOCK_MONOTONIC, &usec);
        return usec;
}

static unsigned tracker_connection(const ProgressTracker *tracker) {
        Runtime *runtime = runtimes_chosen(tracker->runtimes);

        return runtime ? runtime_n_connects(runtime) : 0;
}

bool progress_tracker_is_supported(const ProgressTracker *tracker) {
        return tracker->unsupported_by == 0 ||
               tracker->unsupported_by != tracker_connection(tracker);
}

/* Bytes of a pull whose manifest is not found yet are somebody's bytes: as long as any arrive, or
 * after they have arrived and nothing is left to download, it is not stalled. */
static bool progress_may_be_stalled(const Progress *progress) {
        const ProgressTracker *tracker = progress->tracker;

        if (tracker->stall_usec == 0 || progress->is_stalled ||
            !progress_tracker_is_supported(tracker))
                return false;
        if (progress->report.step == IMAGE_STEP_UNPACKING)
                return false;

        return progress->report.bytes_total > 0 || !progress->was_active || tracker->n_ingests > 0;
}

/* A store that does not answer says nothing about bytes: only what was seen counts. */
static int progress_check_stall(Progress *progress) {
        const ProgressTracker *tracker = progress->tracker;

        if (!progress_may_be_stalled(progress) ||
            tracker->answered_usec < progress->changed_usec + tracker->stall_usec)
                return 0;

        progress->is_stalled = true;
        return progress->on_stalled(progress->userdata);
}

static ProgressReport progress_compute(Progress *progress, const ContentIngests *ingests) {
        ProgressReport report = { .step = IMAGE_STEP_RESOLVING };
        uint64_t arrived;
        bool is_complete;

        if (!progress_find_is_done(&progress->find))
                return report;

        report.bytes_total = progress->find.manifest.size;
        arrived = progress_find_count(&progress->find, ingests, &is_complete);
        report.bytes_done = progress_find_most(&progress->find);
        report.step = is_complete ? IMAGE_STEP_UNPACKING : IMAGE_STEP_DOWNLOADING;
        if (arrived != progress->arrived)
                progress->changed_usec = now_usec(progress->tracker);
        progress->arrived = arrived;
        return report;
}

static int progress_look(Progress *progress, const ContentIngests *ingests, uint64_t now) {
        ProgressReport report = progress_compute(progress, ingests);
        const ProgressReport *old = &progress->report;
        bool is_unattributed = report.bytes_total == 0;

        if (is_unattributed && progress->tracker->is_active) {
                progress->was_active = true;
                progress->changed_usec = now;
        }
        if (report.step == old->step && report.bytes_done == old->bytes_done &&
            report.bytes_total == old->bytes_total)
                return 0;

        if (report.bytes_done > old->bytes_done)
                progress->tracker->bytes += report.bytes_done - old->bytes_done;
        progress->changed_usec = now;
        progress->report = report;
        return progress->on_changed(&report, progress->userdata);
}

static void tracker_sum_up(ProgressTracker *tracker, const ContentIngests *ingests) {
        uint64_t offsets = 0;

        for (size_t i = 0; i < ingests->n_statuses; i++)
                offsets += (uint64_t) ingests->statuses[i]->offset;

        tracker->is_active = offsets != tracker->offsets;
        tracker->offsets = offsets;
        tracker->n_ingests = ingests->n_statuses;
}

static bool claims_other(const char *manifest, const char *reference, const char *claimed,
                         const char *claimed_by) {
        return claimed && strcmp(claimed, manifest) == 0 && strcmp(claimed_by, reference) != 0;
}

/* Another pull has found this manifest to be its own. containerd's label names neither the port of
 * a registry nor a tag, so that several may come into question. */
static bool is_claimed(const char *manifest, void *userdata) {
        const Progress *progress = userdata;
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

        for (Progress *other = tracker->items; other; other = other->next)
                if (claims_other(manifest, reference, other->find.manifest_digest,
                                 other->reference))
                        progress_find_forget(&other->find);

        return tracker_keep_claim(tracker, manifest, reference);
}

static int on_ingests(const void *reply, const Error *error, void *userdata) {
        ProgressTracker *tracker = userdata;
        const ContentIngests *ingests = reply;
        Progress *next;
        int r;

        tracker->call = rpc_call_unref(tracker->call);
        if (error && error->kind == ERROR_UNSUPPORTED)
                tracker->unsupported_by = tracker_connection(tracker);
        if (error)
                return 0;

        tracker->answered_usec = now_usec(tracker);
        tracker_sum_up(tracker, ingests);
        for (Progress *progress = tracker->items; progress; progress = next) {
                next = progress->next; /* the callback may end this one, not another */
                r = progress_find_step(&progress->find);
                if (r < 0)
                        return r;

                r = progress_look(progress, ingests, now_usec(tracker));
                if (r < 0)
                        return r;
        }

        return 0;
}

static int tracker_poll_later(ProgressTracker *tracker);

static int on_poll(sd_event_source *source, uint64_t usec, void *userdata) {
        ProgressTracker *tracker = userdata;
        RpcClient *client = runtimes_client(tracker->runtimes);
        Progress *next;
        int r;

        for (Progress *progress = tracker->items; progress; progress = next) {
                next = progress->next;
                r = progress_check_stall(progress);
                if (r < 0)
                        return r;
        }

        if (tracker->items && client && !tracker->call && progress_tracker_is_supported(tracker)) {
                r = content_list_ingests(client, on_ingests, tracker, &tracker->call);
                if (r < 0)
                        return r;
        }

        return tracker_poll_later(tracker);
}

/* Polls only while somebody pulls from a runtime that can tell. */
static int tracker_poll_later(ProgressTracker *tracker) {
        tracker->timer = sd_event_source_disable_unref(tracker->timer);
        if (!tracker->items || !progress_tracker_is_supported(tracker))
                return 0;

        return loop_add_time_relative(tracker->event, &tracker->timer, CLOCK_MONOTONIC, POLL_USEC,
                                      POLL_USEC / 4, on_poll, tracker);
}

int progress_tracker_new(sd_event *event, const Runtimes *runtimes, uint64_t stall_usec,
                         ProgressTracker **ret) {
        ProgressTracker *tracker;

        tracker = calloc(1, sizeof(*tracker));
        if (!tracker)
                return -ENOMEM;

        tracker->event = event;
        tracker->runtimes = runtimes;
        tracker->stall_usec = stall_usec;
        *ret = tracker;
        return 0;
}

ProgressTracker *progress_tracker_free(ProgressTracker *tracker) {
        if (!tracker)
                return NULL;

        sd_event_source_disable_unref(tracker->timer);
        rpc_call_unref(tracker->call);
        for (size_t i = 0; i < CLAIMS_MAX; i++)
                claim_done(&tracker->claims[i]);
        free(tracker);
        return NULL;
}

void progress_tracker_set_stall(ProgressTracker *tracker, uint64_t stall_usec) {
        tracker->stall_usec = stall_usec;
}

void progress_tracker_add_bytes(ProgressTracker *tracker, uint64_t bytes) {
        tracker->bytes += bytes;
}

uint64_t progress_tracker_bytes(const ProgressTracker *tracker) {
        return tracker->bytes;
}

int progress_begin(ProgressTracker *tracker, const ImageRef *ref, ProgressChanged on_changed,
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
        progress->changed_usec = now_usec(tracker);
        progress->report.step = IMAGE_STEP_RESOLVING;
        list_prepend(&tracker->items, progress);

        r = image_ref_canonical_reference(ref, &progress->reference);
        if (r < 0)
                return r;

        progress->find.runtimes = tracker->runtimes;
        progress->find.is_claimed = is_claimed;
        progress->find.userdata = progress;
        r = progress_find_init(&progress->find, ref);
        if (r < 0)
                return r;

        if (!tracker->timer) {
                r = tracker_poll_later(tracker);
                if (r < 0)
                        return r;
        }

        *ret = take_ptr(progress);
        return 0;
}

Progress *progress_end(Progress *progress) {
        if (!progress)
                return NULL;

        list_remove(&progress->tracker->items, progress);
        progress_find_done(&progress->find);
        free(progress->reference);
        free(progress);
        return NULL;
}
