/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Is there a kubelet?
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/rfc3339.h"
#include "agent/pod/kubelet.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/unit.h"

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"

typedef struct Asker {
        KubeletQuestion *question;
        Kubelet **to_free; /* within the callback */
        unsigned n_answers;
        KubeletState state;
        char why[128];
} Asker;

static int on_answered(KubeletState state, const char *why, void *userdata) {
        Asker *asker = userdata;

        asker->n_answers++;
        asker->state = state;
        snprintf(asker->why, sizeof(asker->why), "%s", why ?: "");
        assert_int_equal(!!why, state == KUBELET_AWAY);
        asker->question = kubelet_question_free(asker->question);
        if (asker->to_free)
                *asker->to_free = kubelet_free(*asker->to_free);
        return 0;
}

static void ask(Kubelet *kubelet, Asker *asker) {
        unsigned n = asker->n_answers;

        assert_ok(kubelet_ask(kubelet, on_answered, asker, &asker->question));
        assert_int_equal(asker->n_answers, n);
}

static void wait_for(const Asker *asker, unsigned n) {
        while (asker->n_answers < n)
                assert_true(sd_event_run(fake_kube.event, 60000000) > 0);
}

static void close_world(void) {
        fake_clock_done();
        fake_kube_close();
}

static void wait_for_call(void) {
        while (fake_kube.n_calls == 0)
                assert_true(sd_event_run(fake_kube.event, 60000000) > 0);
}

/* Until the last answer is stale. */
static void pass_time(void) {
        fake_clock_pass(fake_kube.event, 510000);
}

/* Only the backlog answers, as it may with a real one. */
static int serve(uint16_t *port) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(*port) };
        socklen_t size = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_ok(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
        assert_ok(bind(fd, (struct sockaddr *) &address, size));
        assert_ok(listen(fd, 64));
        assert_ok(getsockname(fd, (struct sockaddr *) &address, &size));
        *port = ntohs(address.sin_port);
        return fd;
}

static Kubelet *open_kubelet(const char *address, bool has_client) {
        Kubelet *kubelet;
        const KubeletOptions options = {
                .event = fake_kube.event,
                .address = address,
                .client = has_client ? &fake_kube : NULL,
                .node_name = "node-1",
        };

        assert_ok(kubelet_new(&options, &kubelet, NULL));
        return kubelet;
}

static Kubelet *open_local(uint16_t port) {
        char address[32];

        fake_kube_open();
        snprintf(address, sizeof(address), "127.0.0.1:%u", port);
        return open_kubelet(address, true);
}

static void close_local(Kubelet *kubelet) {
        kubelet_free(kubelet);
        close_world();
}

/* Asks once more. */
static void assert_answer(Kubelet *kubelet, Asker *asker, KubeletState state) {
        unsigned n = asker->n_answers;

        ask(kubelet, asker);
        wait_for(asker, n + 1);
        assert_int_equal(asker->state, state);
}

TEST(test_address) {
        static const char *const good[] = { "", "127.0.0.1:10248", "[::1]:1", "localhost:65535" };
        static const char *const bad[] = { "127.0.0.1",  "127.0.0.1:",      ":10248", "::1:10248",
                                           "[::1]",      "127.0.0.1:65536", "node:1", "1.2.3.4:0",
                                           "1.2.3.4:-1", "1.2.3.4:1x",      "[:1",    "x" };

        fake_kube_open();
        for (size_t i = 0; i < N_ELEMENTS(good); i++)
                kubelet_free(open_kubelet(good[i], false));
        for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
                const KubeletOptions options = { .event = fake_kube.event, .address = bad[i] };
                Error error = ERROR_INIT;
                Kubelet *kubelet;

                if (kubelet_new(&options, &kubelet, &error) >= 0)
                        fail_msg("%s", bad[i]);
                assert_int_equal(error.kind, ERROR_INVALID);
                error_done(&error);
        }
        close_world();
}

TEST(test_comes_and_goes) {
        Asker askers[3] = { 0 };
        char why[64];
        uint16_t port = 0;
        Kubelet *kubelet;
        int fd = serve(&port);

        kubelet = open_local(port);
        for (int i = 0; i < 3; i++)
                ask(kubelet, &askers[i]);
        for (int i = 0; i < 3; i++) {
                wait_for(&askers[i], 1);
                assert_int_equal(askers[i].state, KUBELET_ALIVE);
        }

        /* Valid for half a second. */
        close(fd);
        assert_answer(kubelet, &askers[0], KUBELET_ALIVE);

        pass_time();
        assert_answer(kubelet, &askers[0], KUBELET_AWAY);
        snprintf(why, sizeof(why), "nothing answers on 127.0.0.1:%u", port);
        assert_string_equal(askers[0].why, why);
        assert_int_equal(fake_kube.n_begun, 0);

        pass_time();
        fd = serve(&port);
        assert_answer(kubelet, &askers[0], KUBELET_ALIVE);
        close(fd);
        close_local(kubelet);
}

