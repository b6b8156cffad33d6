/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests one image, its requests and its syncs, with real pulls from a runtime that answers when a
 * test says so
 */

#include <time.h>

#include "agent/image/desired-image.h"
#include "agent/image/image.h"
#include "tests/unit/fake-runtime.h"
#include "tests/unit/unit.h"

#define NOW 1769903999
#define ID "sha256:6efc10a0510f143a90b69dc564a914574973223e88418d65c1f8809e08dc0a1f"

#define REFERENCE "docker.io/library/nginx:1.25"

/* The source of credentials: the question that waits for its answer. */
struct PullCredentialsAsk {
        PullCredentialsReady on_ready;
        void *userdata;
        size_t n_secrets;
};

static struct PullCredentialsAsk keys;

static int keys_ask(void *source, const PullCredentialsQuestion *question,
                    PullCredentialsReady on_ready, void *userdata, PullCredentialsAsk **ret) {
        assert_null(keys.on_ready);
        keys = (struct PullCredentialsAsk){ .on_ready = on_ready,
                                            .userdata = userdata,
                                            .n_secrets = question->desired->n_secrets };
        *ret = &keys;
        return 0;
}

static PullCredentialsAsk *keys_drop(PullCredentialsAsk *ask) {
        if (ask)
                ask->on_ready = NULL;
        return NULL;
}

typedef struct Fixture {
        sd_event *event;
        PullContext context;
        OnDemandContext on_demand; /* part of it */
        Image *image;
        bool is_dirty;
} Fixture;

static void on_dirty(Image *image, void *userdata) {
        Fixture *fixture = userdata;

        fixture->is_dirty = true;
}

static void fixture_init(Fixture *fixture) {
        *fixture = (Fixture){ .context.keys = { .ask = keys_ask, .drop = keys_drop } };
        fake_runtime_reset();
        assert_true(sd_event_new(&fixture->event) >= 0);
        fixture->context.event = fixture->event;
        fixture->on_demand.event = fixture->event;
        fixture->context.on_demand = &fixture->on_demand;
        assert_ok(queue_new(1, &fixture->context.inspections));
        assert_ok(queue_new(1, &fixture->context.pulls));
        assert_ok(progress_tracker_new(fixture->event, NULL, 0, &fixture->context.progress));
        assert_ok(leases_new((const Runtimes *) &fake_runtime, &fixture->context.leases));
        assert_ok(
                disk_guard_new(&(DiskGuardOptions){ .event = fixture->event,
                                                    .runtimes = (const Runtimes *) &fake_runtime },
                               &fixture->context.disk));
        assert_ok(image_new("nginx", "1.25", SHORT_NAMES_HUB, on_dirty, fixture, &fixture->image));
}

/* The test is about another image. */
static void name_image(Fixture *fixture, const char *name, const char *tag) {
        image_free(fixture->image);
        assert_ok(image_new(name, tag, SHORT_NAMES_HUB, on_dirty, fixture, &fixture->image));
}

/* Counts pending operations of a pull, here and in the runtime. */
static size_t n_pending(const Fixture *fixture) {
        return fake_runtime_n_calls() + (keys.on_ready != NULL) +
               queue_n_waiting(fixture->context.inspections) +
               queue_n_served(fixture->context.inspections) +
               queue_n_waiting(fixture->context.pulls) + queue_n_served(fixture->context.pulls);
}

static void fixture_done(Fixture *fixture) {
        fixture->image = image_free(fixture->image);
        assert_int_equal(n_pending(fixture), 0);
        progress_tracker_free(fixture->context.progress);
        leases_free(fixture->context.leases);
        disk_guard_free(fixture->context.disk);
        queue_free(fixture->context.inspections);
        queue_free(fixture->context.pulls);
        sd_event_unref(fixture->event);
}

static int set_up(void **state) {
        static Fixture fixture;

        fixture_init(&fixture);
        *state = &fixture;
        return 0;
}

static int tear_down(void **state) {
        fixture_done(*state);
        return 0;
}

/* Lets an owner request the image under a name; ttl_sec as in a desired image. */
static void set_request(Fixture *fixture, const char *owner, const char *name, int64_t version,
                        int64_t ttl_sec, RequestKind kind) {
        cleanup(desired_image_done) DesiredImage desired;

        assert_ok(desired_image_init(&desired, name, "1.25"));
        desired.version = version;
        desired.ttl_sec = ttl_sec;
        desired.backoff_limit = 0;
        assert_true(image_set_request(fixture->image, owner, &desired, kind) >= 0);
}

/* Difference of a request: one more second or attempt, a secret, or a pin. */
typedef enum More {
        MORE_NOTHING,
        MORE_TIMEOUT,
        MORE_ATTEMPTS,
        MORE_DEADLINE,
        MORE_SECRET,
        MORE_PIN,
} More;

static void set_more(Fixture *fixture, const char *owner, More more) {
        cleanup(desired_image_done) DesiredImage desired;

        assert_ok(desired_image_init(&desired, "nginx", "1.25"));
        desired.active_deadline_sec = 60 + (more == MORE_DEADLINE);
        desired.timeout_sec += more == MORE_TIMEOUT;
        desired.backoff_limit = more == MORE_ATTEMPTS;
        desired.is_pinned = more == MORE_PIN;
        if (more == MORE_SECRET)
                assert_ok(desired_image_add_secret(&desired, "team", "key"));
        assert_ok(image_set_request(fixture->image, owner, &desired, REQUEST_ONCE));
}

static void set_fault(Fixture *fixture, const char *owner, int64_t version, const char *fault) {
        cleanup(desired_image_done) DesiredImage desired;

        assert_ok(desired_image_init(&desired, "nginx", "1.25"));
        desired.version = version;
        desired.fault = strdup(fault);
        assert_ok(image_set_request(fixture->image, owner, &desired, REQUEST_ONCE));
}

static void request(Fixture *fixture, const char *owner, int64_t version) {
        set_request(fixture, owner, "nginx", version, DESIRED_IMAGE_NO_LIMIT, REQUEST_ONCE);
}

static void sweep(Fixture *fixture, const char *owner) {
        assert_ok(image_sweep_requests(fixture->image, owner));
}

static void reconcile(Fixture *fixture) {
        do {
                fixture->is_dirty = false;
                assert_ok(image_reconcile(fixture->image, &fixture->context));
        } while (fixture->is_dirty);
}

static void ask(Fixture *fixture, const char *owner, int64_t version) {
        request(fixture, owner, version);
        reconcile(fixture);
}

/* The pull that waits has its turn, and asks the runtime. */
static void begin(Fixture *fixture) {
        PullCredentials none = { .named = NULL };

        assert_ok(pulls_serve(&fixture->context));
        if (keys.on_ready)
                assert_int_equal(keys.on_ready(&none, NULL, keys.userdata), 0);
        assert_non_null(fake_runtime_find("PullImage"));
}

/* Until a pause ends and the pull waits for its turn. */
static void await_turn(Fixture *fixture) {
        while (queue_n_waiting(fixture->context.inspections) == 0)
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
}

static void fail_pull(Fixture *fixture) {
        begin(fixture);
        fake_runtime_refuse("PullImage", ERROR_TIMEOUT, "too late");
        if (image_phase_is_final(image_status(fixture->image)->phase))
                return;

        await_turn(fixture);
        fail_pull(fixture);
}

/* The sync that runs ends, and another one begins if there is a request left. */
static void finish(Fixture *fixture, ImagePhase phase) {
        if (phase == IMAGE_FAILED)
                fail_pull(fixture);
        else {
                begin(fixture);
                fake_runtime_answer_pull(ID);
                fake_runtime_answer_status(ID);
        }
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

/* Checks the requests that got an outcome since the last time. */
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
        { "a malformed name",   "NGINX", "1.25",                      " 5 NGINX 1.25", "NGINX" },
        { "a malformed tag",    "nginx", "a b",                       " 5 nginx a b", "nginx" },
        { "another malformed name with the same words", "nginx a", "b", " 7 nginx a b", "nginx a" },
};
/* clang-format on */

