/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The call of the local API that follows pulls
 */

#include "agent/image/other-pulls.h"
#include "tests/unit/api-fixture.h"

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define RUNTIME \
        "'runtime':{'endpoint':'unix:///c.sock','name':'containerd','version':'2.1.0','state':'','ready':true,'chosen':true,'hasProgress':false}"

/* The pulls of the kubelet and the images for which pods wait, as the test says. */
static struct {
        OtherPullsOptions options;
        OtherPull pulls[4];
        size_t n_pulls;
        PodWait waits[40];
        size_t n_waits;
        bool is_settled, has_ended;
} node;

int __wrap_other_pulls_new(const OtherPullsOptions *options, OtherPulls **ret);
OtherPulls *__wrap_other_pulls_free(OtherPulls *pulls);
bool __wrap_other_pulls_are_settled(const OtherPulls *pulls);
int __wrap_other_pulls_list(const OtherPulls *pulls, OtherPull **ret, size_t *ret_n);
int __wrap_pod_waits_visit(const PodWaits *waits, int (*visit)(const PodWait *wait, void *userdata),
                           void *userdata);

int __wrap_other_pulls_new(const OtherPullsOptions *options, OtherPulls **ret) {
        node.options = *options;
        node.has_ended = false;
        *ret = (OtherPulls *) &node;
        return 0;
}

OtherPulls *__wrap_other_pulls_free(OtherPulls *pulls) {
        node.has_ended = true;
        return NULL;
}

bool __wrap_other_pulls_are_settled(const OtherPulls *pulls) {
        return node.is_settled;
}

int __wrap_other_pulls_list(const OtherPulls *pulls, OtherPull **ret, size_t *ret_n) {
        *ret = calloc(4, sizeof(**ret));
        assert_non_null(*ret);
        memcpy(*ret, node.pulls, sizeof(node.pulls));
        *ret_n = node.n_pulls;
        return 0;
}

int __wrap_pod_waits_visit(const PodWaits *waits, int (*visit)(const PodWait *wait, void *userdata),
                           void *userdata) {
        for (size_t i = 0; i < node.n_waits; i++)
                assert_ok(visit(&node.waits[i], userdata));
        return 0;
}

static void follow(Fixture *fixture, RpcRequest *caller) {
        memset(&node, 0, sizeof(node));
        node.is_settled = true;
        fixture->api.pod_waits = (const PodWaits *) &node;
        *caller = (RpcRequest){ .has_room = true };
        assert_ok(api_watch_pulls(caller, NULL, &fixture->api));
}

/* The runtime was asked again. */
static void ask(RpcRequest *caller) {
        caller->has_room = true;
        assert_ok(node.options.on_asked(node.options.userdata));
}

TEST_F(test_nothing_is_pulled, Fixture *fixture) {
        RpcRequest caller;

        follow(fixture, &caller);
        ask(&caller);
        assert_answer(&caller, "{'pulls':[]," RUNTIME "}\n");
        ask(&caller);
        assert_answer(&caller, "");
        assert_int_equal(fixture->n_changes, 0);
        played_leave(&caller);
        assert_true(caller.has_ended);
        assert_true(node.has_ended);
        assert_null(fixture->api.pulls);
        assert_int_equal(fixture->n_changes, 1);
}

/* The first event waits for a moment for what may run. */
TEST_F(test_waits_for_the_first_answers, Fixture *fixture) {
        RpcRequest caller;

        follow(fixture, &caller);
        node.is_settled = false;
        ask(&caller);
        fake_clock.now_usec += SEC - 1;
        ask(&caller);
        assert_answer(&caller, "");
        fake_clock.now_usec++;
        ask(&caller);
        assert_answer(&caller, "{'pulls':[]," RUNTIME "}\n");
        played_leave(&caller);
}

