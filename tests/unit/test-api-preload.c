/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The calls of the local API that request images and withdraw the requests
 */

#include "agent/document/json-patch.h"
#include "tests/unit/api-fixture.h"

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define JO ((Peer){ .uid = 4000000, .pid = 7 })
#define PASSES fake_clock_pass(fixture->event, 0)

static unsigned n_state_writes;

int __wrap_state_file_write_now(StateFile *file);

int __wrap_state_file_write_now(StateFile *file) {
        n_state_writes++;
        return 0;
}

/* As agent/api/api.c does. */
static int on_image(Image *image, void *userdata) {
        return preloads_on_image(userdata, image);
}

static void watch(Fixture *fixture) {
        n_state_writes = 0;
        fixture->api.watcher = (ImagesWatcher){ .on_image = on_image, .userdata = &fixture->api };
        images_watch(fixture->api.images, &fixture->api.watcher);
}

static void preload(Fixture *fixture, Inplaced__V1__PreloadRequest *message,
                    const char *const *images, RpcRequest *caller) {
        message->images = (char **) images;
        message->n_images = 0;
        while (images[message->n_images])
                message->n_images++;
        caller->has_room = true;
        assert_ok(api_preload(caller, message, &fixture->api));
        PASSES;
}

/* Members of an event that say nothing. */
static const char *const nothing[] = { ",'attempt':0",        ",'bytesDone':0",
                                       ",'bytesTotal':0",     ",'imageID':''",
                                       ",'reason':''",        ",'message':''",
                                       ",'wasPresent':false", ",'repoDigests':[]",
                                       ",'bytesFetched':0",   ",'nextAttemptTime':0" };

/* The caller reads all that there is; the ID of the request is random. */
static const char *read_all(RpcRequest *caller) {
        static char text[8192];
        char *at;

        text[0] = '\0';
        do {
                strcat(text, caller->text);
                if (caller->has_ended)
                        break;
                played_read(caller);
        } while (caller->text[0]);
        caller->text[0] = '\0';
        for (at = text; (at = strstr(at, "'requestID':'")); at++)
                memmove(at, at + strlen("'requestID':'',") + 16,
                        strlen(at + strlen("'requestID':'',") + 16) + 1);
        for (size_t i = 0; i < N_ELEMENTS(nothing); i++)
                while ((at = strstr(text, nothing[i])))
                        memmove(at, at + strlen(nothing[i]), strlen(at + strlen(nothing[i])) + 1);
        return text;
}

static const char *owner_of(Fixture *fixture, size_t i) {
        const ImageRequest *request = image_requests(images_get(fixture->api.images, i));

        return request ? request->owner : NULL;
}

TEST_F(test_present, Fixture *fixture) {
        static const char *const images[] = { "r.io/a:1", NULL };
        Inplaced__V1__PreloadRequest message = INPLACED__V1__PRELOAD_REQUEST__INIT;
        RpcRequest caller = { .peer = JO };

        watch(fixture);
        preload(fixture, &message, images, &caller);
        assert_string_equal(read_all(&caller),
                            "{'image':'r.io/a:1','phase':'Waiting','step':'Queued'}\n"
                            "{'image':'r.io/a:1','phase':'Waiting','step':'Inspecting'}\n");
        fake_runtime_answer_status(A);
        PASSES;
        assert_string_equal(read_all(&caller),
                            "{'image':'r.io/a:1','phase':'Succeeded','step':'Queued','imageID':'" A
                            "','wasPresent':true}\n");
        assert_true(caller.has_ended);
        assert_int_equal(caller.refusal.kind, ERROR_NONE);
        assert_null(fixture->api.preloads);
        assert_int_equal(n_state_writes, 0);
}

