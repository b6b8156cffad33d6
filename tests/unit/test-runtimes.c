/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which runtime is chosen, and when those that are away, or silent, are tried again
 *
 * The connections are played: a runtime answers when the test says so.
 */

#include "cri/client.h"
#include "cri/runtimes.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/unit.h"

#define SOON (250 * MSEC) /* between two tries of a runtime that is needed */

struct RpcCall {
        bool is_version;
        RpcDone done; /* NULL: it does not run */
        void *userdata;
};

struct RpcClient {
        bool is_there, is_connected;
        unsigned n_tries, n_questions; /* for its version */
        RpcCall call;
        RpcClosed on_closed;
        RpcObserver observer;
        void *userdata;
};

static struct Fixture {
        sd_event *event;
        RpcClient peers[2]; /* at "a" and "b" */
        Runtimes *runtimes;
} f;

sd_event *completion_queue_get_event(CompletionQueue *queue) {
        return f.event;
}

int rpc_client_connect(CompletionQueue *queue, const char *path, RpcClosed on_closed,
                       void *userdata, RpcClient **ret, Error *reterr) {
        RpcClient *peer = &f.peers[path[0] - 'a'];

        peer->n_tries++;
        if (!peer->is_there)
                return error_set(reterr, ERROR_UNAVAILABLE, "%s", path);

        assert_false(peer->is_connected);
        peer->is_connected = true;
        peer->on_closed = on_closed;
        peer->userdata = userdata;
        *ret = peer;
        return 0;
}

RpcClient *rpc_client_free(RpcClient *client) {
        if (client)
                client->is_connected = false;
        return NULL;
}

bool rpc_client_is_connected(const RpcClient *client) {
        return client->is_connected;
}

void rpc_client_set_observer(RpcClient *client, RpcObserver observer, void *userdata) {
        client->observer = observer;
}

RpcCall *rpc_call_unref(RpcCall *call) {
        if (call)
                call->done = NULL;
        return NULL;
}

static int begin(RpcClient *client, bool is_version, RpcDone done, void *userdata, RpcCall **ret) {
        assert_non_null(client);
        assert_null(client->call.done);
        client->n_questions += is_version;
        client->call = (RpcCall){ .is_version = is_version, .done = done, .userdata = userdata };
        *ret = &client->call;
        return 0;
}

int cri_version(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        return begin(client, true, done, userdata, ret);
}

int cri_image_fs_info(RpcClient *client, RpcDone done, void *userdata, RpcCall **ret) {
        return begin(client, false, done, userdata, ret);
}

const char *cri_method_name(const RpcMethod *method) {
        return method->path;
}

static unsigned n_changes;

static int on_changed(Runtime *runtime, void *userdata) {
        n_changes++;
        return 0;
}

static int set_up(void **state) {
        static const char *const paths[] = { "a", "b" };

        f = (struct Fixture){ .event = NULL };
        n_changes = 0;
        assert_true(sd_event_new(&f.event) >= 0);
        return runtimes_new(NULL,
                            &(RuntimesOptions){
                                    .paths = paths, .n_paths = 2, .on_changed = on_changed },
                            &f.runtimes);
}

static int tear_down(void **state) {
        assert_null(runtimes_free(f.runtimes));
        fake_clock_done();
        sd_event_unref(f.event);
        return 0;
}

/* It says its version, and where its images are. */
static void answer(RpcClient *peer) {
        CriVersion version = RUNTIME__V1__VERSION_RESPONSE__INIT;
        CriImageFsInfo info = RUNTIME__V1__IMAGE_FS_INFO_RESPONSE__INIT;
        Runtime__V1__FilesystemIdentifier id = RUNTIME__V1__FILESYSTEM_IDENTIFIER__INIT;
        Runtime__V1__FilesystemUsage usage = RUNTIME__V1__FILESYSTEM_USAGE__INIT;
        Runtime__V1__FilesystemUsage *images[] = { &usage };

        id.mountpoint = (char *) "/images";
        usage.fs_id = &id;
        info.image_filesystems = images;
        info.n_image_filesystems = 1;
        version.runtime_name = (char *) (peer == &f.peers[0] ? "containerd" : "cri-o");
        for (unsigned i = 0; i < 2; i++) {
                assert_non_null(peer->call.done);
                assert_ok(peer->call.done(peer->call.is_version ? (void *) &version : &info, NULL,
                                          peer->call.userdata));
        }
}

static void let_go(RpcClient *peer) {
        peer->is_there = false;
        assert_ok(peer->on_closed(peer->userdata));
}

/* A call of this method ends so. */
static void end_call(RpcClient *peer, const char *method, ErrorKind result) {
        peer->observer(&(RpcMethod){ .path = method }, 0, result, peer->userdata);
        fake_clock_turn(f.event);
}

static unsigned n_tries(RpcClient *peer, uint64_t usec) {
        unsigned before = peer->n_tries;

        fake_clock_pass(f.event, usec);
        return peer->n_tries - before;
}

