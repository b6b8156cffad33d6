/* SPDX-License-Identifier: Apache-2.0 */

/*
 * One image, its requests and its syncs
 *
 * The pulls are played by this file, which has the functions of pull.h in place of pull.c: they end
 * when a test says so.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/cleanup.h"
#include "agent/image/desired-image.h"
#include "agent/image/image.h"

#define NOW 1769903999
#define ID "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"

struct Pull {
        ImageStatus status;
        DesiredImage desired;
        char owners[64]; /* "a b ", of those that it was started for and that joined */
        char reference[64];
        bool is_started;
        PullChanged on_changed;
        void *userdata;
};

/* The pulls of the test that runs. */
static struct {
        Pull *last;
        unsigned n_made;
        unsigned n_freed;
        unsigned n_runtime_changes;
} pulls;

int pull_new(const PullContext *context, const DesiredImage *desired, const ImageRef *ref,
             const char *owner, PullChanged on_changed, void *userdata, Pull **ret) {
        cleanup(free_p) char *reference = NULL;
        Pull *pull = calloc(1, sizeof(*pull));

        assert_int_equal(desired_image_copy(desired, &pull->desired), 0);
        assert_int_equal(image_ref_canonical_reference(ref, &reference), 0);
        snprintf(pull->reference, sizeof(pull->reference), "%s", reference);
        snprintf(pull->owners, sizeof(pull->owners), "%s ", owner);
        pull->status.version = desired->version;
        pull->on_changed = on_changed;
        pull->userdata = userdata;
        pulls.n_made++;
        pulls.last = pull;
        *ret = pull;
        return 0;
}

Pull *pull_free(Pull *pull) {
        if (!pull)
                return NULL;

        pulls.n_freed++;
        if (pulls.last == pull)
                pulls.last = NULL;
        image_status_done(&pull->status);
        desired_image_done(&pull->desired);
        free(pull);
        return NULL;
}

int pull_start(Pull *pull) {
        pull->is_started = true;
        return 0;
}

int pull_join(Pull *pull, const char *owner) {
        if (strlen(pull->owners) + strlen(owner) + 2 < sizeof(pull->owners))
                sprintf(pull->owners + strlen(pull->owners), "%s ", owner);
        return 0;
}

bool pull_covers(const Pull *pull, const DesiredImage *desired) {
        return desired->version <= pull->desired.version;
}

bool pull_fails_for(const Pull *pull, const DesiredImage *desired, bool is_late) {
        return desired_image_is_within(desired, &pull->desired) && !is_late;
}

int pulls_serve(const PullContext *context) {
        fail();
        return 0;
}

int pull_on_runtime_changed(Pull *pull) {
        pulls.n_runtime_changes++;
        return 0;
}

const ImageStatus *pull_status(const Pull *pull) {
        return &pull->status;
}

static PullKeysAsk *drop(PullKeysAsk *ask) {
        return NULL;
}

typedef struct Fixture {
        Image *image;
        unsigned n_dirty;
} Fixture;

static void on_dirty(Image *image, void *userdata) {
        Fixture *fixture = userdata;

        fixture->n_dirty++;
}

static void fixture_init_named(Fixture *fixture, const char *name, const char *tag) {
        *fixture = (Fixture){ .image = NULL };
        memset(&pulls, 0, sizeof(pulls));
        assert_int_equal(image_new(name, tag, on_dirty, fixture, &fixture->image), 0);
}

static void fixture_init(Fixture *fixture) {
        fixture_init_named(fixture, "nginx", "1.25");
}

static void fixture_done(Fixture *fixture) {
        fixture->image = image_free(fixture->image);
        assert_int_equal(pulls.n_made, pulls.n_freed);
}

/* One owner requests the image under some name; ttl_sec as in a desired image. */
static void set_request(Fixture *fixture, const char *owner, const char *name, int64_t version,
                        int64_t ttl_sec, bool is_transient) {
        cleanup(desired_image_done) DesiredImage desired;

        assert_int_equal(desired_image_init(&desired, name, "1.25"), 0);
        desired.version = version;
        desired.ttl_sec = ttl_sec;
        assert_int_equal(image_set_request(fixture->image, owner, &desired, is_transient), 0);
}