TEST_F(test_pulls_of_the_kubelet, Fixture *fixture) {
        static ProgressReport report = { .step = IMAGE_STEP_DOWNLOADING,
                                         .bytes_done = 100,
                                         .bytes_total = 1000 };
        RpcRequest caller;

        follow(fixture, &caller);
        node.pulls[0] = (OtherPull){ .began = { .tv_sec = 1000 },
                                     .manifest = { .digest = (char *) A,
                                                   .sources = (char *) "docker.io=library/nginx\n",
                                                   .digests = (char *) "" },
                                     .report = &report };
        node.pulls[1] = node.pulls[0];
        node.pulls[1].manifest = (PulledManifest){ .digest = (char *) B,
                                                   .sources = (char *) "r.io=a,b\n",
                                                   .digests = (char *) "" };
        node.n_pulls = 2;
        ask(&caller);
        assert_answer(
                &caller,
                "{'pulls':[{'image':'nginx@" A
                "','pods':[],'requestedBy':[],'step':'Downloading','bytesDone':100,'bytesTotal':1000,'bytesPerSecond':0,'secondsLeft':0,'startedAt':1000,'digest':'" A
                "'},{'image':'" B
                "','pods':[],'requestedBy':[],'step':'Downloading','bytesDone':100,'bytesTotal':1000,'bytesPerSecond':0,'secondsLeft':0,'startedAt':1000,'digest':'" B
                "'}]," RUNTIME "}\n");

        node.waits[0] = (PodWait){ .pod = "x/web",
                                   .key = "docker.io/library/nginx:1.25",
                                   .since = { .tv_sec = 999 },
                                   .is_missing = true };
        node.waits[1] = (PodWait){ .pod = "x/db",
                                   .key = "docker.io/library/nginx:1.25",
                                   .since = { .tv_sec = 999 },
                                   .is_missing = true };
        node.waits[2] = (PodWait){ .pod = "x/new", .key = "r.io/new:1", .is_missing = true };
        node.waits[3] = (PodWait){ .pod = "x/there", .key = "r.io/there:1" };
        node.n_waits = 4;
        fake_clock.now_usec += SEC;
        report.bytes_done = 600;
        ask(&caller);
        assert_answer(
                &caller,
                "{'pulls':[{'image':'nginx:1.25','pods':['x/web','x/db'],'requestedBy':[],'step':'Downloading','bytesDone':600,'bytesTotal':1000,'bytesPerSecond':0,'secondsLeft':0,'startedAt':1000,'digest':'" A
                "'},{'image':'r.io/new:1','pods':['x/new'],'requestedBy':[],'step':'WaitingForKubelet','bytesDone':0,'bytesTotal':0,'bytesPerSecond':0,'secondsLeft':0,'startedAt':0,'digest':''},{'image':'" B
                "','pods':[],'requestedBy':[],'step':'Downloading','bytesDone':600,'bytesTotal':1000,'bytesPerSecond':166,'secondsLeft':3,'startedAt':1000,'digest':'" B
                "'}]," RUNTIME "}\n");
        fake_clock.now_usec += SEC;
        report.bytes_done = 700;
        ask(&caller);
        assert_answer(
                &caller,
                "{'pulls':[{'image':'nginx:1.25','pods':['x/web','x/db'],'requestedBy':[],'step':'Downloading','bytesDone':700,'bytesTotal':1000,'bytesPerSecond':33,'secondsLeft':10,'startedAt':1000,'digest':'" A
                "'},{'image':'r.io/new:1','pods':['x/new'],'requestedBy':[],'step':'WaitingForKubelet','bytesDone':0,'bytesTotal':0,'bytesPerSecond':0,'secondsLeft':0,'startedAt':0,'digest':''},{'image':'" B
                "','pods':[],'requestedBy':[],'step':'Downloading','bytesDone':700,'bytesTotal':1000,'bytesPerSecond':144,'secondsLeft':3,'startedAt':1000,'digest':'" B
                "'}]," RUNTIME "}\n");
        report.step = IMAGE_STEP_UNPACKING;
        node.n_pulls = 1;
        ask(&caller);
        assert_answer(
                &caller,
                "{'pulls':[{'image':'nginx:1.25','pods':['x/web','x/db'],'requestedBy':[],'step':'Unpacking','bytesDone':700,'bytesTotal':1000,'bytesPerSecond':0,'secondsLeft':0,'startedAt':1000,'digest':'" A
                "'},{'image':'r.io/new:1','pods':['x/new'],'requestedBy':[],'step':'WaitingForKubelet','bytesDone':0,'bytesTotal':0,'bytesPerSecond':0,'secondsLeft':0,'startedAt':0,'digest':''}]," RUNTIME
                "}\n");
        played_leave(&caller);
}

