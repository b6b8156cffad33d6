/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Requests to the API server: one exchange, whatever becomes of it
 */

#include "tests/unit/failing-memory.h"
#include "tests/unit/kube-client-fixture.h"
#include "tests/unit/unit.h"

TEST_F(test_request, Fixture *f) {
        Ask ask = { .drop_at = DROP_AT_REPLY };
        Connection *connection;

        ask_send(f, &ask, &(KubeRequest){ .path = PATH "?a=b%2Fc" });
        connection = await_request(f);
        assert_contains(connection->text, "GET " PATH "?a=b%2Fc HTTP/1.1\r\n");
        assert_contains(connection->text, "\r\nAccept: application/json\r\n");
        assert_contains(connection->text, "\r\nAuthorization: Bearer first\r\n");
        assert_contains(connection->text, "\r\nUser-Agent: inplaced/");
        assert_null(strstr(connection->text, "Accept-Encoding"));
        assert_null(strstr(connection->text, "Content-"));

        connection_answer(connection, "200 OK", "{\"a\":1}");
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_NONE);
        assert_int_equal(ask.code, 200);
        assert_string_equal(ask.body, "{\"a\":1}");
        assert_int_equal(n_counted(f, "get", "200"), 1);
}

/* A query that is lost asks for all objects of a kind, or makes a rehearsal a write. */
TEST_F(test_query_without_memory, Fixture *f) {
        static const char *const methods[] = { "GET", "PATCH", "POST", "DELETE" };
        char query[1000] = "labelSelector=", path[1200], line[1300];

        /* No other allocation has this size. */
        memset(query + strlen(query), 'x', sizeof(query) - strlen(query) - 1);
        (void) snprintf(path, sizeof(path), PATH "?%s", query);
        for (size_t i = 0; i < N_ELEMENTS(methods); i++) {
                unsigned n_failed = 0;
                bool has_failed;

                (void) snprintf(line, sizeof(line), "%s %s HTTP/1.1\r\n", methods[i], path);
                do {
                        Ask ask = {};
                        Connection *connection;

                        failing_memory.size = sizeof(query);
                        failing_memory_begin();
                        ask_send(f, &ask, &(KubeRequest){ .method = methods[i], .path = path });
                        RUN_UNTIL(f, ask.n_replied || server_next(&f->server));
                        has_failed = failing_memory_end();
                        connection = server_next(&f->server);
                        if (connection) {
                                assert_contains(connection->text, line);
                                connection_answer(connection, "200 OK", "{}");
                                RUN_UNTIL(f, ask.n_replied);
                        }
                        if (!has_failed)
                                assert_int_equal(ask.kind, ERROR_NONE);
                        n_failed += has_failed;
                        ask_done(&ask);
                } while (has_failed);
                assert_true(n_failed > 0);
        }
}

TEST_F(test_body, Fixture *f) {
        char body[] = "{\"b\":2}";
        Ask ask = { .drop_at = DROP_AT_REPLY };
        Connection *connection;
        const KubeRequest request = {
                .method = "PATCH",
                .content_type = KUBE_MERGE_PATCH,
                .accept = KUBE_METADATA_ONLY,
                .body = body,
        };

        ask_send(f, &ask, &request);
        memset(body, 'x', strlen(body)); /* it was copied */
        connection = await_request(f);
        RUN_UNTIL(f, strchr(connection->text, '}'));
        assert_contains(connection->text, "PATCH " PATH " HTTP/1.1\r\n");
        assert_contains(connection->text, "\r\nContent-Type: " KUBE_MERGE_PATCH);
        assert_contains(connection->text, "\r\nAccept: " KUBE_METADATA_ONLY "\r\n");
        assert_contains(connection->text, "\r\n\r\n{\"b\":2}");
        assert_null(strstr(connection->text, "Expect"));
        connection_answer(connection, "200 OK", "{}");
        RUN_UNTIL(f, ask.n_replied);
}