/* A malformed reference fails alone, and the same image under two names is pulled once. */
TEST_F(test_several, Fixture *fixture) {
        static const char *const images[] = { "r.io/a:1", "r.io/A:1", "r.io/a:1", "r.io/b", NULL };
        Inplaced__V1__PreloadRequest message = INPLACED__V1__PRELOAD_REQUEST__INIT;
        RpcRequest caller = { .peer = JO };

        watch(fixture);
        message.pull_policy = INPLACED__V1__PULL_POLICY__PULL_POLICY_ALWAYS;
        message.backoff_limit_presence_case =
                INPLACED__V1__PRELOAD_REQUEST__BACKOFF_LIMIT_PRESENCE_BACKOFF_LIMIT;
        preload(fixture, &message, images, &caller);
        assert_int_equal(images_count(fixture->api.images), 2);
        assert_string_equal(
                read_all(&caller),
                "{'image':'r.io/a:1','phase':'Waiting','step':'Queued'}\n"
                "{'image':'r.io/A:1','phase':'Failed','step':'Queued','reason':'InvalidReference','message':'InvalidReference: invalid image reference \\'r.io/A:1\\': the repository must be in lower case; correct the name, the tag or the digest (attempt 1 of 1)'}\n"
                "{'image':'r.io/a:1','phase':'Pulling','step':'Resolving','attempt':1}\n"
                "{'image':'r.io/b','phase':'Waiting','step':'Queued'}\n"
                "{'image':'r.io/a:1','phase':'Pulling','step':'Resolving','attempt':1}\n");
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "not found");
        PASSES;
        assert_string_equal(
                read_all(&caller),
                "{'image':'r.io/a:1','phase':'Failed','step':'Queued','attempt':1,'reason':'NotFound','message':'NotFound: not found; check the name and the tag (attempt 1 of 1)'}\n"
                "{'image':'r.io/b','phase':'Pulling','step':'Resolving','attempt':1}\n"
                "{'image':'r.io/a:1','phase':'Failed','step':'Queued','attempt':1,'reason':'NotFound','message':'NotFound: not found; check the name and the tag (attempt 1 of 1)'}\n");
        fake_runtime_answer_pull(A);
        fake_runtime_answer_status(A);
        PASSES;
        assert_string_equal(
                read_all(&caller),
                "{'image':'r.io/b','phase':'Succeeded','step':'Queued','attempt':1,'imageID':'" A
                "'}\n");
        assert_true(caller.has_ended);
}

TEST_F(test_limits, Fixture *fixture) {
        static const char *const images[] = { "r.io/a:1", NULL };
        Inplaced__V1__PreloadRequest message = INPLACED__V1__PRELOAD_REQUEST__INIT;
        RpcRequest caller = { .peer = JO };
        const DesiredImage *desired;

        watch(fixture);
        preload(fixture, &message, images, &caller);
        desired = &image_requests(images_get(fixture->api.images, 0))->desired;
        assert_int_equal(desired->policy, PULL_POLICY_IF_NOT_PRESENT);
        assert_int_equal(desired->timeout_sec, 600);
        assert_int_equal(desired->backoff_limit, DESIRED_IMAGE_NO_LIMIT);
        assert_int_equal(desired->refusal_limit, DESIRED_IMAGE_NO_LIMIT);
        assert_int_equal(desired->active_deadline_sec, DESIRED_IMAGE_NO_LIMIT);
        assert_int_equal(desired->ttl_sec, 600);
        assert_false(desired->is_pinned || desired->is_complete);
        played_leave(&caller);
        assert_null(owner_of(fixture, 0));

        message.pull_policy = INPLACED__V1__PULL_POLICY__PULL_POLICY_ALWAYS;
        message.timeout_seconds = 7;
        message.active_deadline_seconds = INT64_MAX;
        message.backoff_limit_presence_case =
                INPLACED__V1__PRELOAD_REQUEST__BACKOFF_LIMIT_PRESENCE_BACKOFF_LIMIT;
        message.backoff_limit = 2;
        message.refusal_limit_presence_case =
                INPLACED__V1__PRELOAD_REQUEST__REFUSAL_LIMIT_PRESENCE_REFUSAL_LIMIT;
        message.refusal_limit = 0;
        message.complete = message.pin = true;
        caller = (RpcRequest){ .peer = JO };
        preload(fixture, &message, images, &caller);
        desired = &image_requests(images_get(fixture->api.images, 0))->desired;
        assert_int_equal(desired->policy, PULL_POLICY_ALWAYS);
        assert_int_equal(desired->timeout_sec, 7);
        assert_int_equal(desired->backoff_limit, 2);
        assert_int_equal(desired->refusal_limit, 0);
        assert_int_equal(desired->active_deadline_sec, INT32_MAX);
        assert_int_equal(desired->ttl_sec, DESIRED_IMAGE_NO_LIMIT);
        assert_true(desired->is_pinned && desired->is_complete);
        played_leave(&caller);

        message.active_deadline_seconds = 8;
        message.ttl_seconds_after_finished = 9;
        caller = (RpcRequest){ .peer = JO };
        preload(fixture, &message, images, &caller);
        desired = &image_requests(images_get(fixture->api.images, 0))->desired;
        assert_int_equal(desired->active_deadline_sec, 8);
        assert_int_equal(desired->ttl_sec, 9);
        played_leave(&caller);
}