/* The same with one more second or attempt, or a secret. */
typedef enum More { MORE_NOTHING, MORE_TIMEOUT, MORE_ATTEMPTS, MORE_DEADLINE, MORE_SECRET } More;

static void set_more(Fixture *fixture, const char *owner, More more) {
        cleanup(desired_image_done) DesiredImage desired;

        assert_int_equal(desired_image_init(&desired, "nginx", "1.25"), 0);
        desired.active_deadline_sec = 60 + (more == MORE_DEADLINE);
        desired.timeout_sec += more == MORE_TIMEOUT;
        desired.backoff_limit += more == MORE_ATTEMPTS;
        if (more == MORE_SECRET)
                assert_int_equal(desired_image_add_secret(&desired, "team", "key"), 0);
        assert_int_equal(image_set_request(fixture->image, owner, &desired, false), 0);
}

static void set_fault(Fixture *fixture, const char *owner, int64_t version, const char *fault) {
        cleanup(desired_image_done) DesiredImage desired;

        assert_int_equal(desired_image_init(&desired, "nginx", "1.25"), 0);
        desired.version = version;
        desired.fault = strdup(fault);
        assert_int_equal(image_set_request(fixture->image, owner, &desired, false), 0);
}

static void request(Fixture *fixture, const char *owner, int64_t version) {
        set_request(fixture, owner, "nginx", version, DESIRED_IMAGE_NO_LIMIT, false);
}

static void sweep(Fixture *fixture, const char *owner) {
        assert_int_equal(image_sweep_requests(fixture->image, owner), 0);
}

static void reconcile(Fixture *fixture) {
        static const PullContext context = { .keys.drop = drop };

        assert_int_equal(image_reconcile(fixture->image, &context), 0);
}

/* The pull that runs ends, and the image finds that out. */
static void finish(Fixture *fixture, ImagePhase phase) {
        assert_non_null(pulls.last);
        pulls.last->status.phase = phase;
        pulls.last->status.completed_at = NOW;
        pulls.last->on_changed(pulls.last, pulls.last->userdata);
        reconcile(fixture);
        reconcile(fixture);
}

static void assert_requests(const Fixture *fixture, const char *expected) {
        char text[128] = "";

        for (const ImageRequest *w = image_requests(fixture->image); w; w = w->next)
                sprintf(text + strlen(text), "%s:%s%s%s ", w->owner, w->is_syncing ? "syncing" : "",
                        w->is_done ? "done" : "", w->is_expired ? ",expired" : "");
        assert_string_equal(text, expected);
}

static void assert_outcome(const Fixture *fixture, const char *owner, const char *name,
                           const char *phase) {
        const ImageStatus *status = image_status_for(fixture->image, owner, name);

        assert_string_equal(status ? image_phase_to_string(status->phase) : "none", phase);
}

/* Those that have an outcome since the last time. */
static void assert_results(const Fixture *fixture, const char *expected) {
        char text[128] = "";
        const ImageRequest *w;

        while ((w = image_take_result(fixture->image)))
                sprintf(text + strlen(text), "%s ", w->owner);
        assert_string_equal(text, expected);
}

/* clang-format off */
static const struct Name {
        const char *title;
        const char *name, *tag;
        const char *key, *familiar;
} names[] = {
        { "a short name",       "nginx", "1.25",                      "docker.io/library/nginx:1.25", "nginx" },
        { "the whole name",     "docker.io/library/nginx", "1.25",    "docker.io/library/nginx:1.25", "nginx" },
        { "another registry",   "reg.example:5000/a/b", "x",          "reg.example:5000/a/b:x", "reg.example:5000/a/b" },
        { "a digest",           "nginx", ID,                          "docker.io/library/nginx@" ID, "nginx" },
        { "a malformed name",   "NGINX", "1.25",                      "NGINX 1.25", "NGINX" },
        { "a malformed tag",    "nginx", "a b",                       "nginx a b", "nginx" },
};
/* clang-format on */

#define N_NAMES (sizeof(names) / sizeof(names[0]))

