/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls of the local API about images, with a runtime that has them as the test says
 */

#include "tests/unit/api-fixture.h"

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

/* In place of the one of pins.h. */
bool pins_has(const Pins *pins, const char *reference) {
        return strcmp(reference, "r.io/ours:1") == 0;
}

static unsigned n_state_writes;

int __wrap_state_file_write_now(StateFile *file);

int __wrap_state_file_write_now(StateFile *file) {
        n_state_writes++;
        return 0;
}

TEST_F(test_versions, Fixture *fixture) {
        RpcRequest caller = { .path = "/inplaced.v1.Node/GetVersion" };

        assert_ok(api_get_version(&caller, NULL, &fixture->api));
        assert_answer(&caller, "{'serverVersion':'" INPLACED_VERSION
                               "','runtimeName':'containerd','runtimeVersion':'2.1.0',"
                               "'runtimeApiVersion':'v1'}\n");
        assert_int_equal(fixture->n_changes, 1);
}

TEST_F(test_list_of_images, Fixture *fixture) {
        static char *ours[] = { (char *) "r.io/ours:1", (char *) "r.io/\n:1", (char *) "r.io/b:1" };
        static char *digests[] = { (char *) "r.io/ours@" A };
        CriImage images[] = { RUNTIME__V1__IMAGE__INIT, RUNTIME__V1__IMAGE__INIT };
        CriImage *list[] = { &images[0], &images[1] };
        CriImageList reply = RUNTIME__V1__LIST_IMAGES_RESPONSE__INIT;
        RpcRequest caller = { .path = NULL }, other = caller;

        desire(fixture, OWNER_FILE "web.yaml", "r.io/b", "1");
        images[0].id = (char *) A;
        images[0].repo_tags = ours;
        images[0].n_repo_tags = 3;
        images[0].repo_digests = digests;
        images[0].n_repo_digests = 1;
        images[0].size = 7;
        images[0].pinned = true;
        images[1].id = (char *) "\x1b";
        images[1].pinned = true;
        reply.images = list;
        reply.n_images = 2;

        assert_ok(api_list_images(&caller, NULL, &fixture->api));
        assert_ok(api_list_images(&other, NULL, &fixture->api));
        assert_int_equal(fixture->api.n_listings, 2);
        assert_false(caller.has_ended);
        fake_runtime_answer("ListImages", &reply, NULL);
        assert_int_equal(fixture->api.n_listings, 1);
        assert_answer(
                &caller,
                "{'images':[{'id':'" A
                "','repoTags':['r.io/ours:1','r.io/b:1'],'repoDigests':['r.io/ours@" A
                "'],'sizeBytes':7,'pinned':true,'pinnedByInplaced':true,'requestedBy':['folder:web.yaml']},{'id':'?','repoTags':[],'repoDigests':[],'sizeBytes':0,'pinned':true,'pinnedByInplaced':false,'requestedBy':[]}]}\n");
        fake_runtime_refuse("ListImages", ERROR_TIMEOUT, "no answer");
        assert_refusal(&other, ERROR_UNAVAILABLE, "the runtime cannot be asked: no answer");
        assert_int_equal(fixture->api.n_listings, 0);
        assert_null(fixture->api.listings);
}

TEST_F(test_list_without_a_runtime, Fixture *fixture) {
        RpcRequest caller = { .path = NULL };

        fake_runtime.is_away = true;
        assert_ok(api_list_images(&caller, NULL, &fixture->api));
        assert_refusal(&caller, ERROR_UNAVAILABLE, "nothing listens there");
}

TEST_F(test_many_ask_for_the_list, Fixture *fixture) {
        RpcRequest caller = { .path = NULL };

        fixture->api.n_listings = 256;
        assert_ok(api_list_images(&caller, NULL, &fixture->api));
        assert_refusal(&caller, ERROR_UNAVAILABLE,
                       "too many callers ask at the same time; try again later");
}

static const char *target(const void *source) {
        return "https://k as n1";
}