static const struct RefusalRow {
        const char *name;
        Inplaced__V1__PreloadRequest message;
        size_t n_images;
        const char *image;
        const char *refusal;
} refusal_rows[] = {
        { "no image", { .n_images = 0 }, 0, "r.io/a:1", "no image was named" },
        { "too many images",
          { .n_images = 0 },
          4097,
          "r.io/a:1",
          "more than 4096 images in one request" },
        { "no policy", { .pull_policy = 3 }, 1, "r.io/a:1", "there is no pull policy 3" },
        { "a negative policy", { .pull_policy = -1 }, 1, "r.io/a:1", "there is no pull policy -1" },
        { "a negative time",
          { .timeout_seconds = -1 },
          1,
          "r.io/a:1",
          "a number of seconds or of attempts is negative" },
        { "a negative deadline",
          { .active_deadline_seconds = -1 },
          1,
          "r.io/a:1",
          "a number of seconds or of attempts is negative" },
        { "a negative time to live",
          { .ttl_seconds_after_finished = -1 },
          1,
          "r.io/a:1",
          "a number of seconds or of attempts is negative" },
        { "a negative number of attempts",
          { .backoff_limit_presence_case = 4, .backoff_limit = -1 },
          1,
          "r.io/a:1",
          "a number of seconds or of attempts is negative" },
        { "a negative number of refusals",
          { .refusal_limit_presence_case = 9, .refusal_limit = -1 },
          1,
          "r.io/a:1",
          "a number of seconds or of attempts is negative" },
        { "no name of an image",
          { .n_images = 0 },
          2,
          "r.io/A:1",
          "invalid image reference \"r.io/A:1\": the repository must be in lower case" },
};

TEST_ROWS_F(test_refusals, refusal_rows, name, const struct RefusalRow *row, Fixture *fixture) {
        Inplaced__V1__PreloadRequest message = INPLACED__V1__PRELOAD_REQUEST__INIT;
        static const char *images[4097];
        RpcRequest caller = { .peer = JO };

        message.pull_policy = row->message.pull_policy;
        message.timeout_seconds = row->message.timeout_seconds;
        message.active_deadline_seconds = row->message.active_deadline_seconds;
        message.ttl_seconds_after_finished = row->message.ttl_seconds_after_finished;
        message.backoff_limit_presence_case = row->message.backoff_limit_presence_case;
        message.backoff_limit = row->message.backoff_limit;
        message.refusal_limit_presence_case = row->message.refusal_limit_presence_case;
        message.refusal_limit = row->message.refusal_limit;
        for (size_t i = 0; i < N_ELEMENTS(images); i++)
                images[i] = row->image;
        message.images = (char **) images;
        message.n_images = row->n_images;
        assert_ok(api_preload(&caller, &message, &fixture->api));
        assert_refusal(&caller, ERROR_INVALID, row->refusal);
        assert_null(fixture->api.preloads);
        assert_int_equal(images_count(fixture->api.images), 0);
}

static void cancel(Fixture *fixture, uid_t uid, const char *id, const char *image,
                   RpcRequest *caller) {
        Inplaced__V1__CancelRequest message = INPLACED__V1__CANCEL_REQUEST__INIT;

        message.request_id = (char *) id;
        message.image = (char *) image;
        *caller = (RpcRequest){ .peer = { .uid = uid, .pid = 7 } };
        assert_ok(api_cancel(caller, &message, &fixture->api));
        PASSES;
}