TEST_F(test_own_pulls, Fixture *fixture) {
        RpcRequest caller;

        follow(fixture, &caller);
        desire(fixture, OWNER_FILE "web.yaml", "r.io/a", "1");
        ask(&caller);
        assert_answer(&caller, "{'pulls':[]," RUNTIME "}\n");
        fake_runtime_answer_status(NULL);
        fake_clock_turn(fixture->event);
        node.waits[0] = (PodWait){ .pod = "x/web", .key = "r.io/a:1", .is_missing = true };
        node.n_waits = 1;
        ask(&caller);
        assert_non_null(strstr(caller.text, "'startedAt':"));
        *strstr(caller.text, "'startedAt':") = '\0';
        assert_answer(
                &caller,
                "{'pulls':[{'image':'r.io/a:1','pods':['x/web'],'requestedBy':['folder:web.yaml'],'step':'Resolving','bytesDone':0,'bytesTotal':0,'bytesPerSecond':0,'secondsLeft':0,");
        played_leave(&caller);
}

TEST_F(test_many_pods_wait, Fixture *fixture) {
        RpcRequest caller;
        unsigned n = 0;

        follow(fixture, &caller);
        node.n_waits = N_ELEMENTS(node.waits);
        for (size_t i = 0; i < node.n_waits; i++)
                node.waits[i] = (PodWait){ .pod = "x/web", .key = "r.io/a:1", .is_missing = true };
        ask(&caller);
        for (const char *at = caller.text; (at = strstr(at, "x/web")); at++)
                n++;
        assert_int_equal(n, 32);
        played_leave(&caller);
}

/* A caller that reads slowly gets the newest event alone. */
TEST_F(test_slow_callers, Fixture *fixture) {
        RpcRequest quick, slow = { .has_room = false };

        follow(fixture, &quick);
        assert_ok(api_watch_pulls(&slow, NULL, &fixture->api));
        ask(&quick);
        assert_answer(&slow, "");
        slow.has_room = true;
        ask(&quick);
        assert_answer(&slow, "{'pulls':[]," RUNTIME "}\n");
        ask(&quick);
        assert_answer(&slow, "");
        played_leave(&quick);
        assert_false(node.has_ended);
        fixture->api.pulls = pulls_free(fixture->api.pulls);
        assert_true(slow.has_ended);
        assert_true(node.has_ended);
}

TEST_F(test_many_follow, Fixture *fixture) {
        RpcRequest callers[17];

        memset(&node, 0, sizeof(node));
        for (size_t i = 0; i < N_ELEMENTS(callers); i++) {
                callers[i] = (RpcRequest){ .peer = { .uid = 1000 } };
                assert_ok(api_watch_pulls(&callers[i], NULL, &fixture->api));
                assert_int_equal(callers[i].has_ended, i == 16);
        }
        assert_refusal(
                &callers[16], ERROR_UNAVAILABLE,
                "user 1000 has too many callers that follow the pulls: 16 and 1 more, where one user may have 16; end some of them, or try again later");
        fixture->api.pulls = pulls_free(fixture->api.pulls);
        assert_null(fixture->api.pulls);
}
