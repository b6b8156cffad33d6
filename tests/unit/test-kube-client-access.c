/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Requests to the API server: credentials, connections, and servers that come and go
 */

#include <sys/resource.h>

#include "tests/unit/kube-client-fixture.h"
#include "tests/unit/unit.h"

TEST_F(test_connection_is_kept, Fixture *f) {
        for (int i = 0; i < 5; i++) {
                Ask ask = {};

                exchange(f, &ask, "200 OK", "{}");
                assert_int_equal(ask.kind, ERROR_NONE);
        }
        assert_int_equal(f->server.n_connections, 1);
}

TEST_F(test_other_credentials_mean_another_connection, Fixture *f) {
        Ask first = {}, second = {}, third = {};

        exchange(f, &first, "200 OK", "{}");
        the_access.credentials.token = "other"; /* token of the same generation */
        exchange(f, &second, "200 OK", "{}");
        assert_int_equal(f->server.n_connections, 1);

        the_access.credentials.generation++;
        exchange(f, &third, "200 OK", "{}");
        assert_int_equal(f->server.n_connections, 2);
        RUN_UNTIL(f, !connection_is_open(&f->server.connections[0]));
}

/* A stream that began with the old credentials goes on with them. */
TEST_F(test_other_credentials_leave_a_stream_alone, Fixture *f) {
        Ask watch = {}, ask = {};
        Connection *connection;

        ask_send(f, &watch, &(KubeRequest){ .on_data = on_piece, .timeout_usec = UINT64_MAX });
        connection = await_request(f);
        connection_begin_stream(connection);
        the_access.credentials.generation++;
        exchange(f, &ask, "200 OK", "{}");
        connection_send_piece(connection, "one");
        RUN_UNTIL(f, strcmp(watch.data, "one|") == 0);
        ask_done(&watch);
        RUN_UNTIL(f, !connection_is_open(connection));
}

/* Over HTTP/1.1 each watch keeps a connection. */
TEST_F(test_watch_blocks_no_call, Fixture *f) {
        Ask watches[12] = {}, ask = {};

        for (size_t i = 0; i < N_ELEMENTS(watches); i++) {
                ask_send(f, &watches[i],
                         &(KubeRequest){ .on_data = on_piece, .timeout_usec = UINT64_MAX });
                connection_begin_stream(await_request(f));
        }
        exchange(f, &ask, "200 OK", "{}");
        assert_int_equal(ask.kind, ERROR_NONE);
        for (size_t i = 0; i < N_ELEMENTS(watches); i++)
                ask_done(&watches[i]);
}

/* More than may be sent at once, and more than there may be connections. */
TEST_F(test_crowd, Fixture *f) {
        Ask *asks = calloc(100, sizeof(*asks));
        char path[32];

        for (int i = 0; i < 100; i++) {
                snprintf(path, sizeof(path), "/api/v1/nodes/%d", i);
                ask_send(f, &asks[i], &(KubeRequest){ .path = path });
        }
        for (int i = 0; i < 100; i++)
                connection_answer(await_request(f), "200 OK", "{}");
        for (int i = 0; i < 100; i++) {
                RUN_UNTIL(f, asks[i].n_replied);
                assert_int_equal(asks[i].kind, ERROR_NONE);
                ask_done(&asks[i]);
        }
        assert_true(f->server.n_connections <= 16);
        free(asks);
}

/* The time of requests that wait for their turn counts, too. */
TEST_F(test_time_out_in_the_crowd, Fixture *f) {
        Ask *asks = calloc(65, sizeof(*asks));

        for (int i = 0; i < 65; i++)
                ask_send(f, &asks[i], &(KubeRequest){ .timeout_usec = i == 64 ? 50000 : 0 });
        RUN_UNTIL(f, asks[64].n_replied);
        assert_int_equal(asks[64].kind, ERROR_TIMEOUT);
        assert_contains(asks[64].message, "could not be sent within 0.05 s");
        for (int i = 0; i < 65; i++)
                ask_done(&asks[i]);
        free(asks);
}

