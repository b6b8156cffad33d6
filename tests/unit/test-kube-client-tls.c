/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Requests to the API server: whom we trust, and who we are. Real certificates, real handshakes.
 */

#include <fcntl.h>
#include <microhttpd.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "agent/kube/http-library.h"
#include "tests/unit/failing-memory.h"
#include "tests/unit/kube-client-fixture.h"
#include "tests/unit/unit.h"

/* Where the authorities are that the machine trusts, if there are any. */
#define SYSTEM_AUTHORITIES "/etc/ssl/certs/ca-certificates.crt"

#define NOTHING_OF_USE                                                                         \
        "there is no usable certificate in certificate-authority or, without it, among those " \
        "of this machine (ca-certificates)"

/* Two authorities, a server's certificate by the first one for 127.0.0.1 and two names, a client's
 * one, and its key behind a password. */
static const char make_certificates[] =
        "set -e; exec 2>make.log\n"
        "new='openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 "
        "-nodes -days 2'\n"
        "for name in ca other; do\n"
        "  $new -subj /CN=$name -keyout $name.key -out $name.pem\n"
        "done\n"
        "sign='-CA ca.pem -CAkey ca.key -addext basicConstraints=critical,CA:FALSE'\n"
        "$new $sign -subj /CN=server -keyout server.key -out server.pem \\\n"
        "  -addext subjectAltName=IP:127.0.0.1,DNS:kubernetes.test\n"
        "$new $sign -subj /CN=client -keyout client.key -out client.pem\n"
        "openssl ec -in client.key -aes128 -passout pass:x -out locked.key\n";

static char folder[] = "/tmp/test-kube-client-tls-XXXXXX";

/* In place of the one of http-library.h; the test sees what curl is told about the folder of the system's authorities. */
static __typeof__(curl_easy_setopt) *set_option;
static bool has_folder;

int __real_http_library_load(const char *name, HttpLibrary *ret, Error *reterr);
int __wrap_http_library_load(const char *name, HttpLibrary *ret, Error *reterr);

static CURLcode note_option(CURL *easy, CURLoption option, ...) {
        va_list arguments;
        void *value; /* as wide as all that curl takes */

        va_start(arguments, option);
        value = va_arg(arguments, void *);
        va_end(arguments);
        if (option == CURLOPT_CAPATH)
                has_folder = value != NULL;
        return set_option(easy, option, value);
}

int __wrap_http_library_load(const char *name, HttpLibrary *ret, Error *reterr) {
        int r = __real_http_library_load(name, ret, reterr);

        if (r >= 0) {
                set_option = ret->easy_setopt;
                ret->easy_setopt = note_option;
        }
        return r;
}

typedef struct Secure {
        Fixture fixture; /* fixture whose own server gets no request */
        struct MHD_Daemon *daemon;
        _Atomic unsigned n_connections; /* these three are written by the daemon's thread */
        struct MHD_Connection *_Atomic hanging;
        char host[128];
        char *ca, *other, *server_certificate, *server_key, *certificate, *key, *locked_key;
} Secure;

/* Kept until the end of the test. */
static char *read_file(const char *name) {
        char path[128], *text = calloc(1, 8192);
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        file = fopen(path, "r");
        assert_non_null(file);
        assert_true(fread(text, 1, 8191, file) > 0);
        fclose(file);
        return text;
}