/* A request that is left with the agent goes on without its caller. */
TEST_F(test_left, Fixture *fixture) {
        static const char *const images[] = { "r.io/a:1", "r.io/b:1", NULL };
        Inplaced__V1__PreloadRequest message = INPLACED__V1__PRELOAD_REQUEST__INIT;
        RpcRequest caller = { .peer = JO }, other;
        char id[17];

        watch(fixture);
        message.detach = true;
        preload(fixture, &message, images, &caller);
        assert_int_equal(n_state_writes, 1);
        assert_string_equal(read_all(&caller),
                            "{'image':'r.io/a:1','phase':'Waiting','step':'Queued'}\n"
                            "{'image':'r.io/b:1','phase':'Waiting','step':'Inspecting'}\n");
        assert_true(caller.has_ended);
        assert_memory_equal(owner_of(fixture, 0), OWNER_REQUEST, strlen(OWNER_REQUEST));
        (void) snprintf(id, sizeof(id), "%s", owner_of(fixture, 0) + strlen(OWNER_REQUEST));

        cancel(fixture, 5000000, id, "", &other);
        assert_int_equal(other.refusal.kind, ERROR_DENIED);
        assert_contains(
                error_message(&other.refusal),
                "only root and the user who made it may cancel it: an unknown user (uid 4000000, pid 7), request ");
        error_done(&other.refusal);
        cancel(fixture, 5000000, "", "r.io/a:1", &other);
        assert_int_equal(other.refusal.kind, ERROR_NONE);
        assert_contains(
                other.text,
                "{'canceled':0,'requestedBy':['an unknown user (uid 4000000, pid 7), request ");
        cancel(fixture, 4000000, "", "r.io/a:1", &other);
        assert_answer(&other, "{'canceled':1,'requestedBy':[]}\n");
        cancel(fixture, 0, id, "", &other);
        assert_answer(&other, "{'canceled':1,'requestedBy':[]}\n");
        cancel(fixture, 0, id, "", &other);
        assert_answer(&other, "{'canceled':0,'requestedBy':[]}\n");
        cancel(fixture, 0, "", "r.io/a:1", &other);
        assert_answer(&other, "{'canceled':0,'requestedBy':[]}\n");
        cancel(fixture, 0, "", "", &other);
        assert_refusal(&other, ERROR_INVALID, "give either a request_id or an image");
        cancel(fixture, 0, id, "r.io/a:1", &other);
        assert_refusal(&other, ERROR_INVALID, "give either a request_id or an image");
        cancel(fixture, 0, "", "r.io/A:1", &other);
        assert_refusal(
                &other, ERROR_INVALID,
                "invalid image reference \"r.io/A:1\": the repository must be in lower case");
}

/* A caller that waits learns that its request was withdrawn. */
TEST_F(test_withdrawn, Fixture *fixture) {
        static const char *const images[] = { "r.io/a:1", NULL };
        Inplaced__V1__PreloadRequest message = INPLACED__V1__PRELOAD_REQUEST__INIT;
        RpcRequest caller = { .peer = JO }, other;

        watch(fixture);
        preload(fixture, &message, images, &caller);
        (void) read_all(&caller);
        cancel(fixture, 4000000, "", "r.io/a:1", &other);
        assert_answer(&other, "{'canceled':1,'requestedBy':[]}\n");
        assert_string_equal(
                read_all(&caller),
                "{'image':'r.io/a:1','phase':'Failed','step':'Queued','reason':'Canceled','message':'Canceled: the image is no longer requested'}\n");
        assert_true(caller.has_ended);
}

/* Open requests of all users but root together have at most so many images. */
TEST_F(test_room, Fixture *fixture) {
        static char names[4096][24];
        static const char *images[4097];
        Inplaced__V1__PreloadRequest message = INPLACED__V1__PRELOAD_REQUEST__INIT;
        RpcRequest callers[4] = { { .peer = JO }, { .peer = JO }, { .peer = JO }, { .peer = JO } };

        watch(fixture);
        message.detach = true;
        for (size_t i = 0; i < 4096; i++) {
                (void) snprintf(names[i], sizeof(names[i]), "r.io/a:%zu", i);
                images[i] = names[i];
        }
        preload(fixture, &message, images, &callers[0]);
        assert_int_equal(callers[0].refusal.kind, ERROR_NONE);
        for (size_t i = 0; i < 4096; i++) {
                (void) snprintf(names[i], sizeof(names[i]), "r.io/b:%zu", i);
                images[i] = names[i];
        }
        preload(fixture, &message, images, &callers[1]);
        assert_refusal(
                &callers[1], ERROR_UNAVAILABLE,
                "too many images are requested through the socket: 4096 more would exceed 4096; wait until some have been pulled");
        played_leave(&callers[0]);
}