/* A kubelet that was there before the first question is missed; its Lease, good for some time yet,
 * does not count. */
TEST(test_goes_unasked) {
        Asker asker = { 0 };
        uint16_t port = 0;
        Kubelet *kubelet;
        int fd = serve(&port);

        kubelet = open_local(port);
        pass_time();
        close(fd);
        pass_time();
        assert_answer(kubelet, &asker, KUBELET_AWAY);
        assert_int_equal(fake_kube.n_begun, 0);
        close_local(kubelet);
}

/* An answer is valid for half a second. */
TEST(test_pace_of_answers) {
        Asker asker = { 0 };
        uint16_t port = 0;
        Kubelet *kubelet;
        int fd = serve(&port);

        kubelet = open_local(port);
        assert_answer(kubelet, &asker, KUBELET_ALIVE);
        close(fd);

        fake_clock_pass(fake_kube.event, 499999);
        assert_answer(kubelet, &asker, KUBELET_ALIVE);
        fake_clock_pass(fake_kube.event, 1);
        assert_answer(kubelet, &asker, KUBELET_AWAY);
        close_local(kubelet);
}

/* A kubelet that was never there is tried every 30 seconds. */
TEST(test_pace_of_the_search) {
        for (int early = 0; early < 2; early++) {
                Asker asker = { 0 };
                char address[32];
                uint16_t port = 0;
                Kubelet *kubelet;
                int fd = serve(&port);

                close(fd);
                fake_kube_open();
                snprintf(address, sizeof(address), "127.0.0.1:%u", port);
                kubelet = open_kubelet(address, false);
                fake_clock_pass(fake_kube.event, 0);
                fake_clock_pass(fake_kube.event, 29999999);
                fd = serve(&port);
                fake_clock_pass(fake_kube.event, early ? 0 : 1);
                close(fd);
                fake_clock_pass(fake_kube.event, early ? 0 : 500000);
                ask(kubelet, &asker);
                wait_for(&asker, 1);
                assert_int_equal(asker.state, early ? KUBELET_UNKNOWN : KUBELET_AWAY);
                kubelet_free(kubelet);
                close_world();
        }
}