TEST_F(test_refused_token, Fixture *f) {
        Connection *connection;
        Ask ask = {};

        ask_send(f, &ask, &(KubeRequest){ .verb = "create", .method = "POST", .body = "{}" });
        connection = await_request(f);
        assert_contains(connection->text, "Bearer first\r\n");
        connection_answer(connection, "401 Unauthorized", "Unauthorized");
        connection = await_request(f);
        assert_contains(connection->text, "Bearer fresh\r\n");
        connection_answer(connection, "201 Created", "{}");
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.code, 201);
        assert_string_equal(ask.body, "{}");
        assert_int_equal(the_access.n_refused, 1);
        assert_int_equal(n_counted(f, "create", "401"), 1);
        assert_int_equal(n_counted(f, "create", "201"), 1);
        ask_done(&ask);
}

TEST_F(test_token_refused_twice, Fixture *f) {
        Ask ask = {};

        ask_send(f, &ask, &(KubeRequest){ .on_accepted = on_accepted, .on_data = on_piece });
        connection_answer(await_request(f), "401 Unauthorized", "Unauthorized");
        connection_answer(await_request(f), "401 Unauthorized", "Unauthorized");
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.code, 401);
        assert_int_equal(ask.kind, ERROR_DENIED);
        assert_string_equal(ask.message, "GET nodeimages/node-1: Unauthorized");
        assert_null(strstr(ask.message, "fresh"));
        ask_done(&ask);
}

/* The second answer is about the token that was replaced because of the first one. */
TEST_F(test_token_is_refused_once_for_two, Fixture *f) {
        Ask one = {}, two = {};

        ask_send(f, &one, &(KubeRequest){ .verb = "get" });
        ask_send(f, &two, &(KubeRequest){ .verb = "get" });
        RUN_UNTIL(f, f->server.n_connections == 2 && f->server.connections[0].size > 0 &&
                             f->server.connections[1].size > 0);
        connection_answer(&f->server.connections[0], "401 Unauthorized", "");
        connection_answer(&f->server.connections[1], "401 Unauthorized", "");
        connection_answer(await_request(f), "200 OK", "{}");
        connection_answer(await_request(f), "200 OK", "{}");
        RUN_UNTIL(f, one.n_replied && two.n_replied);
        assert_int_equal(one.kind + two.kind, ERROR_NONE);
        assert_int_equal(the_access.n_refused, 1);
        ask_done(&one);
        ask_done(&two);
}

/* A program runs for the fresh token. */
TEST_F(test_wait_for_fresh_token, Fixture *f) {
        Ask ask = {};

        the_access.result_after_refusal = 0;
        ask_send(f, &ask, &(KubeRequest){ .verb = "get" });
        connection_answer(await_request(f), "401 Unauthorized", "");
        RUN_UNTIL(f, the_access.n_refused);
        run_dry(f);
        assert_null(server_next(&f->server));
        assert_int_equal(ask.n_replied, 0);

        the_access.result = 1;
        the_access.options.on_changed(the_access.options.userdata);
        connection_answer(await_request(f), "200 OK", "{}");
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_NONE);
        ask_done(&ask);
}

TEST_F(test_wait_for_credentials, Fixture *f) {
        Ask one = {}, two = {}, late = {};

        the_access.result = 0;
        ask_send(f, &one, &(KubeRequest){ .verb = "get" });
        ask_send(f, &two, &(KubeRequest){ .verb = "get" });
        ask_send(f, &late, &(KubeRequest){ .timeout_usec = 50000 });
        RUN_UNTIL(f, late.n_replied);
        assert_int_equal(late.kind, ERROR_TIMEOUT);
        assert_int_equal(f->server.n_connections, 0);

        the_access.refusal = "the program x failed";
        the_access.options.on_changed(the_access.options.userdata);
        RUN_UNTIL(f, one.n_replied && two.n_replied);
        assert_int_equal(one.kind, ERROR_DENIED);
        assert_string_equal(two.message, "GET nodeimages/node-1: the program x failed");
        assert_string_equal(f->trouble, "the program x failed");
        assert_int_equal(f->n_reported, 1);
        ask_done(&one);
        ask_done(&two);
        ask_done(&late);
}