static int visit_cluster(const void *source, const DiagnosisVisitor *visitor) {
        return visitor->on_problem("cluster\x01", "it is away", "wait", visitor->userdata);
}

TEST_F(test_status, Fixture *fixture) {
        RpcRequest caller = { .path = NULL }, other = caller;

        desire(fixture, OWNER_FILE "web.yaml", "r.io/a", "1");
        fixture->subject.cluster = (DiagnosisSource){ .target = target, .visit = visit_cluster };
        assert_ok(api_get_status(&caller, NULL, &fixture->api));
        assert_answer(
                &caller,
                "{'nodeImageJson':['r.io/a:1 Waiting'],'problems':[{'subject':'cluster?','message':'it is away','advice':'wait'}],'runtime':{'endpoint':'unix:///c.sock','name':'containerd','version':'2.1.0','state':'','ready':true,'chosen':true,'hasProgress':false},'apiServer':'https://k as n1'}\n");
        assert_ok(api_get_status(&other, NULL, &fixture->api));
        assert_int_equal(other.reply_size, fixture->api.status_size);
        assert_true(other.reply_size > 300);
        fixture->api.status_size = 100001;
        other = (RpcRequest){ .path = NULL };
        assert_ok(api_get_status(&other, NULL, &fixture->api));
        assert_refusal(&other, ERROR_UNAVAILABLE, "too large");
}

TEST_F(test_diagnosis, Fixture *fixture) {
        RpcRequest caller = { .path = NULL };

        fake_runtime.is_away = true;
        assert_ok(api_diagnose(&caller, NULL, &fixture->api));
        assert_answer(
                &caller,
                "{'runtimes':[{'endpoint':'unix:///c.sock','name':'','version':'','state':'nothing listens there','ready':false,'chosen':true,'hasProgress':false}],'facts':[],'problems':[]}\n");
}

/* A slow caller gets the newest state alone. */
TEST_F(test_status_is_followed, Fixture *fixture) {
        RpcRequest caller = { .has_room = true };
        Api *api = &fixture->api;

        desire(fixture, OWNER_FILE "web.yaml", "r.io/a", "1");
        assert_ok(api_watch(&caller, NULL, api));
        assert_string_equal(caller.text, "");
        played_read(&caller);
        assert_answer(
                &caller,
                "{'nodeImageJson':['r.io/a:1 Waiting'],'removed':[],'isComplete':true,'runtime':{'endpoint':'unix:///c.sock','name':'containerd','version':'2.1.0','state':'','ready':true,'chosen':true,'hasProgress':false},'apiServer':''}\n");
        played_read(&caller);
        assert_answer(&caller, "");

        assert_ok(watches_on_image(api, images_get(api->images, 0)));
        assert_answer(&caller, "");
        fake_runtime_answer_status(A);
        assert_ok(watches_on_image(api, images_get(api->images, 0)));
        assert_answer(
                &caller,
                "{'nodeImageJson':['r.io/a:1 Succeeded'],'removed':[],'isComplete':true,'runtime':{'endpoint':'unix:///c.sock','name':'containerd','version':'2.1.0','state':'','ready':true,'chosen':true,'hasProgress':false},'apiServer':''}\n");
        assert_ok(watches_on_runtime(api));
        assert_answer(&caller, "");
        played_read(&caller);
        assert_answer(
                &caller,
                "{'nodeImageJson':[],'removed':[],'isComplete':true,'runtime':{'endpoint':'unix:///c.sock','name':'containerd','version':'2.1.0','state':'','ready':true,'chosen':true,'hasProgress':false},'apiServer':''}\n");
        played_read(&caller);

        assert_ok(images_set_desired(api->images, OWNER_FILE "web.yaml",
                                     &(DesiredImages){ .n_items = 0 }, REQUEST_DESIRED));
        assert_ok(watches_on_image(api, images_get(api->images, 0)));
        assert_answer(
                &caller,
                "{'nodeImageJson':[],'removed':['r.io/a:1'],'isComplete':true,'runtime':{'endpoint':'unix:///c.sock','name':'containerd','version':'2.1.0','state':'','ready':true,'chosen':true,'hasProgress':false},'apiServer':''}\n");
        played_leave(&caller);
        assert_true(caller.has_ended);
        assert_null(api->watches);
}