static void test_name(void **state) {
        const struct Name *row = *state;
        cleanup(fixture_done) Fixture fixture;
        cleanup(free_p) char *key = NULL;

        fixture_init_named(&fixture, row->name, row->tag);
        assert_string_equal(image_key(fixture.image), row->key);
        assert_string_equal(image_name(fixture.image), row->familiar);
        assert_string_equal(image_tag(fixture.image), row->tag);
        assert_int_equal(image_key_of(row->name, row->tag, &key), 0);
        assert_string_equal(key, row->key);
}

static void test_no_requests(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        reconcile(&fixture);
        assert_false(image_is_desired(fixture.image));
        assert_false(image_is_syncing(fixture.image));
        assert_null(desired_image(fixture.image));
        assert_null(image_requests(fixture.image));
        assert_int_equal(image_status(fixture.image)->phase, IMAGE_WAITING);
        assert_int_equal(image_runtime_changed(fixture.image), 0);
}

static void test_done_once(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 3);
        assert_int_equal(fixture.n_dirty, 1);
        assert_false(image_is_syncing(fixture.image));
        reconcile(&fixture);
        assert_true(image_is_syncing(fixture.image));
        assert_true(pulls.last->is_started);
        assert_string_equal(pulls.last->reference, "docker.io/library/nginx:1.25");
        assert_requests(&fixture, "a:syncing ");

        pulls.last->status.bytes_done = 7;
        assert_int_equal(image_status(fixture.image)->bytes_done, 7);
        finish(&fixture, IMAGE_SUCCEEDED);
        assert_false(image_is_syncing(fixture.image));
        assert_requests(&fixture, "a:done ");
        assert_int_equal(image_status(fixture.image)->phase, IMAGE_SUCCEEDED);
        assert_int_equal(image_status(fixture.image)->version, 3);
        assert_int_equal(image_status(fixture.image)->bytes_done, 7);

        reconcile(&fixture);
        assert_int_equal(pulls.n_made, 1);
}

/* A failure is an answer too: for another one, the owner has to ask anew. */
static void test_failure_is_an_outcome(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        reconcile(&fixture);
        finish(&fixture, IMAGE_FAILED);
        reconcile(&fixture);
        assert_requests(&fixture, "a:done ");
        assert_int_equal(pulls.n_made, 1);
}

static void test_same_request_is_no_change(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        request(&fixture, "a", 1);
        assert_int_equal(fixture.n_dirty, 1);
}

static void test_new_version_starts_a_sync(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 2);
        reconcile(&fixture);
        finish(&fixture, IMAGE_FAILED);
        request(&fixture, "a", 1); /* in either direction */
        reconcile(&fixture);
        assert_int_equal(pulls.n_made, 2);
        assert_int_equal(pulls.last->desired.version, 1);
        assert_int_equal(image_status(fixture.image)->version, 1);
}

static void test_new_version_restarts_the_sync(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        request(&fixture, "b", 1);
        reconcile(&fixture);
        request(&fixture, "a", 2);
        reconcile(&fixture);
        assert_int_equal(pulls.n_made, 2);
        assert_int_equal(pulls.n_freed, 1);
        assert_int_equal(pulls.last->desired.version, 2);
        assert_requests(&fixture, "a:syncing b:syncing ");
}

/* Even when the old one has just ended. */
static void test_new_version_at_the_last_moment(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        reconcile(&fixture);
        request(&fixture, "a", 2);
        finish(&fixture, IMAGE_SUCCEEDED);
        assert_requests(&fixture, "a:syncing ");
        assert_int_equal(pulls.last->desired.version, 2);
}

static void test_other_change_is_not_done_again(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        reconcile(&fixture);
        finish(&fixture, IMAGE_SUCCEEDED);
        set_request(&fixture, "a", "nginx", 1, 600, false);
        reconcile(&fixture);
        assert_int_equal(pulls.n_made, 1);
        assert_int_equal(desired_image(fixture.image)->ttl_sec, 600);
}

static void test_new_owner_starts_a_sync(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "b", 1);
        reconcile(&fixture);
        finish(&fixture, IMAGE_SUCCEEDED);
        request(&fixture, "a", 1);
        reconcile(&fixture);
        assert_int_equal(pulls.n_made, 2);
        assert_string_equal(pulls.last->owners, "a ");
        assert_requests(&fixture, "a:syncing b:done ");
}