TEST_F(test_server_comes_and_goes, Fixture *f) {
        Ask first = {}, down = {}, still = {}, again = {};
        char expected[128];

        assert_int_equal(kube_client_trouble(f->client)->kind, ERROR_NONE);
        exchange(f, &first, "200 OK", "{}");
        assert_int_equal(f->n_reported, 1);
        assert_null(kube_client_trouble(f->client));

        server_stop(&f->server);
        snprintf(expected, sizeof(expected), "cannot connect to %s: Connection refused",
                 the_access.server);
        ask_send(f, &down, &(KubeRequest){ .verb = "get" });
        RUN_UNTIL(f, down.n_replied);
        assert_int_equal(down.kind, ERROR_UNAVAILABLE);
        assert_int_equal(down.code, 0);
        assert_contains(down.message, expected);
        assert_string_equal(f->trouble, expected);

        ask_send(f, &still, &(KubeRequest){ .verb = "get" });
        RUN_UNTIL(f, still.n_replied);
        assert_int_equal(f->n_reported, 2); /* the same as before */
        assert_string_equal(error_message(kube_client_trouble(f->client)), expected);
        assert_int_equal(n_counted(f, "get", "none"), 2);

        server_start(&f->server);
        exchange(f, &again, "200 OK", "{}");
        assert_int_equal(again.kind, ERROR_NONE);
        assert_int_equal(f->n_reported, 3);
        assert_string_equal(f->trouble, "");
        ask_done(&down);
        ask_done(&still);
}

/* Calls that fail in the same moment all get their answers; the kernel refuses this address at once. */
TEST_F(test_several_fail_at_once, Fixture *f) {
        Ask asks[4] = { 0 };

        (void) snprintf(the_access.server, sizeof(the_access.server), "http://255.255.255.255:1");
        the_access.credentials.generation++;
        for (size_t i = 0; i < N_ELEMENTS(asks); i++)
                ask_send(f, &asks[i], &(KubeRequest){ .verb = "get" });
        for (size_t i = 0; i < N_ELEMENTS(asks); i++) {
                RUN_UNTIL(f, asks[i].n_replied);
                assert_int_equal(asks[i].kind, ERROR_UNAVAILABLE);
                ask_done(&asks[i]);
        }
}

/* The server closed the connection meanwhile. */
TEST_F(test_kept_connection_is_closed, Fixture *f) {
        Ask first = {}, second = {};

        exchange(f, &first, "200 OK", "{}");
        connection_close(&f->server.connections[0]);
        exchange(f, &second, "200 OK", "{}");
        assert_int_equal(second.kind, ERROR_NONE);
        assert_int_equal(f->server.n_connections, 2);
}

TEST_F(test_closed_without_answer, Fixture *f) {
        Ask ask = {};

        ask_send(f, &ask, &(KubeRequest){ .verb = "get" });
        connection_close(await_request(f));
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_UNAVAILABLE);
        assert_contains(f->trouble, "was cut");
        ask_done(&ask);
}

/* All answers stop, so connections of that time are not trusted. */
TEST_F(test_time_out_leads_to_another_connection, Fixture *f) {
        Ask one = {}, two = {}, late = {}, next = {};

        ask_send(f, &one, &(KubeRequest){ .verb = "get" });
        ask_send(f, &two, &(KubeRequest){ .verb = "get" });
        RUN_UNTIL(f, f->server.n_connections == 2 && f->server.connections[0].size > 0 &&
                             f->server.connections[1].size > 0);
        connection_answer(&f->server.connections[0], "200 OK", "{}");
        connection_answer(&f->server.connections[1], "200 OK", "{}");
        RUN_UNTIL(f, one.n_replied && two.n_replied);

        ask_send(f, &late, &(KubeRequest){ .timeout_usec = 500000 });
        RUN_UNTIL(f, late.n_replied);
        RUN_UNTIL(f, !connection_is_open(&f->server.connections[0]) ||
                             !connection_is_open(&f->server.connections[1]));
        exchange(f, &next, "200 OK", "{}");
        assert_int_equal(next.kind, ERROR_NONE);
        assert_int_equal(f->server.n_connections, 3);
        ask_done(&one);
        ask_done(&two);
        ask_done(&late);
}

/* Something else still comes, so the server is there. */
TEST_F(test_one_slow_answer_is_no_trouble, Fixture *f) {
        Ask watch = {}, slow = {};
        Connection *connection;

        ask_send(f, &watch, &(KubeRequest){ .on_data = on_piece, .timeout_usec = UINT64_MAX });
        connection = await_request(f);
        connection_begin_stream(connection);
        ask_send(f, &slow, &(KubeRequest){ .timeout_usec = 500000 });
        await_request(f);
        connection_send_piece(connection, "one");
        RUN_UNTIL(f, slow.n_replied);
        assert_int_equal(slow.kind, ERROR_TIMEOUT);
        assert_null(kube_client_trouble(f->client));
        ask_done(&watch);
        ask_done(&slow);
}