TEST_F(test_many_images_are_followed, Fixture *fixture) {
        RpcRequest caller = { .has_room = true };
        Api *api = &fixture->api;
        char tag[8];

        for (int i = 0; i < 65; i++) {
                (void) snprintf(tag, sizeof(tag), "%d", i);
                desire(fixture, tag, "r.io/a", tag);
        }
        assert_ok(api_watch(&caller, NULL, api));
        played_read(&caller);
        assert_non_null(strstr(caller.text, "'isComplete':false"));
        played_read(&caller);
        assert_non_null(strstr(caller.text, "'isComplete':true"));
        played_read(&caller);
        assert_answer(&caller, "");
        played_leave(&caller);
}

TEST_F(test_many_follow_the_status, Fixture *fixture) {
        RpcRequest callers[65];

        for (size_t i = 0; i < N_ELEMENTS(callers); i++) {
                callers[i] = (RpcRequest){ .peer = { .uid = 1000 + (uid_t) i / 16 } };
                assert_ok(api_watch(&callers[i], NULL, &fixture->api));
                assert_int_equal(callers[i].has_ended, i >= 48);
        }
        assert_refusal(
                &callers[48], ERROR_UNAVAILABLE,
                "too many callers that follow the status: all users but root have 48, where they may have 48; try again later, or as root");
        for (size_t i = 49; i < N_ELEMENTS(callers); i++)
                error_done(&callers[i].refusal);
        callers[48] = (RpcRequest){ .peer = { .uid = 0 } };
        assert_ok(api_watch(&callers[48], NULL, &fixture->api));
        assert_false(callers[48].has_ended);
        for (size_t i = 0; i < 49; i++)
                played_leave(&callers[i]);
}

static void retry(Fixture *fixture, bool failed, const char *const *names, RpcRequest *caller) {
        Inplaced__V1__RetryRequest message = INPLACED__V1__RETRY_REQUEST__INIT;

        message.failed = failed;
        message.images = (char **) names;
        while (names && names[message.n_images])
                message.n_images++;
        *caller = (RpcRequest){ .path = NULL };
        assert_ok(api_retry(caller, &message, &fixture->api));
        fake_clock_pass(fixture->event, 0);
}

/* The runtime lacks the image at each attempt. */
static void begin_pull(Fixture *fixture) {
        fake_runtime_answer_status(NULL);
        fake_clock_turn(fixture->event);
        assert_non_null(fake_runtime_find("PullImage"));
}

static void fail_pull(Fixture *fixture) {
        begin_pull(fixture);
        fake_runtime_refuse("PullImage", ERROR_NOT_FOUND, "not found");
        fake_clock_turn(fixture->event);
}