TEST_ROWS_F(test_name, names, title, const struct Name *row, Fixture *fixture) {
        cleanup(free_p) char *key = NULL;

        name_image(fixture, row->name, row->tag);
        assert_string_equal(image_key(fixture->image), row->key);
        assert_string_equal(image_name(fixture->image), row->familiar);
        assert_string_equal(image_tag(fixture->image), row->tag);
        assert_ok(image_key_of(row->name, row->tag, SHORT_NAMES_HUB, &key));
        assert_string_equal(key, row->key);
}

TEST_F(test_no_requests, Fixture *fixture) {
        reconcile(fixture);
        assert_false(image_is_desired(fixture->image));
        assert_false(image_is_syncing(fixture->image));
        assert_null(desired_image(fixture->image));
        assert_null(image_requests(fixture->image));
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_WAITING);
        assert_ok(image_runtime_changed(fixture->image));
}

TEST_F(test_done_once, Fixture *fixture) {
        request(fixture, "a", 3);
        assert_true(fixture->is_dirty);
        assert_false(image_is_syncing(fixture->image));
        reconcile(fixture);
        assert_true(image_is_syncing(fixture->image));
        assert_requests(fixture, "a:syncing ");
        begin(fixture);
        assert_string_equal(fake_runtime_find("PullImage")->target, REFERENCE);
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_PULLING);
        finish(fixture, IMAGE_SUCCEEDED);
        assert_false(image_is_syncing(fixture->image));
        assert_requests(fixture, "a:done ");
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_SUCCEEDED);
        assert_int_equal(image_status(fixture->image)->version, 3);
        assert_string_equal(image_status(fixture->image)->image_id, ID);

        reconcile(fixture);
        assert_false(image_is_syncing(fixture->image));
}

static void set_limits(Fixture *fixture, const char *owner, int64_t backoff_limit,
                       int64_t refusal_limit) {
        cleanup(desired_image_done) DesiredImage desired;

        assert_ok(desired_image_init(&desired, "nginx", "1.25"));
        desired.backoff_limit = backoff_limit;
        desired.refusal_limit = refusal_limit;
        assert_ok(image_set_request(fixture->image, owner, &desired, REQUEST_ONCE));
}

static void set_limit(Fixture *fixture, const char *owner, int64_t backoff_limit) {
        set_limits(fixture, owner, backoff_limit, DESIRED_IMAGE_NO_LIMIT);
}

/* The first owner requests all layers, the second is content with the image. */
TEST_F(test_requests_of_different_completeness, Fixture *fixture) {
        static const char part[] = "{\"digest\":\"sha256:layer\",\"size\":4,\"fetchedSize\":1}\n";
        static const char all[] = "{\"digest\":\"sha256:layer\",\"size\":4,\"fetchedSize\":4}\n";
        cleanup(desired_image_done) DesiredImage desired;

        fake_runtime.shows_layers = true;
        assert_ok(desired_image_init(&desired, "nginx", "1.25"));
        desired.is_complete = true;
        assert_ok(image_set_request(fixture->image, "all", &desired, REQUEST_ONCE));
        ask(fixture, "plain", 1);
        begin(fixture);
        fake_runtime_answer_pull(ID);
        fake_runtime_answer_status(ID);
        fake_runtime_answer_layers(part);
        reconcile(fixture);
        assert_requests(fixture, "all:syncing plain:done ");
        assert_outcome(fixture, "all", "nginx", "Pulling");
        assert_outcome(fixture, "plain", "nginx", "Succeeded");
        assert_results(fixture, "plain ");

        while (!fake_runtime_find("Info"))
                assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
        fake_runtime_answer_layers(all);
        reconcile(fixture);
        assert_requests(fixture, "all:done plain:done ");
        assert_outcome(fixture, "all", "nginx", "Succeeded");
        assert_results(fixture, "all ");
}

/* A mount may be hidden for a moment: the image is asked about again. */
TEST_F(test_arriving_layers_out_of_sight, Fixture *fixture) {
        const ImageOnDemand hidden = { .n_layers = 1, .n_layers_all = 1 };
        const ImageOnDemand all = { .n_layers = 1,
                                    .n_layers_all = 1,
                                    .is_counted = true,
                                    .bytes_present = 4,
                                    .bytes_total = 4 };

        fake_runtime.shows_layers = true;
        ask(fixture, "plain", 1);
        begin(fixture);
        fake_runtime_answer_pull(ID);
        fake_runtime_answer_status(ID);
        fake_runtime_answer_layers("{\"digest\":\"sha256:layer\",\"size\":4,\"fetchedSize\":1}\n");
        reconcile(fixture);
        assert_true(image_is_arriving(fixture->image));
        assert_ok(image_set_on_demand(fixture->image, &hidden));
        assert_true(image_is_arriving(fixture->image));
        assert_ok(image_set_on_demand(fixture->image, &all));
        assert_false(image_is_arriving(fixture->image));
}

/* Refuses one attempt. */
static void refuse_pull(Fixture *fixture) {
        begin(fixture);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "no such image");
        reconcile(fixture);
}

static bool is_of(const ImageRequest *request, const void *owner) {
        return strcmp(request->owner, owner) == 0;
}

static void kick(Fixture *fixture) {
        assert_true(pull_kick(image_pull(fixture->image)));
        await_turn(fixture);
}

/* Cases of an image that another program removes, and the outcome of requests for it. */
static const struct Removal {
        const char *title;
        RequestKind kind;
        bool keeps_served;
        bool is_pulled_again;
        const char *outcome; /* outcome of the request, meanwhile */
} removals[] = {
        { "removed, and lasting", REQUEST_DESIRED, false, true, "Missing" },
        { "removed, and kept", REQUEST_RESTORE, false, true, "Succeeded" },
        { "removed, and served", REQUEST_ONCE, false, false, "Succeeded" },
        { "removed, and served by an agent that keeps images", REQUEST_ONCE, true, true,
          "Succeeded" },
        { "removed, and transient", REQUEST_EPHEMERAL, true, false, "Succeeded" },
};

static void remove_image(Fixture *fixture, bool keeps_served) {
        assert_true(image_is_verifiable(fixture->image));
        assert_ok(image_set_missing(fixture->image, keeps_served));
        reconcile(fixture);
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_MISSING);
        assert_int_equal(image_status(fixture->image)->reason, PULL_REASON_REMOVED);
}

static void show_image(Fixture *fixture) {
        CriImage found = RUNTIME__V1__IMAGE__INIT;

        found.id = ID;
        assert_ok(image_set_present(fixture->image, &found));
        reconcile(fixture);
}

TEST_ROWS_F(test_removed, removals, title, const struct Removal *row, Fixture *fixture) {
        set_request(fixture, "a", "nginx", 1, DESIRED_IMAGE_NO_LIMIT, row->kind);
        reconcile(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        assert_results(fixture, "a ");

        remove_image(fixture, row->keeps_served);
        assert_int_equal(image_is_syncing(fixture->image), row->is_pulled_again);
        assert_contains(image_status(fixture->image)->message,
                        row->is_pulled_again ? "; it is pulled again; "
                                             : "; it is pulled again only with keepImages; ");
        assert_outcome(fixture, "a", "nginx", row->outcome);
        assert_int_equal(n_pending(fixture), 0);
        if (row->is_pulled_again) {
                kick(fixture);
                assert_int_equal(image_status(fixture->image)->phase, IMAGE_MISSING);
                finish(fixture, IMAGE_SUCCEEDED);
        } else {
                show_image(fixture);
        }
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_SUCCEEDED);
        assert_null(image_status(fixture->image)->message);
        assert_outcome(fixture, "a", "nginx", "Succeeded");
        assert_results(fixture, row->kind == REQUEST_DESIRED ? "a " : "");
        assert_requests(fixture, "a:done ");
        assert_int_equal(image_n_removals(fixture->image), 1);
}