static enum MHD_Result on_asked(void *userdata, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *data,
                                size_t *data_size, void **state) {
        Secure *s = userdata;
        static char answer[] = "{}";
        struct MHD_Response *response;
        enum MHD_Result result;

        snprintf(s->host, sizeof(s->host), "%s",
                 MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host"));
        /* An answer to the head alone would close the connection. */
        if (!*state) {
                *state = s;
                return MHD_YES;
        }
        if (strcmp(url, "/hang") == 0 && !s->hanging) {
                MHD_suspend_connection(connection);
                s->hanging = connection;
                return MHD_YES;
        }

        response = MHD_create_response_from_buffer(2, answer, MHD_RESPMEM_PERSISTENT);
        result = MHD_queue_response(connection, 200, response);
        MHD_destroy_response(response);
        return result;
}

static void on_connected(void *userdata, struct MHD_Connection *connection, void **state,
                         enum MHD_ConnectionNotificationCode what) {
        Secure *s = userdata;

        s->n_connections += what == MHD_CONNECTION_NOTIFY_STARTED;
}

static void daemon_start(Secure *s) {
        const struct sockaddr_in address = {
                .sin_family = AF_INET,
                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        };

        s->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_TLS |
                                             MHD_ALLOW_SUSPEND_RESUME,
                                     0, NULL, NULL, on_asked, s, MHD_OPTION_SOCK_ADDR, &address,
                                     MHD_OPTION_HTTPS_MEM_CERT, s->server_certificate,
                                     MHD_OPTION_HTTPS_MEM_KEY, s->server_key,
                                     MHD_OPTION_NOTIFY_CONNECTION, on_connected, s, MHD_OPTION_END);
        assert_non_null(s->daemon);
}

static void go_to(Secure *s, const char *scheme, unsigned port) {
        snprintf(the_access.server, sizeof(the_access.server), "%s://127.0.0.1:%u", scheme, port);
        the_access.credentials.generation++;
}