TEST_F(test_retries, Fixture *fixture) {
        static const char *const names[] = { "r.io/a:1", "r.io/x:1", NULL };
        static const char *const bad[] = { "r.io/a:1", "r.io/A:1", NULL };
        RpcRequest caller;

        retry(fixture, true, NULL, &caller);
        assert_answer(&caller, "{'results':[]}\n");
        retry(fixture, true, names, &caller);
        assert_refusal(&caller, ERROR_INVALID, "give either images or failed");
        retry(fixture, false, NULL, &caller);
        assert_refusal(&caller, ERROR_INVALID, "give either images or failed");

        desire(fixture, OWNER_FILE "web.yaml", "r.io/a", "1");
        retry(fixture, false, names, &caller);
        assert_answer(
                &caller,
                "{'results':[{'image':'r.io/a:1','retried':false,'message':'an attempt is in progress'},{'image':'r.io/x:1','retried':false,'message':'it is not requested on this node; try: inplacectl pull'}]}\n");
        fail_pull(fixture);
        retry(fixture, false, bad, &caller);
        assert_refusal(
                &caller, ERROR_INVALID,
                "invalid image reference \"r.io/A:1\": the repository must be in lower case");
        retry(fixture, false, names, &caller);
        assert_answer(
                &caller,
                "{'results':[{'image':'r.io/a:1','retried':true},{'image':'r.io/x:1','retried':false,'message':'it is not requested on this node; try: inplacectl pull'}]}\n");
        fail_pull(fixture);
        retry(fixture, false, names, &caller);
        assert_answer(
                &caller,
                "{'results':[{'image':'r.io/a:1','retried':false,'message':'it was tried less than 5 s ago'},{'image':'r.io/x:1','retried':false,'message':'it is not requested on this node; try: inplacectl pull'}]}\n");
        retry(fixture, true, NULL, &caller);
        assert_answer(
                &caller,
                "{'results':[{'image':'r.io/a:1','retried':false,'message':'it was tried less than 5 s ago'}]}\n");
        image_marks(images_get(fixture->api.images, 0))->forced_usec = 1; /* long ago */
        retry(fixture, true, NULL, &caller);
        assert_answer(&caller, "{'results':[{'image':'r.io/a:1','retried':true}]}\n");
        begin_pull(fixture);
        fake_runtime_answer_pull(A);
        fake_runtime_answer_status(A);
        retry(fixture, false, names, &caller);
        assert_answer(
                &caller,
                "{'results':[{'image':'r.io/a:1','retried':false,'message':'it is present'},{'image':'r.io/x:1','retried':false,'message':'it is not requested on this node; try: inplacectl pull'}]}\n");
}

static void unpin(Fixture *fixture, uid_t uid, const char *const *names, RpcRequest *caller) {
        Inplaced__V1__UnpinRequest message = INPLACED__V1__UNPIN_REQUEST__INIT;

        message.images = (char **) names;
        while (names && names[message.n_images])
                message.n_images++;
        *caller = (RpcRequest){ .peer = { .uid = uid } };
        assert_ok(api_unpin(caller, &message, &fixture->api));
}

static void pin(Fixture *fixture, const char *owner) {
        DesiredImage desired;

        assert_ok(desired_image_init(&desired, "r.io/a", "1"));
        desired.is_pinned = true;
        assert_ok(images_set_desired(fixture->api.images, owner,
                                     &(DesiredImages){ .items = &desired, .n_items = 1 },
                                     REQUEST_DESIRED));
        desired_image_done(&desired);
}

TEST_F(test_unpins, Fixture *fixture) {
        static const char *const names[] = { "r.io/a:1", "r.io/x:1", NULL };
        static const char *const bad[] = { "r.io/a:1", "r.io/A:1", NULL };
        RpcRequest caller;

        unpin(fixture, 0, NULL, &caller);
        assert_refusal(&caller, ERROR_INVALID, "give 1 to 4096 images");
        n_state_writes = 0;
        pin(fixture, OWNER_FILE "web.yaml");
        unpin(fixture, 0, bad, &caller);
        assert_refusal(
                &caller, ERROR_INVALID,
                "invalid image reference \"r.io/A:1\": the repository must be in lower case");
        unpin(fixture, 0, names, &caller);
        assert_answer(
                &caller,
                "{'results':[{'image':'r.io/a:1','unpinned':false,'message':'no request of this user pins it, but others do, see: inplacectl images'},{'image':'r.io/x:1','unpinned':false,'message':'no request pins it'}]}\n");
        assert_int_equal(n_state_writes, 0);
        pin(fixture, OWNER_REQUEST "1");
        unpin(fixture, 0, names, &caller);
        assert_answer(
                &caller,
                "{'results':[{'image':'r.io/a:1','unpinned':true,'message':'other requests still pin it, see: inplacectl images'},{'image':'r.io/x:1','unpinned':false,'message':'no request pins it'}]}\n");
        assert_int_equal(n_state_writes, 1);
}