/* A new request does not wait for the end of a pause. */
TEST_F(test_removed_and_requested, Fixture *fixture) {
        set_request(fixture, "a", "nginx", 1, DESIRED_IMAGE_NO_LIMIT, REQUEST_DESIRED);
        reconcile(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        remove_image(fixture, false);
        assert_int_equal(queue_n_waiting(fixture->context.inspections), 0);
        ask(fixture, "b", 1);
        await_turn(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        assert_requests(fixture, "a:done b:done ");
}

/* The option to keep images may come later, and an image may come by itself. */
TEST_F(test_removed_and_kept_later, Fixture *fixture) {
        ask(fixture, "a", 1);
        finish(fixture, IMAGE_SUCCEEDED);
        for (unsigned n = 1; n < 3; n++) {
                remove_image(fixture, false);
                assert_int_equal(image_n_removals(fixture->image), n);
                assert_false(image_is_syncing(fixture->image));
                assert_ok(image_pull_again(fixture->image, true));
                reconcile(fixture);
                assert_true(image_is_syncing(fixture->image));
                show_image(fixture);
                while (queue_n_waiting(fixture->context.inspections) == 0)
                        assert_true(sd_event_run(fixture->event, UINT64_MAX) >= 0);
                finish(fixture, IMAGE_SUCCEEDED);
                assert_requests(fixture, "a:done ");
        }
}

/* The tag stands for another image now: a request that keeps the image shows that one, an outcome does not change. */
TEST_F(test_another_image_of_the_name, Fixture *fixture) {
        static const char other[] =
                "sha256:9bb13890319dc01e5f8a4d3d0c4c72685654d682d568350fd38a02b1d70aee6b";
        CriImage found = RUNTIME__V1__IMAGE__INIT;

        set_request(fixture, "a", "nginx", 1, DESIRED_IMAGE_NO_LIMIT, REQUEST_DESIRED);
        ask(fixture, "b", 1);
        finish(fixture, IMAGE_SUCCEEDED);
        found.id = (char *) other;
        assert_ok(image_set_present(fixture->image, &found));
        reconcile(fixture);
        assert_string_equal(image_status(fixture->image)->image_id, other);
        assert_string_equal(image_status_for(fixture->image, "a", "nginx")->image_id, other);
        assert_string_equal(image_status_for(fixture->image, "b", "nginx")->image_id, ID);
}

/* A request that has its outcome is noticed when its kind changes, whatever else does, but for the version. */
TEST_F(test_kind_of_a_request, Fixture *fixture) {
        static const struct {
                int64_t version, ttl_sec;
                RequestKind kind;
                int expected;
        } rows[] = {
                { 1, 60, REQUEST_ONCE, 0 },    { 1, 60, REQUEST_RESTORE, 1 },
                { 1, 60, REQUEST_RESTORE, 0 }, { 1, 90, REQUEST_ONCE, 1 },
                { 1, 90, REQUEST_ONCE, 0 },    { 2, 60, REQUEST_RESTORE, 0 },
                { 2, 60, REQUEST_ONCE, 0 },
        };

        set_request(fixture, "a", "nginx", 1, 60, REQUEST_ONCE);
        reconcile(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(desired_image_done) DesiredImage desired;

                assert_ok(desired_image_init(&desired, "nginx", "1.25"));
                desired.version = rows[i].version;
                desired.ttl_sec = rows[i].ttl_sec;
                desired.backoff_limit = 0;
                assert_int_equal(image_set_request(fixture->image, "a", &desired, rows[i].kind),
                                 rows[i].expected);
        }
}

/* A failure of one owner does not take the image from another that has it. */
TEST_F(test_failure_beside_a_success, Fixture *fixture) {
        set_request(fixture, "a", "nginx", 1, DESIRED_IMAGE_NO_LIMIT, REQUEST_DESIRED);
        reconcile(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        assert_results(fixture, "a ");

        ask(fixture, "b", 2);
        finish(fixture, IMAGE_FAILED);
        assert_results(fixture, "b ");
        assert_outcome(fixture, "a", "nginx", "Succeeded");
        assert_outcome(fixture, "b", "nginx", "Failed");
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_SUCCEEDED);
        assert_true(image_marks(fixture->image)->is_unverified);
        remove_image(fixture, false);
        assert_true(image_is_syncing(fixture->image));
}

/* The same while the pull goes on for another owner. */
TEST_F(test_failure_during_a_pull_beside_a_success, Fixture *fixture) {
        ask(fixture, "a", 1);
        finish(fixture, IMAGE_SUCCEEDED);
        set_limit(fixture, "ever", DESIRED_IMAGE_NO_LIMIT);
        set_limit(fixture, "once", 0);
        reconcile(fixture);
        refuse_pull(fixture);
        assert_outcome(fixture, "a", "nginx", "Succeeded");
        assert_outcome(fixture, "once", "nginx", "Failed");
        assert_int_equal(image_withdraw(fixture->image, "ever"), 1);
        reconcile(fixture);
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_SUCCEEDED);
        assert_true(image_is_verifiable(fixture->image));
}

/* An outcome of a previous run, from elsewhere, does not take it either. */
TEST_F(test_failure_from_elsewhere_beside_a_success, Fixture *fixture) {
        ImageStatus status = { .phase = IMAGE_FAILED, .completed_at = NOW };

        ask(fixture, "a", 1);
        finish(fixture, IMAGE_SUCCEEDED);
        request(fixture, "b", 1);
        assert_int_equal(image_set_done(fixture->image, "b", "nginx", 1, &status), 1);
        reconcile(fixture);
        assert_outcome(fixture, "a", "nginx", "Succeeded");
        assert_outcome(fixture, "b", "nginx", "Failed");
        assert_true(image_is_verifiable(fixture->image));
}

/* A failure or a fault of one owner does not hide that the image of another was removed: it may come back. */
TEST_F(test_failure_of_a_removed_image, Fixture *fixture) {
        ask(fixture, "a", 1);
        finish(fixture, IMAGE_SUCCEEDED);
        remove_image(fixture, false);
        set_fault(fixture, "b", 1, "it has no name");
        assert_outcome(fixture, "b", "nginx", "Failed");
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_MISSING);
        ask(fixture, "c", 2);
        finish(fixture, IMAGE_FAILED);
        assert_outcome(fixture, "c", "nginx", "Failed");
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_MISSING);
        show_image(fixture);
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_SUCCEEDED);
        assert_outcome(fixture, "c", "nginx", "Failed");
        assert_results(fixture, "a b c ");
}

/* An image that is being pulled, has failed or is requested by none is not verified. */
TEST_F(test_is_verifiable, Fixture *fixture) {
        assert_false(image_is_verifiable(fixture->image));
        ask(fixture, "a", 1);
        assert_false(image_is_verifiable(fixture->image));
        finish(fixture, IMAGE_FAILED);
        assert_false(image_is_verifiable(fixture->image));
        ask(fixture, "a", 2);
        finish(fixture, IMAGE_SUCCEEDED);
        assert_true(image_is_verifiable(fixture->image));
        sweep(fixture, "a");
        sweep(fixture, "a");
        assert_false(image_is_verifiable(fixture->image));
}