static int set_up_secure(void **state) {
        Secure *s = calloc(1, sizeof(*s));

        s->ca = read_file("ca.pem");
        s->other = read_file("other.pem");
        s->server_certificate = read_file("server.pem");
        s->server_key = read_file("server.key");
        s->certificate = read_file("client.pem");
        s->key = read_file("client.key");
        s->locked_key = read_file("locked.key");
        daemon_start(s);

        assert_ok(sd_event_new(&s->fixture.event));
        access_reset(&s->fixture);
        go_to(s, "https", MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
        the_access.credentials.ca = s->ca;
        client_start(&s->fixture);
        *state = s;
        return 0;
}

static int tear_down_secure(void **state) {
        Secure *s = *state;

        kube_client_free(s->fixture.client);
        sd_event_unref(s->fixture.event);
        MHD_stop_daemon(s->daemon);
        free(s->ca);
        free(s->other);
        free(s->server_certificate);
        free(s->server_key);
        free(s->certificate);
        free(s->key);
        free(s->locked_key);
        free(s);
        return 0;
}

static void get(Secure *s, Ask *ask) {
        *ask = (Ask){ .drop_at = DROP_AT_REPLY };
        ask_send(&s->fixture, ask, &(KubeRequest){ .verb = "get" });
        RUN_UNTIL(&s->fixture, ask->n_replied);
}

TEST_WITH(test_trusted, set_up_secure, tear_down_secure, Secure *s) {
        Ask ask;

        for (int i = 0; i < 3; i++) {
                get(s, &ask);
                assert_string_equal(ask.message, "");
                assert_string_equal(ask.body, "{}");
        }
        assert_int_equal(s->n_connections, 1);
}

static void assert_distrust(Secure *s, const char *why) {
        char expected[256];
        Ask ask;

        get(s, &ask);
        snprintf(expected, sizeof(expected), "the certificate of %s cannot be trusted: %s",
                 the_access.server, why);
        assert_contains(ask.message, expected);
        assert_int_equal(ask.kind, ERROR_DENIED);
        assert_int_equal(ask.code, 0);
        assert_string_equal(s->fixture.trouble, expected);
}

TEST_WITH(test_wrong_authority, set_up_secure, tear_down_secure, Secure *s) {
        the_access.credentials.ca = s->other;
        the_access.credentials.generation++;
        assert_distrust(s, "unable to get local issuer certificate; check certificate-authority");
}

TEST_WITH(test_authority_of_the_system, set_up_secure, tear_down_secure, Secure *s) {
        the_access.credentials.ca = NULL;
        the_access.credentials.generation++;
        assert_distrust(s, access(SYSTEM_AUTHORITIES, R_OK) == 0
                                   ? "unable to get local issuer certificate; check "
                                     "certificate-authority"
                                   : NOTHING_OF_USE);
}

/* The file of the system's authorities gives way to the given one, but their folder does not. */
TEST_WITH(test_folder_of_the_system, set_up_secure, tear_down_secure, Secure *s) {
        Ask ask;

        for (unsigned i = 0; i < 2; i++) {
                the_access.credentials.ca = i == 0 ? NULL : s->ca;
                the_access.credentials.generation++;
                has_folder = true;
                get(s, &ask);
                assert_int_equal(ask.kind, i == 0 ? ERROR_DENIED : ERROR_NONE);
                assert_int_equal(has_folder, i == 0);
        }
}

TEST_WITH(test_authority_that_is_none, set_up_secure, tear_down_secure, Secure *s) {
        the_access.credentials.ca = "-----BEGIN CERTIFICATE-----\nAAAA\n";
        the_access.credentials.generation++;
        assert_distrust(s, NOTHING_OF_USE);
}

/* A connection that was made without verification is not used with verification. */
TEST_WITH(test_authority_is_replaced, set_up_secure, tear_down_secure, Secure *s) {
        Ask ask;

        get(s, &ask);
        assert_int_equal(ask.kind, ERROR_NONE);
        the_access.credentials.ca = s->other;
        the_access.credentials.generation++;
        get(s, &ask);
        assert_int_equal(ask.kind, ERROR_DENIED);
}

/* A request whose options for TLS cannot be kept is not sent with fewer of them, such as without the authority. The
 * empty password is the first text of this size. */
TEST_WITH(test_options_without_memory, set_up_secure, tear_down_secure, Secure *s) {
        Ask ask = {};
        int result = 0;

        failing_memory.size = sizeof("");
        failing_memory_begin();
        ask_send(&s->fixture, &ask, &(KubeRequest){ .verb = "get" });
        while (!ask.n_replied && sd_event_get_state(s->fixture.event) != SD_EVENT_FINISHED)
                assert_true(sd_event_run(s->fixture.event, WAIT_USEC) >= 0);
        assert_true(failing_memory_end());
        assert_true(sd_event_get_exit_code(s->fixture.event, &result) >= 0);
        assert_int_equal(result, -ENOMEM);
        assert_int_equal(s->n_connections, 0);
        ask_done(&ask);
}

TEST_WITH(test_unverified, set_up_secure, tear_down_secure, Secure *s) {
        Ask ask;

        the_access.credentials.ca = NULL;
        the_access.credentials.is_unverified = true;
        the_access.credentials.generation++;
        get(s, &ask);
        assert_string_equal(ask.message, "");
}

/* The certificate is compared with the name; the server sees its own address. */
TEST_WITH(test_server_name, set_up_secure, tear_down_secure, Secure *s) {
        Ask ask;

        the_access.credentials.tls_server_name = "kubernetes.test";
        the_access.credentials.generation++;
        get(s, &ask);
        assert_string_equal(ask.message, "");
        assert_string_equal(s->host, the_access.server + strlen("https://"));
        assert_contains(kube_client_target(s->fixture.client), "https://127.0.0.1:");
}

TEST_WITH(test_wrong_server_name, set_up_secure, tear_down_secure, Secure *s) {
        Ask ask;

        the_access.credentials.tls_server_name = "other.test";
        the_access.credentials.generation++;
        get(s, &ask);
        /* Newer versions of libcurl write it in one word. */
        assert_distrust(s, strstr(ask.message, "hostname")
                                   ? "no alternative certificate subject name matches target "
                                     "hostname 'other.test'; check server and tls-server-name"
                                   : "no alternative certificate subject name matches target host "
                                     "name 'other.test'; check server and tls-server-name");
}

TEST_WITH(test_server_without_tls, set_up_secure, tear_down_secure, Secure *s) {
        Server plain = { .event = s->fixture.event };
        Ask ask = {};

        server_start(&plain);
        go_to(s, "https", plain.port);
        ask_send(&s->fixture, &ask, &(KubeRequest){ .verb = "get" });
        RUN_UNTIL(&s->fixture, plain.n_connections && plain.connections[0].size > 0);
        connection_answer(&plain.connections[0], "400 Bad Request", "");
        RUN_UNTIL(&s->fixture, ask.n_replied);
        assert_int_equal(ask.kind, ERROR_UNAVAILABLE);
        assert_contains(ask.message, "no TLS with https://127.0.0.1:");
        assert_contains(ask.message, "wrong version number");
        ask_done(&ask);
        server_stop(&plain);
}

/* With HTTP/1.1 a call that waits for an answer has the connection for itself. */
TEST_WITH(test_others_do_not_wait, set_up_secure, tear_down_secure, Secure *s) {
        Ask hanging = {}, ask;

        ask_send(&s->fixture, &hanging, &(KubeRequest){ .path = "/hang" });
        while (!s->hanging)
                assert_true(sd_event_run(s->fixture.event, 10000) >= 0);
        get(s, &ask);
        assert_int_equal(ask.kind, ERROR_NONE);
        get(s, &ask);
        assert_int_equal(ask.kind, ERROR_NONE);
        assert_int_equal(hanging.n_replied, 0);
        assert_int_equal(s->n_connections, 2);
        ask_done(&hanging);
        MHD_resume_connection(s->hanging);
}

/* A server that refuses clients without a certificate, and shows whose it was. */
static FILE *start_strict_server(pid_t *ret_pid, unsigned *ret_port) {
        char *arguments[] = { "openssl", "s_server",   "-accept", "127.0.0.1:0",          "-www",
                              "-cert",   "server.pem", "-key",    "server.key",           "-CAfile",
                              "ca.pem",  "-Verify",    "1",       "-verify_return_error", NULL };
        posix_spawn_file_actions_t actions;
        FILE *output;
        char line[256];
        int fds[2];

        assert_ok(pipe(fds));
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
        posix_spawn_file_actions_addclose(&actions, fds[0]);
        posix_spawn_file_actions_addopen(&actions, 2, "make.log", O_WRONLY | O_APPEND, 0);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        assert_ok(posix_spawnp(ret_pid, "openssl", &actions, NULL, arguments, environ));
        posix_spawn_file_actions_destroy(&actions);
        close(fds[1]);

        output = fdopen(fds[0], "r");
        while (fgets(line, sizeof(line), output))
                if (sscanf(line, "ACCEPT 127.0.0.1:%u", ret_port) == 1)
                        return output;

        fail_msg("openssl s_server does not start");
        return NULL;
}

static void use_client(const char *certificate, const char *key) {
        the_access.credentials.certificate = certificate;
        the_access.credentials.key = key;
        the_access.credentials.generation++;
}

TEST_WITH(test_client_certificate, set_up_secure, tear_down_secure, Secure *s) {
        unsigned port;
        FILE *output;
        pid_t pid;
        Ask ask;

        output = start_strict_server(&pid, &port);
        go_to(s, "https", port);
        get(s, &ask);
        assert_int_equal(ask.kind, ERROR_UNAVAILABLE);
        assert_contains(ask.message, "certificate required");

        use_client(s->certificate, s->key);
        get(s, &ask);
        assert_string_equal(ask.message, "");
        assert_contains(ask.body, "Subject: CN=client");

        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        fclose(output);
}

TEST_WITH(test_useless_client_certificate, set_up_secure, tear_down_secure, Secure *s) {
        Ask ask;

        use_client("nothing", s->key);
        get(s, &ask);
        assert_int_equal(ask.kind, ERROR_DENIED);
        assert_contains(ask.message, "check client-certificate and client-key");

        use_client(s->certificate, s->server_key);
        get(s, &ask);
        assert_int_equal(ask.kind, ERROR_DENIED);

        use_client(s->certificate, s->locked_key); /* no user is asked for its password */
        get(s, &ask);
        assert_int_equal(ask.kind, ERROR_DENIED);
        assert_contains(s->fixture.trouble, "check client-certificate and client-key");
}

int main(void) {
        int status;

        if (!mkdtemp(folder) || chdir(folder) < 0 || system(make_certificates) != 0)
                return 1;
        status = unit_run();
        return system("rm -r \"$PWD\"") == 0 ? status : 1;
}