static void test_new_owner_joins_the_sync(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "b", 2);
        reconcile(&fixture);
        request(&fixture, "a", 1);
        request(&fixture, "c", 2);
        reconcile(&fixture);
        reconcile(&fixture);
        assert_int_equal(pulls.n_made, 1);
        assert_string_equal(pulls.last->owners, "b a c ");
        finish(&fixture, IMAGE_SUCCEEDED);
        assert_requests(&fixture, "a:done b:done c:done ");
}

/* A request for more than the sync gives waits for the next one. */
static void test_new_owner_waits_for_the_next_sync(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        reconcile(&fixture);
        request(&fixture, "b", 2);
        reconcile(&fixture);
        assert_requests(&fixture, "a:syncing b: ");
        finish(&fixture, IMAGE_SUCCEEDED);
        assert_requests(&fixture, "a:done b:syncing ");
        assert_int_equal(pulls.n_made, 2);
        finish(&fixture, IMAGE_SUCCEEDED);
        assert_requests(&fixture, "a:done b:done ");
}

/* A request that comes later, for more than the pull gives, shares its success but not its failure. */
static void test_failure_of_a_pull_that_was_joined(void **state) {
        static const struct {
                More more;
                bool is_late;
                bool has_own;
        } rows[] = {
                { MORE_NOTHING, false, false }, { MORE_TIMEOUT, false, true },
                { MORE_ATTEMPTS, false, true }, { MORE_DEADLINE, false, true },
                { MORE_SECRET, false, true },   { MORE_NOTHING, true, true },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                for (int succeeds = 0; succeeds < 2; succeeds++) {
                        bool has_own = rows[i].has_own && !succeeds;
                        cleanup(fixture_done) Fixture fixture;

                        fixture_init(&fixture);
                        set_more(&fixture, "a", MORE_NOTHING);
                        reconcile(&fixture);
                        pulls.last->status.started_at = rows[i].is_late;
                        set_more(&fixture, "b", rows[i].more);
                        reconcile(&fixture);
                        assert_requests(&fixture, "a:syncing b:syncing ");

                        finish(&fixture, succeeds ? IMAGE_SUCCEEDED : IMAGE_FAILED);
                        assert_requests(&fixture, has_own ? "a:done b:syncing " : "a:done b:done ");
                        assert_int_equal(pulls.n_made, 1 + has_own);
                        assert_results(&fixture, has_own ? "a " : "a b ");
                        if (!has_own)
                                continue;

                        assert_int_equal(pulls.last->desired.n_secrets,
                                         rows[i].more == MORE_SECRET);
                        finish(&fixture, IMAGE_FAILED);
                        assert_requests(&fixture, "a:done b:done ");
                        assert_int_equal(pulls.n_made, 2);
                }
}

/* What becomes of an image later does not change the outcome of requests that were done before. */
static void test_outcomes_are_kept(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        reconcile(&fixture);
        finish(&fixture, IMAGE_SUCCEEDED);
        assert_results(&fixture, "a ");

        request(&fixture, "b", 1);
        reconcile(&fixture);
        assert_outcome(&fixture, "a", "nginx", "Succeeded");
        assert_outcome(&fixture, "b", "nginx", "Waiting");
        finish(&fixture, IMAGE_FAILED);
        assert_results(&fixture, "b ");
        assert_outcome(&fixture, "a", "nginx", "Succeeded");
        assert_outcome(&fixture, "b", "nginx", "Failed");
        assert_int_equal(image_status(fixture.image)->phase, IMAGE_FAILED);

        request(&fixture, "a", 2);
        reconcile(&fixture);
        finish(&fixture, IMAGE_SUCCEEDED);
        assert_outcome(&fixture, "a", "nginx", "Succeeded");
        assert_outcome(&fixture, "b", "nginx", "Failed");
}

/* A desired image with a fault fails at once and alone. */
static void test_fault(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        set_fault(&fixture, "a", 3, "it has no name");
        assert_requests(&fixture, "a:done ");
        assert_results(&fixture, "a ");
        assert_outcome(&fixture, "a", "nginx", "Failed");
        assert_int_equal(image_status(fixture.image)->version, 3);
        assert_string_equal(image_status(fixture.image)->message,
                            "InvalidSpec: it has no name; correct it, and give it a new version "
                            "(attempt 1 of 1)");

        request(&fixture, "b", 1);
        reconcile(&fixture);
        assert_requests(&fixture, "a:done b:syncing ");
        assert_null(pulls.last->desired.fault);
        set_fault(&fixture, "c", 1, "it has no name");
        assert_outcome(&fixture, "c", "nginx", "Failed");
        finish(&fixture, IMAGE_SUCCEEDED);
        assert_results(&fixture, "b c ");
        assert_outcome(&fixture, "a", "nginx", "Failed");
        assert_outcome(&fixture, "b", "nginx", "Succeeded");
        assert_outcome(&fixture, "c", "nginx", "Failed");

        set_fault(&fixture, "a", 3, "it has no name");
        assert_results(&fixture, "");
        set_more(&fixture, "c", MORE_NOTHING); /* another version, without the fault */
        reconcile(&fixture);
        assert_requests(&fixture, "a:done b:done c:syncing ");
}

/* An outcome from elsewhere is for one spelling of one version, and not for what is over. */
static void test_set_done(void **state) {
        static const struct {
                const char *owner, *name;
                int64_t version;
                bool is_taken;
        } rows[] = {
                { "a", "nginx", 2, false },
                { "b", "nginx", 1, false },
                { "a", "index.docker.io/library/nginx", 1, false },
                { "a", "nginx", 1, true },
                { "a", "nginx", 1, false },
        };
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        set_request(&fixture, "a", "docker.io/library/nginx", 1, DESIRED_IMAGE_NO_LIMIT, false);
        reconcile(&fixture);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                ImageStatus status = { .phase = IMAGE_FAILED, .completed_at = NOW };

                assert_int_equal(image_set_done(fixture.image, rows[i].owner, rows[i].name,
                                                rows[i].version, &status),
                                 rows[i].is_taken);
        }

        reconcile(&fixture);
        assert_outcome(&fixture, "a", "nginx", "Failed");
        assert_outcome(&fixture, "a", "docker.io/library/nginx", "Waiting");
        finish(&fixture, IMAGE_SUCCEEDED);
        assert_outcome(&fixture, "a", "nginx", "Failed");
        assert_outcome(&fixture, "a", "docker.io/library/nginx", "Succeeded");
        assert_int_equal(pulls.n_made, 1);
}