/* Each request has its own attempts, and the sync goes on for the one without a limit. */
TEST_F(test_requests_of_different_patience, Fixture *fixture) {
        set_limit(fixture, "ever", DESIRED_IMAGE_NO_LIMIT);
        set_limit(fixture, "once", 0);
        set_limit(fixture, "twice", 1);
        reconcile(fixture);
        refuse_pull(fixture);
        assert_requests(fixture, "ever:syncing once:done twice:syncing ");
        assert_results(fixture, "once ");
        assert_outcome(fixture, "once", "nginx", "Failed");
        assert_outcome(fixture, "ever", "nginx", "BackOff");

        set_limit(fixture, "late", 0);
        reconcile(fixture); /* it does not wait for the end of the pause */
        await_turn(fixture);
        refuse_pull(fixture);
        assert_requests(fixture, "ever:syncing late:done once:done twice:done ");
        assert_results(fixture, "late twice ");
        assert_outcome(fixture, "twice", "nginx", "Failed");

        kick(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        assert_outcome(fixture, "ever", "nginx", "Succeeded");
        assert_outcome(fixture, "twice", "nginx", "Failed");
}

/* A request that the registry refuses often enough fails, while the sync goes on. A late request has pauses as
 * short as those of a new pull. */
TEST_F(test_request_that_takes_a_no, Fixture *fixture) {
        set_limit(fixture, "ever", DESIRED_IMAGE_NO_LIMIT);
        reconcile(fixture);
        for (unsigned n = 0; n < 6; n++) {
                refuse_pull(fixture);
                kick(fixture);
        }
        refuse_pull(fixture);
        assert_true(image_status(fixture->image)->next_attempt_at > time(NULL) + 60);

        set_limits(fixture, "caller", DESIRED_IMAGE_NO_LIMIT, 1);
        reconcile(fixture);
        await_turn(fixture);
        refuse_pull(fixture);
        assert_requests(fixture, "caller:syncing ever:syncing ");
        assert_true(image_status(fixture->image)->next_attempt_at <= time(NULL) + 7);
        kick(fixture);
        refuse_pull(fixture);
        assert_requests(fixture, "caller:done ever:syncing ");
        assert_outcome(fixture, "caller", "nginx", "Failed");
}

/* The request that goes on leaves: then the failure of the other one remains. */
TEST_F(test_the_patient_leaves, Fixture *fixture) {
        set_limit(fixture, "ever", DESIRED_IMAGE_NO_LIMIT);
        set_limit(fixture, "once", 0);
        reconcile(fixture);
        refuse_pull(fixture);
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_BACKING_OFF);
        assert_int_equal(image_withdraw(fixture->image, "ever"), 1);
        reconcile(fixture);
        assert_requests(fixture, "once:done ");
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_FAILED);
        assert_int_equal(image_status(fixture->image)->next_attempt_at, 0);
}

/* The patient request leaves: the failure remains. */
TEST_F(test_only_the_impatient_are_left, Fixture *fixture) {
        set_limit(fixture, "ever", DESIRED_IMAGE_NO_LIMIT);
        set_limit(fixture, "twice", 1);
        reconcile(fixture);
        refuse_pull(fixture);
        assert_int_equal(image_withdraw(fixture->image, "ever"), 1);
        reconcile(fixture);
        assert_requests(fixture, "twice:syncing ");
        kick(fixture);
        refuse_pull(fixture);
        assert_requests(fixture, "twice:done ");
        assert_false(image_is_syncing(fixture->image));
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_FAILED);
        assert_int_equal(image_status(fixture->image)->next_attempt_at, 0);
        assert_results(fixture, "twice ");
}

TEST_F(test_retry, Fixture *fixture) {
        set_limit(fixture, "a", 0);
        set_limit(fixture, "b", 0);
        reconcile(fixture);
        refuse_pull(fixture);
        assert_requests(fixture, "a:done b:done ");
        assert_ok(image_retry(fixture->image, is_of, "c"));
        assert_int_equal(image_retry(fixture->image, is_of, "b"), 1);
        reconcile(fixture);
        assert_requests(fixture, "a:done b:syncing ");
        assert_ok(image_retry(fixture->image, is_of, "b")); /* it runs */
        finish(fixture, IMAGE_SUCCEEDED);
        assert_outcome(fixture, "a", "nginx", "Failed");
        assert_ok(image_retry(fixture->image, is_of, "b")); /* it is there */
}

/* Only another document helps. */
TEST_F(test_retry_of_a_fault, Fixture *fixture) {
        set_fault(fixture, "a", 1, "spec: nonsense");
        assert_ok(image_retry(fixture->image, is_of, "a"));
        reconcile(fixture);
        assert_requests(fixture, "a:done ");
}

#define NONE DESIRED_IMAGE_NO_LIMIT

/* An image that a previous run gave up is tried again if it has no limit and may ever succeed. */
TEST(test_restored_failure) {
        static const struct {
                PullReason reason;
                int64_t backoff_limit, refusal_limit;
                bool goes_on;
        } rows[] = {
                { PULL_REASON_REGISTRY_UNREACHABLE, NONE, NONE, true },
                { PULL_REASON_NOT_FOUND, NONE, NONE, true },
                { PULL_REASON_NOT_FOUND, NONE, 4, false },
                { PULL_REASON_UNSUPPORTED, NONE, NONE, false },
                { PULL_REASON_REGISTRY_UNREACHABLE, 3, NONE, false },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                cleanup(fixture_done) Fixture fixture;
                ImageStatus status = { .phase = IMAGE_FAILED,
                                       .completed_at = NOW,
                                       .reason = rows[i].reason };

                fixture_init(&fixture);
                image_restore_status(fixture.image, &status);
                assert_ok(image_restore_request(fixture.image,
                                                &(FormerRequest){ .owner = "a", .is_done = true }));
                set_limits(&fixture, "a", rows[i].backoff_limit, rows[i].refusal_limit);
                image_restore_end(fixture.image);
                reconcile(&fixture);
                assert_int_equal(image_is_syncing(fixture.image), rows[i].goes_on);
        }
}

TEST_F(test_same_request_is_no_change, Fixture *fixture) {
        request(fixture, "a", 1);
        fixture->is_dirty = false;
        request(fixture, "a", 1);
        assert_false(fixture->is_dirty);
}

/* Each step: "a2", owner a requests version 2; ".", the image is reconciled; "+" and "-", the pull
 * succeeds or fails. */
static const struct Story {
        const char *name;
        const char *steps;
        const char *requests;
        int64_t version; /* version of the sync */
} request_stories[] = {
        { "a failure is an outcome too", "a1 . - .", "a:done ", 1 },
        { "a new version starts a sync, also a lower one", "a2 . - a1 .", "a:syncing ", 1 },
        { "a new version restarts the sync", "a1 . a2 .", "a:syncing ", 2 },
        { "but not that of another owner", "a1 b1 . a2 . a3 .", "a: b:syncing ", 1 },
        { "and has its turn after that", "a1 b1 . a2 . a3 . +", "a:syncing b:done ", 3 },
        { "a lower version goes on with it", "a2 b2 . a1 . +", "a:done b:done ", 2 },
        { "a new version when the sync has just ended", "a1 . a2 +", "a:syncing ", 2 },
        { "a new owner starts a sync", "b1 . + a1 .", "a:syncing b:done ", 1 },
        { "a new owner joins the sync", "b2 . a1 c2 . . +", "a:done b:done c:done ", 2 },
        { "a newer version waits for the next sync", "a1 . b2 .", "a:syncing b: ", 1 },
        { "and has its turn", "a1 . b2 . +", "a:done b:syncing ", 2 },
        { "and ends", "a1 . b2 . + +", "a:done b:done ", 2 },
};