/* Listens, and fills the backlog, so that no connection is answered any more. */
static int fill(uint16_t *port, int connections[4]) {
        struct sockaddr_in address = { .sin_family = AF_INET };
        int fd = serve(port);

        assert_ok(listen(fd, 0));
        address.sin_port = htons(*port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        for (int i = 0; i < 4; i++) {
                connections[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                (void) connect(connections[i], (struct sockaddr *) &address, sizeof(address));
        }
        return fd;
}

/* Connecting may take half a second, the Lease 1.4: a question is answered within two. */
TEST(test_pace_of_an_attempt) {
        Asker asker = { 0 };
        int connections[4];
        uint16_t port = 0;
        Kubelet *kubelet;
        int fd = fill(&port, connections);

        kubelet = open_local(port);
        ask(kubelet, &asker);
        fake_clock_pass(fake_kube.event, 499999);
        assert_int_equal(fake_kube.n_begun, 0);
        fake_clock_pass(fake_kube.event, 1);
        assert_int_equal(fake_kube.n_begun, 1);
        assert_int_equal(fake_kube.calls[0]->request.timeout_usec, 1400000);
        asker.question = kubelet_question_free(asker.question);
        close_local(kubelet);
        for (int i = 0; i < 4; i++)
                close(connections[i]);
        close(fd);
}

static const struct LeaseCase {
        int age_sec; /* for "%s"  */
        int code;
        const char *body;
        KubeletState state;
        const char *why;
} lease_cases[] = {
        { 5, 200, "{\"spec\":{\"renewTime\":\"%s\",\"leaseDurationSeconds\":40}}", KUBELET_ALIVE,
          "" },
        { -50, 200, "{\"spec\":{\"renewTime\":\"%s\"}}", KUBELET_ALIVE, "" },
        { 36, 200, "{\"spec\":{\"renewTime\":\"%s\"}}", KUBELET_ALIVE, "" },
        { 100, 200, "{\"spec\":{\"renewTime\":\"%s\"}}", KUBELET_AWAY,
          "the kubelet has not renewed its Lease for 10" },
        { 100, 200, "{\"spec\":{\"renewTime\":\"%s\",\"leaseDurationSeconds\":400}}", KUBELET_ALIVE,
          "" },
        { 0, 200, "{\"spec\":{}}", KUBELET_UNKNOWN, "" },
        { 0, 200, "{\"spec\":{\"renewTime\":\"x\"}}", KUBELET_UNKNOWN, "" },
        { 0, 200, "{\"spec\":{\"renewTime\":\"%s\",\"leaseDurationSeconds\":0}}", KUBELET_UNKNOWN,
          "" },
        { 0, 200, "[]", KUBELET_UNKNOWN, "" },
        { 0, 200, "", KUBELET_UNKNOWN, "" },
        { 0, 403, "{}", KUBELET_UNKNOWN, "" },
        { 0, 404, "{}", KUBELET_UNKNOWN, "" },
        { 0, 0, "", KUBELET_UNKNOWN, "" },
};

static void answer_lease(const struct LeaseCase *c) {
        char renewed[RFC3339_SIZE], fraction[40], body[256];

        rfc3339_format(time(NULL) - c->age_sec, renewed);
        snprintf(fraction, sizeof(fraction), "%.19s.123456Z", renewed);
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(body, sizeof(body), c->body, fraction);
        assert_ok(fake_kube_answer(c->code, body));
}

/* A kubelet whose health address has changed since it answered. */
static const struct MoveRow {
        const char *name;
        bool has_returned; /* in between, for a moment */
        bool has_client;
        int age_sec, code; /* age of the Lease, and HTTP status; 0: it is not asked for */
        KubeletState state;
} move_rows[] = {
        { "elsewhere", false, true, 5, 200, KUBELET_ALIVE },
        { "gone", false, true, 70, 200, KUBELET_AWAY },
        { "no right to read the Lease", false, true, 0, 403, KUBELET_AWAY },
        { "no API server", false, false, 0, 0, KUBELET_AWAY },
        { "gone again a moment ago", true, true, 0, 0, KUBELET_AWAY },
};

TEST_ROWS(test_moves, move_rows, name, const struct MoveRow *row) {
        const struct LeaseCase lease = { row->age_sec, row->code,
                                         "{\"spec\":{\"renewTime\":\"%s\"}}", row->state, "" };
        Asker asker = { 0 };
        char address[32];
        uint16_t port = 0;
        Kubelet *kubelet;
        int fd = serve(&port);

        fake_kube_open();
        snprintf(address, sizeof(address), "127.0.0.1:%u", port);
        kubelet = open_kubelet(address, row->has_client);
        assert_answer(kubelet, &asker, KUBELET_ALIVE);
        close(fd);
        pass_time();
        assert_answer(kubelet, &asker, KUBELET_AWAY);

        if (row->has_returned)
                fd = serve(&port);
        fake_clock_pass(fake_kube.event, 30000000);
        fake_clock_pass(fake_kube.event, 0);
        if (row->has_returned)
                close(fd);
        fake_clock_pass(fake_kube.event, 30000000);
        pass_time();
        assert_int_equal(fake_kube.n_begun, 0);
        ask(kubelet, &asker);
        if (row->code != 0) {
                wait_for_call();
                answer_lease(&lease);
        }
        wait_for(&asker, 3);
        assert_int_equal(asker.state, row->state);
        kubelet_free(kubelet);
        close_world();
}

/* No kubelet ever answered: its address refuses, or there is none. */
TEST(test_lease) {
        for (size_t i = 0; i < 2 * N_ELEMENTS(lease_cases); i++) {
                const struct LeaseCase *c = &lease_cases[i / 2];
                Asker askers[2] = { 0 };
                Kubelet *kubelet;

                fake_kube_open();
                kubelet = open_kubelet(i % 2 ? "" : "127.0.0.1:1", true);
                ask(kubelet, &askers[0]);
                ask(kubelet, &askers[1]);
                wait_for_call();
                assert_int_equal(fake_kube.n_begun, 1);
                assert_string_equal(fake_kube.calls[0]->request.method, "GET");
                assert_string_equal(fake_kube.calls[0]->request.path, LEASES "node-1");
                answer_lease(c);
                for (int k = 0; k < 2; k++) {
                        wait_for(&askers[k], 1);
                        if (askers[k].state != c->state ||
                            strncmp(askers[k].why, c->why, strlen(c->why)) != 0)
                                fail_msg("%s: %d %s", c->body, askers[k].state, askers[k].why);
                }
                kubelet_free(kubelet);
                close_world();
        }
}

TEST(test_nothing_to_ask) {
        Asker asker = { 0 };
        Kubelet *kubelet;

        fake_kube_open();
        kubelet = open_kubelet("127.0.0.1:1", false);
        assert_answer(kubelet, &asker, KUBELET_UNKNOWN);
        kubelet_free(kubelet);

        kubelet = open_kubelet("", false);
        asker.to_free = &kubelet;
        assert_answer(kubelet, &asker, KUBELET_UNKNOWN);
        assert_null(kubelet);
        close_world();
}

TEST(test_dropped) {
        Asker askers[2] = { 0 };
        Kubelet *kubelet;

        fake_kube_open();
        kubelet = open_kubelet("", true);
        ask(kubelet, &askers[0]);
        ask(kubelet, &askers[1]);
        askers[0].question = kubelet_question_free(askers[0].question);
        answer_lease(&lease_cases[0]);
        wait_for(&askers[1], 1);
        assert_int_equal(askers[0].n_answers, 0);

        ask(kubelet, &askers[0]);
        askers[0].question = kubelet_question_free(askers[0].question);
        fake_clock_turn(fake_kube.event);
        assert_int_equal(askers[0].n_answers, 0);

        pass_time();
        ask(kubelet, &askers[0]);
        askers[0].question = kubelet_question_free(askers[0].question);
        close_local(kubelet);
}