TEST_F(test_basic_authentication, Fixture *f) {
        Ask ask = {};

        the_access.credentials.token = NULL;
        the_access.credentials.username = "u";
        the_access.credentials.password = "p";
        the_access.credentials.generation++;
        ask_send(f, &ask, &(KubeRequest){ .verb = "get" });
        assert_contains(await_request(f)->text, "\r\nAuthorization: Basic dTpw\r\n");
        ask_done(&ask);
}

TEST_F(test_refusal, Fixture *f) {
        Ask ask = {};

        exchange(f, &ask, "404 Not Found\r\nRetry-After: 7",
                 "{\"kind\":\"Status\",\"message\":\"nodeimages \\\"node-1\\\" not found\"}");
        assert_int_equal(ask.kind, ERROR_NOT_FOUND);
        assert_int_equal(ask.code, 404);
        assert_int_equal(ask.retry_after_usec, 7000000);
        assert_string_equal(ask.message, "GET nodeimages/node-1: nodeimages \"node-1\" not found");
        assert_string_equal(f->trouble, ""); /* an answer is an answer */
        assert_null(kube_client_trouble(f->client));
}

TEST_F(test_retry_after_date, Fixture *f) {
        char head[128];
        time_t at = time(NULL) + 100;
        Ask ask = {};

        strftime(head, sizeof(head), "429 No\r\nRetry-After: %a, %d %b %Y %H:%M:%S GMT",
                 gmtime(&at));
        exchange(f, &ask, head, "");
        assert_true(ask.retry_after_usec > 90000000 && ask.retry_after_usec <= 100000000);
}

/* The server's time is read, also from refusals; an invalid date is ignored. */
TEST_F(test_time_of_server, Fixture *f) {
        static const struct {
                const char *head;
                int64_t sec; /* 0: not known */
        } answers[] = {
                { "200 OK", 0 },
                { "200 OK\r\nDate: now", 0 },
                { "200 OK\r\ndate: Sat, 31 Jan 2026 12:00:00 GMT", 1769860800 },
                { "404 No\r\nDATE:Sat, 31 Jan 2026 12:30:00 GMT", 1769862600 },
                { "200 OK\r\nX-Date: Sat, 31 Jan 2026 13:00:00 GMT", 1769862600 },
        };

        for (size_t i = 0; i < N_ELEMENTS(answers); i++) {
                int64_t usec = 0;
                Ask ask = {};

                exchange(f, &ask, answers[i].head, "{}");
                assert_int_equal(kube_client_server_usec(f->client, &usec), answers[i].sec > 0);
                assert_true(usec / 1000000 >= answers[i].sec &&
                            usec / 1000000 < answers[i].sec + 60);
                ask_done(&ask);
        }
}

static const struct EndlessPause {
        const char *head;
} endless[] = {
        { "429 No\r\nRetry-After: 18446744073710" },
        { "429 No\r\nRetry-After: 9223372036854775807" },
};

/* A number of seconds that overflows as microseconds. libcurl 8 makes six hours of it, we a day. */
TEST_ROWS_F(test_retry_after_without_end, endless, head, const struct EndlessPause *row,
            Fixture *f) {
        Ask ask = {};

        exchange(f, &ask, row->head, "");
        assert_true(ask.retry_after_usec == (uint64_t) 86400 * 1000000 ||
                    ask.retry_after_usec == (uint64_t) 21600 * 1000000);
}

TEST_F(test_redirect_is_not_followed, Fixture *f) {
        Ask ask = {};

        exchange(f, &ask, "302 Found\r\nLocation: /elsewhere", "");
        assert_int_equal(ask.code, 302);
        assert_int_equal(ask.kind, ERROR_INVALID);
        run_dry(f);
        assert_null(server_next(&f->server));
}