/* The first is awaited for as long as it may answer, and the choice stays. */
TEST_SET_UP(test_choice) {
        RpcClient *a = &f.peers[0], *b = &f.peers[1];

        a->is_there = b->is_there = true;
        assert_ok(runtimes_try(f.runtimes));
        answer(b);
        assert_null(runtimes_chosen(f.runtimes));
        let_go(a);
        assert_ptr_equal(runtimes_chosen(f.runtimes), runtimes_get(f.runtimes, 1));
        assert_ptr_equal(runtimes_client(f.runtimes), b);

        a->is_there = true;
        assert_ok(runtimes_try(f.runtimes));
        answer(a);
        let_go(b);
        assert_ptr_equal(runtimes_chosen(f.runtimes), runtimes_get(f.runtimes, 1));
        assert_null(runtimes_client(f.runtimes));
        assert_ptr_equal(runtimes_find(f.runtimes, "cri-o"), runtimes_get(f.runtimes, 1));
        assert_ptr_equal(runtimes_find(f.runtimes, "containerd"), runtimes_get(f.runtimes, 0));
}

/* All are tried often until there is a choice, and then the chosen one alone. */
TEST_SET_UP(test_pauses) {
        RpcClient *a = &f.peers[0], *b = &f.peers[1];

        assert_ok(runtimes_try(f.runtimes));
        assert_int_equal(n_tries(a, 8 * SOON), 8);
        assert_int_equal(b->n_tries, 9);

        b->is_there = true;
        fake_clock_pass(f.event, SOON);
        answer(b);
        assert_int_equal(n_tries(a, SOON), 1);
        assert_int_equal(n_tries(a, 30 * SEC - 1), 0);
        assert_int_equal(n_tries(a, 30 * SEC), 1);
        let_go(b);
        assert_int_equal(n_tries(b, 8 * SOON), 8);
}

/* The agent hears of each change once, and of where the images are. */
TEST_SET_UP(test_news) {
        RpcClient *a = &f.peers[0];
        Runtime *runtime = runtimes_get(f.runtimes, 0);
        cleanup(error_done) Error refusal = ERROR_INIT;

        assert_ok(runtimes_try(f.runtimes));
        assert_int_equal(n_changes, 2); /* neither is there */
        a->is_there = true;
        fake_clock_pass(f.event, SOON);
        answer(a);
        assert_int_equal(n_changes, 3);
        assert_string_equal(runtime_image_path(runtime), "/images");

        let_go(a);
        assert_int_equal(n_changes, 4);
        a->is_there = true;
        fake_clock_pass(f.event, SOON);
        assert_ok(error_set(&refusal, ERROR_DENIED, "no") < 0 ? 0 : -EINVAL);
        assert_ok(a->call.done(NULL, &refusal, a->call.userdata));
        assert_int_equal(runtime_state(runtime), RUNTIME_REFUSED);
        assert_int_equal(n_changes, 5);
}

/* A silent runtime is asked again and again; if it goes meanwhile, nothing of that is left. */
TEST_SET_UP(test_silence) {
        RpcClient *a = &f.peers[0];
        Runtime *runtime = runtimes_get(f.runtimes, 0);

        a->is_there = true;
        assert_ok(runtimes_try(f.runtimes));
        answer(a);
        for (unsigned i = 0; i < 2; i++) {
                a->n_questions = 0;
                end_call(a, "StopContainer", ERROR_TIMEOUT);
                assert_int_equal(a->n_questions, 0);
                end_call(a, "ImageStatus", ERROR_TIMEOUT);
                assert_int_equal(a->n_questions, 1);
                assert_false(runtime_is_silent(runtime));
                end_call(a, "Version", ERROR_TIMEOUT);
                assert_true(runtime_is_silent(runtime));
                assert_ok(a->call.done(NULL, NULL, a->call.userdata));
                /* It goes before the next question, or during it. */
                fake_clock_pass(f.event, i == 0 ? SEC / 2 : SEC);
                assert_int_equal(a->n_questions, 1 + i);

                let_go(a);
                assert_int_equal(n_tries(a, 10 * SOON), 10);
                a->is_there = true;
                fake_clock_pass(f.event, SOON);
                answer(a);
                assert_true(runtime_is_alive(runtime));
                assert_false(runtime_is_silent(runtime));
        }
        assert_int_equal(runtime_n_connects(runtime), 3);
        end_call(a, "ImageStatus", ERROR_TIMEOUT);
        assert_non_null(a->call.done);
}

/* There may be no memory for the sentence that says why the runtime is not there. */
TEST_SET_UP(test_no_memory_for_the_sentence) {
        assert_ok(runtimes_try(f.runtimes));
        ASSERT_WITHOUT_MEMORY(runtimes_try(f.runtimes), 0,
                              assert_null(runtimes_client(f.runtimes)));
}