static const char *const wrong_servers[] = { "", "https://", "ftp://x:1", "https://x:y", "x y" };

TEST_F(test_wrong_server, Fixture *f) {
        for (size_t i = 0; i < N_ELEMENTS(wrong_servers); i++) {
                Ask ask = {};

                the_access.credentials.server = wrong_servers[i];
                the_access.credentials.generation++;
                ask_send(f, &ask, &(KubeRequest){ .verb = "get" });
                RUN_UNTIL(f, ask.n_replied);
                assert_int_equal(ask.kind, ERROR_INVALID);
                ask_done(&ask);
        }
}

/* It ends the request, not the agent: a descriptor may be free for the next one. */
TEST_F(test_lack_of_descriptors, Fixture *f) {
        Ask before = {}, lacking = {}, after = {};
        struct rlimit limit, none;

        assert_ok(getrlimit(RLIMIT_NOFILE, &limit));
        none = limit;
        none.rlim_cur = 0; /* not even those are free that the last connection had */
        exchange(f, &before, "200 OK", "{}");
        the_access.credentials.generation++;
        ask_send(f, &lacking, &(KubeRequest){ .verb = "get" });
        assert_ok(setrlimit(RLIMIT_NOFILE, &none));
        RUN_UNTIL(f, lacking.n_replied);
        assert_ok(setrlimit(RLIMIT_NOFILE, &limit));
        assert_contains(lacking.message, "no file descriptor is free");
        assert_int_equal(lacking.kind, ERROR_UNAVAILABLE);
        ask_done(&lacking);

        exchange(f, &after, "200 OK", "{}");
}

TEST_F(test_target, Fixture *f) {
        Ask ask = {};
        char expected[128];

        snprintf(expected, sizeof(expected), "%s by the test", the_access.server);
        assert_string_equal(kube_client_target(f->client), expected);

        /* The server's path stands in front of all others; secret parts of an address are not shown. */
        snprintf(the_access.server, sizeof(the_access.server),
                 "http://u:secret@127.0.0.1:%u/k8s/c/", f->server.port);
        the_access.credentials.generation++;
        ask_send(f, &ask, &(KubeRequest){ .verb = "get" });
        assert_contains(await_request(f)->text, "GET /k8s/c" PATH " HTTP");
        snprintf(expected, sizeof(expected), "http://127.0.0.1:%u/k8s/c by the test",
                 f->server.port);
        assert_string_equal(kube_client_target(f->client), expected);
        ask_done(&ask);
}

/* A proxy of the environment cannot reach servers on this machine; a configured proxy is asked. */
TEST_F(test_proxy, Fixture *f) {
        Ask direct = {}, ask = {};
        char proxy[64];

        assert_ok(setenv("http_proxy", "http://127.0.0.1:1", 1));
        assert_ok(setenv("no_proxy", "*", 1));
        exchange(f, &direct, "200 OK", "{}");
        assert_int_equal(direct.kind, ERROR_NONE);

        snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%u", f->server.port);
        the_access.credentials.server = "https://kubernetes.invalid:6443";
        the_access.credentials.proxy = proxy;
        the_access.credentials.generation++;
        ask_send(f, &ask, &(KubeRequest){ .verb = "get" });
        assert_contains(await_request(f)->text, "CONNECT kubernetes.invalid:6443 HTTP");
        assert_null(strstr(server_next(&f->server)->text, "Bearer"));
        connection_answer(server_next(&f->server), "403 Forbidden", "");
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_UNAVAILABLE);
        assert_int_equal(ask.code, 0);
        assert_contains(ask.message, "CONNECT tunnel failed, response 403");
        ask_done(&ask);
        unsetenv("http_proxy");
        unsetenv("no_proxy");
}

/* curl's error about such a proxy has the proxy's password in it. */
TEST_F(test_proxy_with_password, Fixture *f) {
        Ask ask = {};

        the_access.credentials.server = "https://kubernetes.invalid:6443";
        the_access.credentials.proxy = "odd://user:secret@127.0.0.1:1";
        the_access.credentials.generation++;
        ask_send(f, &ask, &(KubeRequest){ .verb = "get" });
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_UNAVAILABLE);
        assert_contains(ask.message, "the scheme of its proxy is not supported");
        assert_null(strstr(ask.message, "secret"));
        ask_done(&ask);
}