TEST_ROWS_F(test_story, request_stories, name, const struct Story *row, Fixture *fixture) {
        for (const char *step = row->steps; *step; step++) {
                if (*step == '.')
                        reconcile(fixture);
                else if (*step == '+' || *step == '-')
                        finish(fixture, *step == '+' ? IMAGE_SUCCEEDED : IMAGE_FAILED);
                else if (*step != ' ') {
                        const char owner[] = { *step, '\0' };

                        request(fixture, owner, *++step - '0');
                }
        }
        assert_requests(fixture, row->requests);
        assert_int_equal(image_is_syncing(fixture->image), !!strstr(row->requests, "syncing"));
        assert_int_equal(image_status(fixture->image)->version, row->version);
}

TEST_F(test_other_change_is_not_done_again, Fixture *fixture) {
        ask(fixture, "a", 1);
        finish(fixture, IMAGE_SUCCEEDED);
        set_request(fixture, "a", "nginx", 1, 600, REQUEST_ONCE);
        reconcile(fixture);
        assert_false(image_is_syncing(fixture->image));
        assert_int_equal(desired_image(fixture->image)->ttl_sec, 600);
}

/* A request that comes later, for more than the pull gives, shares its success but not its failure. */
TEST(test_failure_of_a_pull_that_was_joined) {
        static const struct {
                More more;
                bool is_late;
                bool has_own;
        } rows[] = {
                { MORE_NOTHING, false, false }, { MORE_TIMEOUT, false, true },
                { MORE_ATTEMPTS, false, true }, { MORE_DEADLINE, false, true },
                { MORE_SECRET, false, true },   { MORE_NOTHING, true, true },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                for (int succeeds = 0; succeeds < 2; succeeds++) {
                        bool has_own = rows[i].has_own && !succeeds;
                        cleanup(fixture_done) Fixture fixture;

                        fixture_init(&fixture);
                        set_more(&fixture, "a", MORE_NOTHING);
                        reconcile(&fixture);
                        if (rows[i].is_late)
                                begin(&fixture);
                        set_more(&fixture, "b", rows[i].more);
                        reconcile(&fixture);
                        assert_requests(&fixture, "a:syncing b:syncing ");

                        finish(&fixture, succeeds ? IMAGE_SUCCEEDED : IMAGE_FAILED);
                        assert_requests(&fixture, has_own ? "a:done b:syncing " : "a:done b:done ");
                        assert_int_equal(image_is_syncing(fixture.image), has_own);
                        assert_results(&fixture, has_own ? "a " : "a b ");
                        if (!has_own)
                                continue;

                        begin(&fixture);
                        assert_int_equal(keys.n_secrets, rows[i].more == MORE_SECRET);
                        finish(&fixture, IMAGE_FAILED);
                        assert_requests(&fixture, "a:done b:done ");
                }
}

/* The pull began without a deadline, and for a longer timeout, for the sake of the request that leaves. */
TEST_F(test_patient_request_leaves, Fixture *fixture) {
        cleanup(desired_image_done) DesiredImage desired;

        assert_ok(desired_image_init(&desired, "nginx", "1.25"));
        desired.timeout_sec = 7200;
        assert_ok(image_set_request(fixture->image, "a", &desired, REQUEST_EPHEMERAL));
        desired.timeout_sec = 5;
        desired.active_deadline_sec = 1;
        assert_ok(image_set_request(fixture->image, "b", &desired, REQUEST_ONCE));
        reconcile(fixture);
        begin(fixture);
        assert_int_equal(image_withdraw(fixture->image, "a"), 1);
        reconcile(fixture);
        assert_requests(fixture, "b:syncing ");
        assert_int_equal(pull_result(image_pull(fixture->image)).desired->timeout_sec, 5);
        while (image_is_syncing(fixture->image)) {
                assert_true(sd_event_run(fixture->event, WAIT_USEC) > 0);
                if (fake_runtime_find("ListIngests")) /* the progress is asked for meanwhile */
                        fake_runtime_refuse("ListIngests", ERROR_UNSUPPORTED, "no such service");
                reconcile(fixture);
        }
        assert_requests(fixture, "b:done ");
        assert_int_equal(image_status(fixture->image)->reason, PULL_REASON_DEADLINE);
}

/* Requests with a deadline end by it, each one by its own, while the pull goes on for one without. */
TEST_F(test_deadline_of_an_impatient_request, Fixture *fixture) {
        const RequestClock now = { .wall_sec = NOW, .monotonic_sec = 100 };
        cleanup(desired_image_done) DesiredImage desired;
        int64_t next;

        assert_ok(desired_image_init(&desired, "nginx", "1.25"));
        assert_ok(image_set_request(fixture->image, "ever", &desired, REQUEST_ONCE));
        desired.active_deadline_sec = 0;
        assert_ok(image_set_request(fixture->image, "now", &desired, REQUEST_ONCE));
        reconcile(fixture);
        assert_requests(fixture, "ever:syncing now:syncing "); /* the time begins with the turn */
        assert_ok(image_expire(fixture->image, &now, &next));
        assert_true(next == INT64_MAX);
        begin(fixture);
        fixture->is_dirty = false;
        assert_ok(image_expire(fixture->image, &now, &next));
        assert_true(fixture->is_dirty);
        desired.active_deadline_sec = 3600;
        assert_ok(image_set_request(fixture->image, "soon", &desired, REQUEST_ONCE));
        reconcile(fixture);
        assert_requests(fixture, "ever:syncing now:done soon:syncing ");
        assert_results(fixture, "now ");
        assert_outcome(fixture, "now", "nginx", "Failed");
        assert_contains(image_status_for(fixture->image, "now", "nginx")->message,
                        "pulling exceeds the activeDeadlineSeconds (0)");
        assert_ok(image_expire(fixture->image, &now, &next));
        assert_in_range(next, 100 + 3590, 100 + 3600);
        finish(fixture, IMAGE_SUCCEEDED);
        assert_outcome(fixture, "now", "nginx", "Failed");
        assert_outcome(fixture, "soon", "nginx", "Succeeded");
}

/* The same as begin(), for an image that the runtime is asked for first. */
static void begin_absent(Fixture *fixture) {
        assert_ok(pulls_serve(&fixture->context));
        if (fake_runtime_find("ImageStatus"))
                fake_runtime_answer_status(NULL);
        begin(fixture);
}

/* A pull without a limit has begun for less than a request, a later one or its own that was changed, asks
 * for now: the next attempt has it, and no request fails before that. */
TEST(test_pull_that_never_ends_lacks_something) {
        static const struct {
                More more;
                const char *owner;
                int64_t version;
                PullPolicy policy;
        } rows[] = {
                { MORE_SECRET, "b", 0, PULL_POLICY_IF_NOT_PRESENT },
                { MORE_TIMEOUT, "b", 0, PULL_POLICY_IF_NOT_PRESENT },
                { MORE_NOTHING, "b", 1, PULL_POLICY_IF_NOT_PRESENT },
                { MORE_NOTHING, "b", 0, PULL_POLICY_ALWAYS },
                { MORE_SECRET, "a", 0, PULL_POLICY_IF_NOT_PRESENT },
                { MORE_TIMEOUT, "a", 0, PULL_POLICY_IF_NOT_PRESENT },
                { MORE_NOTHING, "a", 0, PULL_POLICY_ALWAYS },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++)
                for (unsigned in_pause = 0; in_pause < 2; in_pause++) {
                        cleanup(desired_image_done) DesiredImage desired = { .name = NULL };
                        cleanup(fixture_done) Fixture fixture;

                        fixture_init(&fixture);
                        assert_ok(desired_image_init(&desired, "nginx", "1.25"));
                        desired.policy = PULL_POLICY_IF_NOT_PRESENT;
                        assert_ok(image_set_request(fixture.image, "a", &desired, REQUEST_RESTORE));
                        reconcile(&fixture);
                        begin_absent(&fixture);
                        if (in_pause)
                                refuse_pull(&fixture);

                        desired.policy = rows[i].policy;
                        desired.version = rows[i].version;
                        desired.timeout_sec += rows[i].more == MORE_TIMEOUT;
                        if (rows[i].more == MORE_SECRET)
                                assert_ok(desired_image_add_secret(&desired, "team", "key"));
                        if (rows[i].owner[0] == 'b')
                                desired.backoff_limit = 0;
                        assert_ok(image_set_request(fixture.image, rows[i].owner, &desired,
                                                    REQUEST_ONCE));
                        reconcile(&fixture);
                        if (!in_pause)
                                refuse_pull(&fixture);

                        begin_absent(&fixture);
                        assert_int_equal(keys.n_secrets, rows[i].more == MORE_SECRET);
                        assert_int_equal(image_status(fixture.image)->version, rows[i].version);
                        fake_runtime_answer_pull(ID);
                        fake_runtime_answer_status(ID);
                        reconcile(&fixture);
                        assert_requests(&fixture,
                                        rows[i].owner[0] == 'b' ? "a:done b:done " : "a:done ");
                        assert_outcome(&fixture, rows[i].owner, "nginx", "Succeeded");
                }
}

/* The outcome of finished requests does not change with the image's later course. */
TEST_F(test_outcomes_are_kept, Fixture *fixture) {
        ask(fixture, "a", 1);
        finish(fixture, IMAGE_SUCCEEDED);
        assert_results(fixture, "a ");

        ask(fixture, "b", 1);
        assert_outcome(fixture, "a", "nginx", "Succeeded");
        assert_outcome(fixture, "b", "nginx", "Waiting");
        finish(fixture, IMAGE_FAILED);
        assert_results(fixture, "b ");
        assert_outcome(fixture, "a", "nginx", "Succeeded");
        assert_outcome(fixture, "b", "nginx", "Failed");
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_SUCCEEDED);

        ask(fixture, "a", 2);
        finish(fixture, IMAGE_SUCCEEDED);
        assert_outcome(fixture, "a", "nginx", "Succeeded");
        assert_outcome(fixture, "b", "nginx", "Failed");
}