TEST_F(test_large_reply, Fixture *f) {
        Ask ask = {}, next = {};

        ask_send(f, &ask, &(KubeRequest){ .reply_max = 4 });
        connection_answer(await_request(f), "200 OK", "12345");
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_INVALID);
        assert_string_equal(ask.message, "GET nodeimages/node-1: the reply is larger than 4 bytes");

        ask_send(f, &next, &(KubeRequest){ .reply_max = 4 });
        connection_answer(await_request(f), "200 OK", "1234");
        RUN_UNTIL(f, next.n_replied);
        assert_string_equal(next.body, "1234");
        ask_done(&ask);
        ask_done(&next);
}

/* A large refusal is cut, but its reason stays known. */
TEST_F(test_large_refusal, Fixture *f) {
        Ask ask = {};
        char text[8192];

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        ask_send(f, &ask, &(KubeRequest){ .verb = "get" });
        connection_send(await_request(f), "HTTP/1.1 403 No\r\nContent-Length: 80000\r\n\r\n");
        for (int i = 0; i < 9; i++)
                connection_send(server_next(&f->server), text);
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.code, 403);
        assert_int_equal(ask.kind, ERROR_DENIED);
        ask_done(&ask);
}

TEST_F(test_cut_reply, Fixture *f) {
        Connection *connection;
        Ask ask = {};

        ask_send(f, &ask, &(KubeRequest){ .verb = "get" });
        connection = await_request(f);
        connection_send(connection, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345");
        connection_close(connection);
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_UNAVAILABLE);
        assert_contains(ask.message, "was cut");
        assert_int_equal(f->n_reported, 1); /* the report that the server answers */
        ask_done(&ask);
}

TEST_F(test_stream, Fixture *f) {
        Connection *connection;
        Ask ask = {};

        ask_send(f, &ask,
                 &(KubeRequest){ .verb = "watch",
                                 .on_accepted = on_accepted,
                                 .on_data = on_piece,
                                 .timeout_usec = UINT64_MAX });
        connection = await_request(f);
        connection_begin_stream(connection);
        RUN_UNTIL(f, ask.n_accepted);
        assert_null(kube_client_trouble(f->client)); /* known before the end */
        assert_int_equal(n_counted(f, "watch", "200"), 1);

        connection_send_piece(connection, "one");
        RUN_UNTIL(f, strstr(ask.data, "one|"));
        connection_send_piece(connection, "two");
        RUN_UNTIL(f, strstr(ask.data, "one|two|"));
        assert_int_equal(ask.n_replied, 0);

        connection_send(connection, "0\r\n\r\n");
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_NONE);
        assert_string_equal(ask.body, "");
        assert_int_equal(ask.n_accepted, 1);
        assert_int_equal(n_counted(f, "watch", "200"), 1);
        ask_done(&ask);
}

TEST_F(test_refused_stream, Fixture *f) {
        Ask ask = {};

        ask_send(f, &ask,
                 &(KubeRequest){
                         .verb = "watch", .on_accepted = on_accepted, .on_data = on_piece });
        connection_answer(await_request(f), "410 Gone",
                          "{\"kind\":\"Status\",\"message\":\"too old\"}");
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_GONE);
        assert_string_equal(ask.data, "");
        assert_int_equal(ask.n_accepted, 0);
        assert_int_equal(n_counted(f, "watch", "410"), 1);
        ask_done(&ask);
}

TEST_F(test_stream_that_is_cut_by_us, Fixture *f) {
        Connection *connection;
        Ask ask = { .data_result = -1 };

        ask_send(f, &ask, &(KubeRequest){ .verb = "watch", .on_data = on_piece });
        connection = await_request(f);
        connection_begin_stream(connection);
        connection_send_piece(connection, "one");
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_CANCELED);
        assert_null(kube_client_trouble(f->client));
        RUN_UNTIL(f, !connection_is_open(connection));
        ask_done(&ask);
}