/* A refusal that was reported before the last restart is not reported again. */
static void test_restored_fault_is_not_reported(void **state) {
        ImageStatus status = { .phase = IMAGE_FAILED, .completed_at = NOW };
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        set_fault(&fixture, "a", 1, "it has no name");
        assert_int_equal(image_set_done(fixture.image, "a", "nginx", 1, &status), 1);
        assert_results(&fixture, "");
        assert_int_equal(image_status_for(fixture.image, "a", "nginx")->completed_at, NOW);
}

static void test_last_owner_leaves(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        sweep(&fixture, "a"); /* it was seen */
        reconcile(&fixture);
        assert_true(image_is_syncing(fixture.image));

        sweep(&fixture, "a");
        reconcile(&fixture);
        assert_false(image_is_syncing(fixture.image));
        assert_false(image_is_desired(fixture.image));
        assert_int_equal(pulls.n_freed, 1);
}

static void test_one_of_two_owners_leaves(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        request(&fixture, "b", 1);
        reconcile(&fixture);
        sweep(&fixture, "a");
        sweep(&fixture, "a");
        reconcile(&fixture);
        assert_int_equal(pulls.n_made, 1);
        assert_requests(&fixture, "b:syncing ");
}

/* One owner may spell it in two ways, and drop one of them. */
static void test_two_spellings(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        set_request(&fixture, "a", "docker.io/library/nginx", 1, DESIRED_IMAGE_NO_LIMIT, false);
        reconcile(&fixture);
        assert_requests(&fixture, "a:syncing a:syncing ");

        sweep(&fixture, "a");
        request(&fixture, "a", 1);
        sweep(&fixture, "a");
        assert_requests(&fixture, "a:syncing ");
        assert_string_equal(image_requests(fixture.image)->desired.name, "nginx");
}