/* A desired image with a fault fails at once and alone. */
TEST_F(test_fault, Fixture *fixture) {
        set_fault(fixture, "a", 3, "it has no name");
        assert_requests(fixture, "a:done ");
        assert_results(fixture, "a ");
        assert_outcome(fixture, "a", "nginx", "Failed");
        assert_int_equal(image_status(fixture->image)->version, 3);
        assert_string_equal(
                image_status(fixture->image)->message,
                "InvalidSpec: it has no name; correct the request, and give it a new version "
                "(attempt 1 of 1)");

        ask(fixture, "b", 1);
        assert_requests(fixture, "a:done b:syncing ");
        set_fault(fixture, "c", 1, "it has no name");
        assert_outcome(fixture, "c", "nginx", "Failed");
        finish(fixture, IMAGE_SUCCEEDED);
        assert_results(fixture, "b c ");
        assert_outcome(fixture, "a", "nginx", "Failed");
        assert_outcome(fixture, "b", "nginx", "Succeeded");
        assert_outcome(fixture, "c", "nginx", "Failed");

        set_fault(fixture, "a", 3, "it has no name");
        assert_results(fixture, "");
        set_more(fixture, "c", MORE_NOTHING); /* another version, without the fault */
        reconcile(fixture);
        assert_requests(fixture, "a:done b:done c:syncing ");
}

/* An outcome from elsewhere is for one spelling of one version, and not for finished requests. */
TEST_F(test_set_done, Fixture *fixture) {
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

        request(fixture, "a", 1);
        set_request(fixture, "a", "docker.io/library/nginx", 1, DESIRED_IMAGE_NO_LIMIT,
                    REQUEST_ONCE);
        reconcile(fixture);
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                ImageStatus status = { .phase = IMAGE_FAILED, .completed_at = NOW };

                assert_int_equal(image_set_done(fixture->image, rows[i].owner, rows[i].name,
                                                rows[i].version, &status),
                                 rows[i].is_taken);
        }

        assert_false(image_marks(fixture->image)->is_unverified);
        reconcile(fixture);
        assert_outcome(fixture, "a", "nginx", "Failed");
        assert_outcome(fixture, "a", "docker.io/library/nginx", "Waiting");
        finish(fixture, IMAGE_SUCCEEDED);
        assert_outcome(fixture, "a", "nginx", "Failed");
        assert_outcome(fixture, "a", "docker.io/library/nginx", "Succeeded");
        assert_int_equal(fake_runtime_n_asked("PullImage"), 1);
}

/* A refusal that was reported before the last restart is not reported again. */
TEST_F(test_restored_fault_is_not_reported, Fixture *fixture) {
        ImageStatus status = { .phase = IMAGE_FAILED, .completed_at = NOW };

        set_fault(fixture, "a", 1, "it has no name");
        assert_int_equal(image_set_done(fixture->image, "a", "nginx", 1, &status), 1);
        assert_results(fixture, "");
        assert_int_equal(image_status_for(fixture->image, "a", "nginx")->completed_at, NOW);
}

TEST_F(test_last_owner_leaves, Fixture *fixture) {
        request(fixture, "a", 1);
        sweep(fixture, "a"); /* it was seen */
        reconcile(fixture);
        assert_true(image_is_syncing(fixture->image));

        sweep(fixture, "a");
        reconcile(fixture);
        assert_false(image_is_syncing(fixture->image));
        assert_false(image_is_desired(fixture->image));
        assert_int_equal(n_pending(fixture), 0);
}

TEST_F(test_one_of_two_owners_leaves, Fixture *fixture) {
        request(fixture, "a", 1);
        ask(fixture, "b", 1);
        begin(fixture);
        sweep(fixture, "a");
        sweep(fixture, "a");
        reconcile(fixture);
        assert_int_equal(fake_runtime_n_asked("PullImage"), 1);
        assert_non_null(fake_runtime_find("PullImage"));
        assert_requests(fixture, "b:syncing ");
}

/* An owner may spell the image in two ways, and drop one of them. */
TEST_F(test_two_spellings, Fixture *fixture) {
        request(fixture, "a", 1);
        set_request(fixture, "a", "docker.io/library/nginx", 1, DESIRED_IMAGE_NO_LIMIT,
                    REQUEST_ONCE);
        reconcile(fixture);
        assert_requests(fixture, "a:syncing a:syncing ");

        sweep(fixture, "a");
        request(fixture, "a", 1);
        sweep(fixture, "a");
        assert_requests(fixture, "a:syncing ");
        assert_string_equal(image_requests(fixture->image)->desired.name, "nginx");
}

TEST_F(test_withdraw, Fixture *fixture) {
        request(fixture, "a", 1);
        ask(fixture, "b", 1);
        finish(fixture, IMAGE_SUCCEEDED);
        assert_ok(image_withdraw(fixture->image, "a")); /* it is done */
        request(fixture, "c", 1);
        set_request(fixture, "c", "docker.io/library/nginx", 1, DESIRED_IMAGE_NO_LIMIT,
                    REQUEST_ONCE);
        reconcile(fixture);
        assert_int_equal(image_withdraw(fixture->image, "c"), 2);
        reconcile(fixture);
        assert_false(image_is_syncing(fixture->image));
        assert_requests(fixture, "a:done b:done ");
}

static bool is_first(const ImageRequest *request, const void *userdata) {
        return request->owner[0] == 'a';
}

/* The pin ends with its last request, also by that one's time to live. */
TEST_F(test_pins_of_two_owners, Fixture *fixture) {
        set_request(fixture, "c", "nginx", 1, 30, REQUEST_ONCE);
        assert_false(image_wants_pin(fixture->image));
        set_more(fixture, "a", MORE_PIN);
        set_more(fixture, "b", MORE_PIN);
        assert_true(image_wants_pin(fixture->image));
        assert_int_equal(image_unpin(fixture->image, is_first, NULL), 1);
        assert_true(image_wants_pin(fixture->image));
        assert_int_equal(image_unpin(fixture->image, is_first, NULL), 0);
        sweep(fixture, "b");
        sweep(fixture, "b");
        assert_false(image_wants_pin(fixture->image));
}