TEST_F(test_time_out, Fixture *f) {
        Connection *connection;
        Ask ask = {};
        char expected[256];

        ask_send(f, &ask, &(KubeRequest){ .timeout_usec = 500000 });
        connection = await_request(f);
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_TIMEOUT);
        assert_int_equal(ask.code, 0);
        snprintf(expected, sizeof(expected), "%s did not answer within 0.5 s", the_access.server);
        assert_contains(ask.message, expected);
        assert_string_equal(f->trouble, expected);
        assert_int_equal(n_counted(f, "get", "none"), 1);
        RUN_UNTIL(f, !connection_is_open(connection));
        ask_done(&ask);
}

TEST_F(test_answer_does_not_begin, Fixture *f) {
        Connection *connection;
        Ask ask = {};

        ask_send(f, &ask,
                 &(KubeRequest){
                         .on_data = on_piece, .timeout_usec = UINT64_MAX, .accept_usec = 500000 });
        connection = await_request(f);
        RUN_UNTIL(f, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_TIMEOUT);
        assert_contains(ask.message, "did not answer within 0.5 s");
        RUN_UNTIL(f, !connection_is_open(connection));
        ask_done(&ask);
}

TEST_F(test_silence, Fixture *f) {
        Connection *connection;
        Ask ask = {};

        ask_send(f, &ask,
                 &(KubeRequest){
                         .on_data = on_piece, .timeout_usec = UINT64_MAX, .silence_usec = 500000 });
        connection = await_request(f);
        connection_begin_stream(connection);
        connection_send_piece(connection, "one");
        RUN_UNTIL(f, ask.n_replied);
        assert_string_equal(ask.data, "one|");
        assert_int_equal(ask.kind, ERROR_TIMEOUT);
        assert_contains(ask.message, "was silent for 0.5 s");
        ask_done(&ask);
}

static const DropAt drops[] = { DROP_AT_ACCEPTED, DROP_AT_DATA, DROP_AT_REPLY };

/* Each callback may drop its own call and another one, which hangs on another connection. */
TEST_F(test_drop_in_callback, Fixture *f) {
        for (size_t i = 0; i < N_ELEMENTS(drops); i++) {
                Ask other = {}, ask = { .drop_at = drops[i], .other = &other };
                Connection *first, *second;

                ask_send(f, &other, &(KubeRequest){ .on_data = on_piece });
                first = await_request(f);
                connection_begin_stream(first);
                connection_send_piece(first, "x");
                RUN_UNTIL(f, other.data[0]);

                ask_send(f, &ask,
                         &(KubeRequest){ .on_accepted = on_accepted, .on_data = on_piece });
                second = await_request(f);
                connection_begin_stream(second);
                connection_send_piece(second, "a");
                connection_send(second, "0\r\n\r\n");
                RUN_UNTIL(f, !ask.call);
                run_dry(f);
                assert_null(other.call);
                assert_int_equal(ask.n_replied, drops[i] == DROP_AT_REPLY);
                assert_int_equal(other.n_replied, 0);
                RUN_UNTIL(f, !connection_is_open(first));
        }
}

TEST_F(test_drop_before_it_is_sent, Fixture *f) {
        Ask ask = {};

        ask_send(f, &ask, &(KubeRequest){ .verb = "get" });
        ask_done(&ask);
        run_dry(f);
        assert_int_equal(f->server.n_connections, 0);
        assert_int_equal(ask.n_replied, 0);
}

/* The owner of a call may drop it later. */
TEST_F(test_calls_outlive_the_client, Fixture *f) {
        Ask waiting = {}, sent = {};

        ask_send(f, &sent, &(KubeRequest){ .verb = "get" });
        await_request(f);
        ask_send(f, &waiting, &(KubeRequest){ .verb = "get" });
        f->client = kube_client_free(f->client);
        run_dry(f);
        assert_int_equal(sent.n_replied + waiting.n_replied, 0);
        ask_done(&sent);
        ask_done(&waiting);
}