static void test_withdraw(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        request(&fixture, "b", 1);
        reconcile(&fixture);
        finish(&fixture, IMAGE_SUCCEEDED);
        assert_int_equal(image_withdraw(fixture.image, "a"), 0); /* it is done */
        request(&fixture, "c", 1);
        set_request(&fixture, "c", "docker.io/library/nginx", 1, DESIRED_IMAGE_NO_LIMIT, false);
        reconcile(&fixture);
        assert_int_equal(image_withdraw(fixture.image, "c"), 2);
        reconcile(&fixture);
        assert_false(image_is_syncing(fixture.image));
        assert_requests(&fixture, "a:done b:done ");
}

static void test_requests_are_merged(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        set_request(&fixture, "b", "nginx", 1, 60, false);
        set_request(&fixture, "a", "nginx", 4, 30, false);
        assert_int_equal(desired_image(fixture.image)->version, 4);
        assert_int_equal(desired_image(fixture.image)->ttl_sec, 60);
        reconcile(&fixture);
        assert_int_equal(pulls.last->desired.version, 4);
        assert_int_equal(pulls.last->desired.ttl_sec, 60);
        assert_string_equal(pulls.last->owners, "a ");
}

static void test_malformed(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init_named(&fixture, "NGINX", "1.25");
        set_request(&fixture, "a", "NGINX", 3, DESIRED_IMAGE_NO_LIMIT, false);
        reconcile(&fixture);
        assert_int_equal(pulls.n_made, 0);
        assert_requests(&fixture, "a:done ");
        assert_int_equal(image_status(fixture.image)->phase, IMAGE_FAILED);
        assert_int_equal(image_status(fixture.image)->reason, PULL_REASON_INVALID_REFERENCE);
        assert_true(image_status(fixture.image)->completed_at > 0);
        assert_true(strncmp(image_status(fixture.image)->message, "InvalidReference: ", 18) == 0);
}

/* A status is the answer to one version, also when it says no. */
static void test_malformed_answers_the_version(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init_named(&fixture, "NGINX", "1.25");
        set_request(&fixture, "a", "NGINX", 3, DESIRED_IMAGE_NO_LIMIT, false);
        reconcile(&fixture);
        assert_int_equal(image_status(fixture.image)->version, 3);
}

static void assert_expires(Fixture *fixture, int64_t now, int64_t next) {
        int64_t ret_next = 0;

        assert_int_equal(image_expire(fixture->image, now, &ret_next), 0);
        assert_int_equal(ret_next, next);
}

static void test_expire(void **state) {
        cleanup(fixture_done) Fixture fixture;
        unsigned n_dirty;

        fixture_init(&fixture);
        set_request(&fixture, "a", "nginx", 1, 60, false);
        set_request(&fixture, "b", "nginx", 1, 30, true);
        request(&fixture, "c", 1);
        assert_expires(&fixture, INT64_MAX, INT64_MAX); /* none is done yet */
        reconcile(&fixture);
        assert_expires(&fixture, INT64_MAX, INT64_MAX);
        finish(&fixture, IMAGE_SUCCEEDED);

        n_dirty = fixture.n_dirty;
        assert_expires(&fixture, NOW, NOW + 30);
        assert_expires(&fixture, NOW + 29, NOW + 30);
        assert_int_equal(fixture.n_dirty, n_dirty);
        assert_expires(&fixture, NOW + 30, NOW + 60);
        assert_requests(&fixture, "a:done c:done "); /* the transient one leaves */
        assert_int_equal(fixture.n_dirty, n_dirty + 1);

        assert_expires(&fixture, NOW + 60, INT64_MAX);
        assert_requests(&fixture, "a:done,expired c:done ");
        assert_true(image_is_desired(fixture.image));
}

static void test_expired_is_not_done_again(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        set_request(&fixture, "a", "nginx", 1, 0, false);
        reconcile(&fixture);
        finish(&fixture, IMAGE_FAILED);
        assert_expires(&fixture, NOW, INT64_MAX);
        assert_false(image_is_desired(fixture.image));
        assert_null(desired_image(fixture.image));
        set_request(&fixture, "a", "nginx", 1, 0, false);
        reconcile(&fixture);
        assert_int_equal(pulls.n_made, 1);

        set_request(&fixture, "a", "nginx", 2, 0, false); /* it asks for something new */
        reconcile(&fixture);
        assert_requests(&fixture, "a:syncing ");
        assert_true(image_is_desired(fixture.image));
}