TEST_F(test_pin_that_is_not_in_effect, Fixture *fixture) {
        ask(fixture, "a", 1);
        assert_int_equal(image_set_pin(fixture->image, "not pinned: x"), 0); /* not there yet */
        finish(fixture, IMAGE_SUCCEEDED);
        fixture->is_dirty = false;
        assert_int_equal(image_set_pin(fixture->image, NULL), 0);
        assert_false(fixture->is_dirty);
        assert_int_equal(image_set_pin(fixture->image, "not pinned: x"), 1);
        assert_true(fixture->is_dirty);
        assert_string_equal(image_status_message(image_status(fixture->image)), "not pinned: x");
        assert_int_equal(image_set_pin(fixture->image, "not pinned: x"), 0);
        assert_int_equal(image_set_pin(fixture->image, NULL), 1);
        assert_null(image_status_message(image_status(fixture->image)));
}

TEST_F(test_requests_are_merged, Fixture *fixture) {
        set_request(fixture, "b", "nginx", 1, 60, REQUEST_ONCE);
        set_request(fixture, "a", "nginx", 4, 30, REQUEST_ONCE);
        assert_int_equal(desired_image(fixture->image)->version, 4);
        assert_int_equal(desired_image(fixture->image)->ttl_sec, 60);
        reconcile(fixture);
        assert_int_equal(image_status(fixture->image)->version, 4);
}

TEST_F(test_malformed, Fixture *fixture) {
        name_image(fixture, "NGINX", "1.25");
        set_request(fixture, "a", "NGINX", 3, DESIRED_IMAGE_NO_LIMIT, REQUEST_ONCE);
        reconcile(fixture);
        assert_false(image_is_syncing(fixture->image));
        assert_requests(fixture, "a:done ");
        assert_int_equal(image_status(fixture->image)->phase, IMAGE_FAILED);
        assert_int_equal(image_status(fixture->image)->reason, PULL_REASON_INVALID_REFERENCE);
        assert_true(image_status(fixture->image)->completed_at > 0);
        assert_true(strncmp(image_status(fixture->image)->message, "InvalidReference: ", 18) == 0);
}

/* A status is the answer to one version, also when it says no. */
TEST_F(test_malformed_answers_the_version, Fixture *fixture) {
        name_image(fixture, "NGINX", "1.25");
        set_request(fixture, "a", "NGINX", 3, DESIRED_IMAGE_NO_LIMIT, REQUEST_ONCE);
        reconcile(fixture);
        assert_int_equal(image_status(fixture->image)->version, 3);
}

#define BOOTED 1000 /* wall time at which the monotonic clock began */

static void assert_ends(Fixture *fixture, int64_t wall_sec, int64_t monotonic_sec, int64_t next) {
        const RequestClock now = { .wall_sec = wall_sec, .monotonic_sec = monotonic_sec };
        int64_t ret_next = 0;

        assert_ok(image_expire(fixture->image, &now, &ret_next));
        assert_int_equal(ret_next, next);
}

static void assert_expires(Fixture *fixture, int64_t now, int64_t next) {
        assert_ends(fixture, now, now - BOOTED, next == INT64_MAX ? next : next - BOOTED);
}

TEST_F(test_expire, Fixture *fixture) {
        int64_t now;

        set_request(fixture, "a", "nginx", 1, 60, REQUEST_ONCE);
        set_request(fixture, "b", "nginx", 1, 30, REQUEST_EPHEMERAL);
        request(fixture, "c", 1);
        assert_expires(fixture, INT64_MAX, INT64_MAX); /* none is done yet */
        reconcile(fixture);
        assert_expires(fixture, INT64_MAX, INT64_MAX);
        finish(fixture, IMAGE_SUCCEEDED);

        now = image_status(fixture->image)->completed_at;
        fixture->is_dirty = false;
        assert_expires(fixture, now, now + 30);
        assert_expires(fixture, now + 29, now + 30);
        assert_false(fixture->is_dirty);
        assert_expires(fixture, now + 30, now + 60);
        assert_requests(fixture, "a:done c:done "); /* the transient one leaves */
        assert_true(fixture->is_dirty);

        assert_expires(fixture, now + 60, INT64_MAX);
        assert_requests(fixture, "a:done,expired c:done ");
        assert_true(image_is_desired(fixture->image));
}