static void test_malformed_expires(void **state) {
        cleanup(fixture_done) Fixture fixture;
        int64_t end;

        fixture_init_named(&fixture, "NGINX", "1.25");
        set_request(&fixture, "a", "NGINX", 1, 60, true);
        end = image_status(fixture.image)->completed_at + 60;
        assert_expires(&fixture, end - 1, end);
        assert_expires(&fixture, end, INT64_MAX);
        assert_null(image_requests(fixture.image));
}

static void restore(Fixture *fixture, const char *owner, int64_t version, bool is_expired) {
        assert_int_equal(image_restore_done(fixture->image, owner, version, is_expired, NULL), 0);
}

static void test_restored(void **state) {
        ImageStatus status = {
                .phase = IMAGE_SUCCEEDED, .completed_at = NOW, .version = 2, .image_id = strdup(ID)
        };
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        image_restore_status(fixture.image, &status);
        assert_null(status.image_id); /* taken over */
        restore(&fixture, "a", 2, false);
        restore(&fixture, "b", 1, true);
        request(&fixture, "a", 2);
        request(&fixture, "b", 1);
        image_restore_end(fixture.image);
        reconcile(&fixture);
        assert_int_equal(pulls.n_made, 0);
        assert_requests(&fixture, "a:done b:done,expired ");
        assert_string_equal(image_status(fixture.image)->image_id, ID);
        assert_int_equal(image_status(fixture.image)->version, 2);
}

static void test_restored_but_changed(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        restore(&fixture, "a", 1, true);
        restore(&fixture, "b", 1, false);
        request(&fixture, "a", 2); /* another version than was done */
        request(&fixture, "c", 1); /* an owner that was not there */
        image_restore_end(fixture.image);
        request(&fixture, "b", 1); /* an owner that comes too late */
        reconcile(&fixture);
        assert_requests(&fixture, "a:syncing b:syncing c:syncing ");
}

static void test_restored_in_two_spellings(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        restore(&fixture, "a", 1, false);
        restore(&fixture, "a", 1, false);
        request(&fixture, "a", 1);
        set_request(&fixture, "a", "docker.io/library/nginx", 1, DESIRED_IMAGE_NO_LIMIT, false);
        image_restore_end(fixture.image);
        reconcile(&fixture);
        assert_requests(&fixture, "a:done a:done ");
}

static void test_restored_outcome(void **state) {
        const ImageStatus outcome = { .phase = IMAGE_SUCCEEDED, .completed_at = NOW - 1 };
        ImageStatus status = { .phase = IMAGE_FAILED, .completed_at = NOW };
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        image_restore_status(fixture.image, &status);
        restore(&fixture, "a", 2, false);
        assert_int_equal(image_restore_done(fixture.image, "a", 1, false, &outcome), 0);
        restore(&fixture, "a", 1, false);
        restore(&fixture, "b", 1, false);
        request(&fixture, "a", 1);
        request(&fixture, "b", 1);
        image_restore_end(fixture.image);
        assert_requests(&fixture, "a:done b:done ");
        assert_outcome(&fixture, "a", "nginx", "Succeeded");
        assert_outcome(&fixture, "b", "nginx", "Failed");
}

static void test_runtime_change_is_passed_on(void **state) {
        cleanup(fixture_done) Fixture fixture;

        fixture_init(&fixture);
        request(&fixture, "a", 1);
        reconcile(&fixture);
        assert_int_equal(image_runtime_changed(fixture.image), 0);
        assert_int_equal(pulls.n_runtime_changes, 1);
}

/* There is a sync if and only if a request is due, and it is for a request. */
static void assert_sound(const Fixture *fixture, unsigned seed) {
        bool is_syncing = image_is_syncing(fixture->image);
        unsigned n_due = 0, n_syncing = 0;

        for (const ImageRequest *w = image_requests(fixture->image); w; w = w->next) {
                n_due += !w->is_done && !w->is_expired;
                n_syncing += w->is_syncing;
                if (w->is_syncing && (w->is_done || w->is_expired || !is_syncing))
                        fail_msg("seed %u: %s should not be in the sync", seed, w->owner);
                if (w->next && strcmp(w->owner, w->next->owner) > 0)
                        fail_msg("seed %u: not sorted", seed);
        }
        if (is_syncing != (n_due > 0) || is_syncing != (n_syncing > 0) ||
            pulls.n_made - pulls.n_freed != is_syncing)
                fail_msg("seed %u: %u due, %u in the sync", seed, n_due, n_syncing);
}

static void random_step(Fixture *fixture) {
        const char *owner = (const char *[]){ "a", "b", "c" }[random() % 3];
        int64_t next;

        switch (random() % 6) {
        case 0:
        case 1:
                set_request(fixture, owner, random() % 4 ? "nginx" : "docker.io/library/nginx",
                            random() % 3, random() % 3 * 10 - 1, random() % 2);
                break;
        case 2: sweep(fixture, owner); break;
        case 3: assert_true(image_withdraw(fixture->image, owner) >= 0); break;
        case 4:
                assert_int_equal(image_expire(fixture->image, NOW + random() % 40, &next), 0);
                break;
        case 5:
                reconcile(fixture);
                if (image_is_syncing(fixture->image))
                        finish(fixture, random() % 2 ? IMAGE_SUCCEEDED : IMAGE_FAILED);
                break;
        }
}

/* In any order of events it stays sound, and it ends when nothing more happens. */
static void test_random(void **state) {
        for (unsigned seed = 0; seed < 2000; seed++) {
                cleanup(fixture_done) Fixture fixture;
                unsigned n_syncs = 0;

                srandom(seed);
                fixture_init(&fixture);
                for (unsigned i = 0; i < 50; i++) {
                        random_step(&fixture);
                        reconcile(&fixture);
                        assert_sound(&fixture, seed);
                }
                for (; image_is_syncing(fixture.image) && n_syncs < 10; n_syncs++)
                        finish(&fixture, IMAGE_SUCCEEDED);
                if (n_syncs == 10)
                        fail_msg("seed %u: it never ends", seed);
        }
}

static const struct CMUnitTest stories[] = {
        cmocka_unit_test(test_no_requests),
        cmocka_unit_test(test_done_once),
        cmocka_unit_test(test_failure_is_an_outcome),
        cmocka_unit_test(test_same_request_is_no_change),
        cmocka_unit_test(test_new_version_starts_a_sync),
        cmocka_unit_test(test_new_version_restarts_the_sync),
        cmocka_unit_test(test_new_version_at_the_last_moment),
        cmocka_unit_test(test_other_change_is_not_done_again),
        cmocka_unit_test(test_new_owner_starts_a_sync),
        cmocka_unit_test(test_new_owner_joins_the_sync),
        cmocka_unit_test(test_new_owner_waits_for_the_next_sync),
        cmocka_unit_test(test_failure_of_a_pull_that_was_joined),
        cmocka_unit_test(test_outcomes_are_kept),
        cmocka_unit_test(test_fault),
        cmocka_unit_test(test_set_done),
        cmocka_unit_test(test_restored_fault_is_not_reported),
        cmocka_unit_test(test_last_owner_leaves),
        cmocka_unit_test(test_one_of_two_owners_leaves),
        cmocka_unit_test(test_two_spellings),
        cmocka_unit_test(test_withdraw),
        cmocka_unit_test(test_requests_are_merged),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_malformed_answers_the_version),
        cmocka_unit_test(test_expire),
        cmocka_unit_test(test_expired_is_not_done_again),
        cmocka_unit_test(test_malformed_expires),
        cmocka_unit_test(test_restored),
        cmocka_unit_test(test_restored_but_changed),
        cmocka_unit_test(test_restored_in_two_spellings),
        cmocka_unit_test(test_restored_outcome),
        cmocka_unit_test(test_runtime_change_is_passed_on),
        cmocka_unit_test(test_random),
};

int main(void) {
        struct CMUnitTest rows[N_NAMES];

        for (size_t i = 0; i < N_NAMES; i++)
                rows[i] = (struct CMUnitTest){
                        .name = names[i].title,
                        .test_func = test_name,
                        .initial_state = (void *) &names[i],
                };

        return cmocka_run_group_tests_name("image", stories, NULL, NULL) +
               _cmocka_run_group_tests("name", rows, N_NAMES, NULL, NULL);
}