/* A pin of a caller has no time to live; without its image it ends as other requests of callers do. */
TEST_F(test_pin_of_a_failure_expires, Fixture *fixture) {
        cleanup(desired_image_done) DesiredImage desired;
        int64_t now;

        assert_ok(desired_image_init(&desired, "nginx", "1.25"));
        desired.is_pinned = true;
        desired.backoff_limit = 0;
        assert_ok(image_set_request(fixture->image, "a", &desired, REQUEST_EPHEMERAL));
        reconcile(fixture);
        finish(fixture, IMAGE_FAILED);
        now = image_status(fixture->image)->completed_at;
        assert_expires(fixture, now, now + 600);
        assert_requests(fixture, "a:done ");
        assert_expires(fixture, now + 600, INT64_MAX);
        assert_requests(fixture, "");
        assert_false(image_wants_pin(fixture->image));

        assert_ok(image_set_request(fixture->image, "a", &desired, REQUEST_EPHEMERAL));
        reconcile(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        assert_expires(fixture, now + 3600, INT64_MAX);
        assert_true(image_wants_pin(fixture->image));
}

/* A time to live is as long as it says, however the clock is set meanwhile. */
TEST_F(test_expire_beside_the_clock, Fixture *fixture) {
        int64_t now;

        set_request(fixture, "a", "nginx", 1, 60, REQUEST_ONCE);
        reconcile(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        now = image_status(fixture->image)->completed_at;
        assert_ends(fixture, now + 11, 500, 550);
        assert_ends(fixture, now + 3600, 510, 550);
        assert_ends(fixture, now - 3600, 549, 550);
        assert_ends(fixture, now - 3600, 550, INT64_MAX);
        assert_requests(fixture, "a:done,expired ");

        /* An outcome of a clock that was ahead counts as one of now. */
        set_request(fixture, "a", "nginx", 2, 60, REQUEST_ONCE);
        reconcile(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        now = image_status(fixture->image)->completed_at;
        assert_ends(fixture, now - 3600, 500, 560);
        assert_ends(fixture, now - 3580, 520, 560);
        assert_ends(fixture, now - 3540, 560, INT64_MAX);

        /* An outcome of before the start of the machine has its age. */
        set_request(fixture, "a", "nginx", 3, 3600, REQUEST_ONCE);
        reconcile(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        now = image_status(fixture->image)->completed_at;
        assert_ends(fixture, now + 3001, 100, 700);

        /* The outcome came at the end of a second, or the clock is read at the begin of the next one. */
        set_request(fixture, "a", "nginx", 4, 60, REQUEST_ONCE);
        reconcile(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        now = image_status(fixture->image)->completed_at;
        assert_ends(fixture, now + 1, 500, 560);
}

TEST_F(test_expired_is_not_done_again, Fixture *fixture) {
        set_request(fixture, "a", "nginx", 1, 0, REQUEST_ONCE);
        reconcile(fixture);
        finish(fixture, IMAGE_FAILED);
        assert_expires(fixture, time(NULL) + 1, INT64_MAX);
        assert_false(image_is_desired(fixture->image));
        assert_null(desired_image(fixture->image));
        set_request(fixture, "a", "nginx", 1, 0, REQUEST_ONCE);
        reconcile(fixture);
        assert_false(image_is_syncing(fixture->image));

        set_request(fixture, "a", "nginx", 2, 0, REQUEST_ONCE); /* it asks for something new */
        reconcile(fixture);
        assert_requests(fixture, "a:syncing ");
        assert_true(image_is_desired(fixture->image));
}

/* A removed image is pulled again only as long as a request wants it. */
TEST_F(test_expires_while_it_is_pulled_again, Fixture *fixture) {
        int64_t now;

        set_request(fixture, "a", "nginx", 1, 60, REQUEST_RESTORE);
        reconcile(fixture);
        finish(fixture, IMAGE_SUCCEEDED);
        now = image_status(fixture->image)->completed_at;
        remove_image(fixture, false);
        kick(fixture);
        begin(fixture);
        assert_requests(fixture, "a:syncingdone ");
        assert_expires(fixture, now + 61, INT64_MAX);
        reconcile(fixture);
        assert_requests(fixture, "a:done,expired ");
        assert_false(image_is_syncing(fixture->image));
        assert_int_equal(n_pending(fixture), 0);
}

TEST_F(test_malformed_expires, Fixture *fixture) {
        int64_t end;

        name_image(fixture, "NGINX", "1.25");
        set_request(fixture, "a", "NGINX", 1, 60, REQUEST_EPHEMERAL);
        end = image_status(fixture->image)->completed_at + 60;
        assert_expires(fixture, end - 1, end + 1);
        assert_expires(fixture, end + 1, INT64_MAX);
        assert_null(image_requests(fixture->image));
}

static void restore(Fixture *fixture, const char *owner, int64_t version, bool is_expired) {
        const FormerRequest former = {
                .owner = owner, .version = version, .is_done = true, .is_expired = is_expired
        };

        assert_ok(image_restore_request(fixture->image, &former));
}

TEST_F(test_restored, Fixture *fixture) {
        ImageStatus status = {
                .phase = IMAGE_SUCCEEDED, .completed_at = NOW, .version = 2, .image_id = strdup(ID)
        };

        image_restore_status(fixture->image, &status);
        assert_null(status.image_id); /* taken over */
        restore(fixture, "a", 2, false);
        restore(fixture, "b", 1, true);
        request(fixture, "a", 2);
        request(fixture, "b", 1);
        image_restore_end(fixture->image);
        reconcile(fixture);
        assert_false(image_is_syncing(fixture->image));
        assert_requests(fixture, "a:done b:done,expired ");
        assert_string_equal(image_status(fixture->image)->image_id, ID);
        assert_int_equal(image_status(fixture->image)->version, 2);
}

TEST_F(test_restored_but_changed, Fixture *fixture) {
        restore(fixture, "a", 1, true);
        restore(fixture, "b", 1, false);
        request(fixture, "a", 2); /* another version than was done */
        request(fixture, "c", 1); /* an owner that was not there */
        image_restore_end(fixture->image);
        request(fixture, "b", 1); /* an owner that comes too late */
        reconcile(fixture);
        assert_requests(fixture, "a:syncing b:syncing c:syncing ");
}

TEST_F(test_restored_in_two_spellings, Fixture *fixture) {
        restore(fixture, "a", 1, false);
        restore(fixture, "a", 1, false);
        request(fixture, "a", 1);
        set_request(fixture, "a", "docker.io/library/nginx", 1, DESIRED_IMAGE_NO_LIMIT,
                    REQUEST_ONCE);
        image_restore_end(fixture->image);
        reconcile(fixture);
        assert_requests(fixture, "a:done a:done ");
}

/* Each spelling has its own outcome; one that was not there before gets that of another one. */
TEST_F(test_restored_per_spelling, Fixture *fixture) {
        const ImageStatus outcome = { .phase = IMAGE_FAILED, .completed_at = NOW };
        const FormerRequest former[] = {
                { .owner = "a",
                  .spelling = "nginx",
                  .version = 1,
                  .is_done = true,
                  .is_expired = true },
                { .owner = "a", .spelling = "docker.io/library/nginx", .version = 1 },
                { .owner = "b",
                  .spelling = "nginx",
                  .version = 1,
                  .is_done = true,
                  .outcome = &outcome },
        };

        for (size_t i = 0; i < N_ELEMENTS(former); i++)
                assert_ok(image_restore_request(fixture->image, &former[i]));
        request(fixture, "a", 1);
        set_request(fixture, "a", "docker.io/library/nginx", 1, DESIRED_IMAGE_NO_LIMIT,
                    REQUEST_ONCE);
        set_request(fixture, "b", "docker.io/library/nginx", 1, DESIRED_IMAGE_NO_LIMIT,
                    REQUEST_ONCE);
        image_restore_end(fixture->image);
        reconcile(fixture);
        assert_requests(fixture, "a:done,expired a:syncing b:done ");
        assert_outcome(fixture, "b", "docker.io/library/nginx", "Failed");
}

/* The owner comes after the end of the restoring, and calls the image by its whole name. */
TEST_F(test_restored_in_another_spelling, Fixture *fixture) {
        ImageStatus status = { .phase = IMAGE_FAILED, .completed_at = NOW };

        image_restore_status(fixture->image, &status);
        restore(fixture, "a", 1, false);
        request(fixture, "a", 1);
        sweep(fixture, "a");
        image_restore_end(fixture->image);
        set_request(fixture, "a", "docker.io/library/nginx", 1, DESIRED_IMAGE_NO_LIMIT,
                    REQUEST_ONCE);
        sweep(fixture, "a");
        reconcile(fixture);
        assert_requests(fixture, "a:done ");
        assert_outcome(fixture, "a", "docker.io/library/nginx", "Failed");
}

TEST_F(test_restored_outcome, Fixture *fixture) {
        const ImageStatus outcome = { .phase = IMAGE_SUCCEEDED, .completed_at = NOW - 1 };
        ImageStatus status = { .phase = IMAGE_FAILED, .completed_at = NOW };

        image_restore_status(fixture->image, &status);
        restore(fixture, "a", 2, false);
        assert_ok(image_restore_request(fixture->image, &(FormerRequest){ .owner = "a",
                                                                          .version = 1,
                                                                          .is_done = true,
                                                                          .outcome = &outcome }));
        restore(fixture, "a", 1, false);
        restore(fixture, "b", 1, false);
        request(fixture, "a", 1);
        request(fixture, "b", 1);
        image_restore_end(fixture->image);
        assert_requests(fixture, "a:done b:done ");
        assert_outcome(fixture, "a", "nginx", "Succeeded");
        assert_outcome(fixture, "b", "nginx", "Failed");
}

TEST_F(test_runtime_change_is_passed_on, Fixture *fixture) {
        ask(fixture, "a", 1);
        begin(fixture);
        fake_runtime.is_away = true;
        assert_ok(image_runtime_changed(fixture->image));
        assert_int_equal(image_status(fixture->image)->step, IMAGE_STEP_WAITING_FOR_RUNTIME);
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
            is_syncing != (n_pending(fixture) > 0))
                fail_msg("seed %u: %u due, %u in the sync", seed, n_due, n_syncing);
}

static void random_step(Fixture *fixture) {
        const char *owner = (const char *[]){ "a", "b", "c" }[random() % 3];
        RequestClock now;
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
                now = (RequestClock){ time(NULL) + random() % 40, random() % 40 };
                assert_ok(image_expire(fixture->image, &now, &next));
                break;
        case 5:
                reconcile(fixture);
                if (image_is_syncing(fixture->image))
                        finish(fixture, random() % 2 ? IMAGE_SUCCEEDED : IMAGE_FAILED);
                break;
        }
}

/* The image stays sound in any order of events, and comes to rest when no event follows. */
TEST(test_random) {
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
