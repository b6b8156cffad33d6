/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests errors about an API server that the node cannot use, or that does not answer
 */

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/cluster/cluster.h"
#include "tests/unit/idle-images.h"
#include "tests/unit/unit.h"

#define FOLDER "/tmp/test-cluster-XXXXXX"

static struct Fixture {
        char folder[sizeof(FOLDER)];
        char kubeconfig[64];
        sd_event *event;
        Log *log;
        CompletionQueue *completions;
        Runtimes *runtimes;
        Images *images;
        Cluster *cluster;
        unsigned n_reached;
        char found[512]; /* "SUBJECT: ADVICE" of each problem */
} f;

static void on_changed(void *userdata) {
}

static void on_reachable(void *userdata) {
        f.n_reached++;
}

static int set_up(void **state) {
        f = (struct Fixture){ .folder = FOLDER };
        assert_non_null(mkdtemp(f.folder));
        (void) snprintf(f.kubeconfig, sizeof(f.kubeconfig), "%s/config", f.folder);
        assert_true(sd_event_new(&f.event) >= 0);
        assert_ok(log_new(LOG_FORMAT_TEXT, -1, &f.log));
        idle_images_new(f.event, f.log, &f.completions, &f.runtimes, &f.images);
        return 0;
}

static int tear_down(void **state) {
        if (f.cluster)
                cluster_stop(f.cluster);
        images_free(f.images);
        assert_null(cluster_free(f.cluster));
        runtimes_free(f.runtimes);
        completion_queue_free(f.completions);
        log_free(f.log);
        sd_event_unref(f.event);
        (void) unlink(f.kubeconfig);
        assert_ok(rmdir(f.folder));
        return 0;
}

/* A port where nothing listens: the socket keeps it. */
static int take_port(uint16_t *ret) {
        struct sockaddr_in address = { .sin_family = AF_INET };
        socklen_t size = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_ok(bind(fd, (struct sockaddr *) &address, size));
        assert_ok(getsockname(fd, (struct sockaddr *) &address, &size));
        *ret = ntohs(address.sin_port);
        return fd;
}

static void write_kubeconfig(uint16_t port) {
        FILE *file = fopen(f.kubeconfig, "we");

        assert_non_null(file);
        fprintf(file,
                "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],\n"
                " clusters: [{name: k, cluster: {server: 'http://127.0.0.1:%u'}}],\n"
                " users: [{name: u, user: {token: t}}]}\n",
                (unsigned) port);
        assert_ok(fclose(file));
}

static int make(Error *reterr) {
        const KubeAccessOptions access = { .kubeconfig = f.kubeconfig };

        return cluster_new(&(ClusterOptions){ .event = f.event,
                                              .log = f.log,
                                              .node_name = "node-1",
                                              .access = &access,
                                              .on_changed = on_changed,
                                              .on_reachable = on_reachable },
                           &f.cluster, reterr);
}

static int on_problem(const char *subject, const char *message, const char *advice,
                      void *userdata) {
        assert_true(strlen(message) > 0);
        (void) snprintf(f.found, sizeof(f.found), "%s: %s", subject, advice);
        return 0;
}

static int on_fact(const char *subject, const char *value, void *userdata) {
        return 0;
}

/* Why it is not ready. */
static const char *obstacle(void) {
        const DiagnosisSource source = cluster_diagnosis(f.cluster);
        const char *why = NULL;

        assert_false(source.is_ready(source.source, &why));
        return why;
}

TEST_SET_UP(test_no_kubeconfig) {
        cleanup(error_done) Error error = ERROR_INIT;

        assert_true(make(&error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_contains(error_message(&error), f.kubeconfig);
}

/* It begins without the server, says what is missing, and goes on. */
TEST_SET_UP(test_no_server) {
        const DiagnosisVisitor visitor = { .on_problem = on_problem, .on_fact = on_fact };
        DiagnosisSource source;
        cleanup(close_p) int fd = -1;
        uint16_t port;

        fd = take_port(&port);
        write_kubeconfig(port);
        assert_ok(make(NULL));
        assert_non_null(cluster_client(f.cluster));
        assert_non_null(cluster_events(f.cluster));
        assert_non_null(cluster_secrets(f.cluster));
        assert_string_equal(obstacle(), "waiting for the API server");
        assert_ok(cluster_start(f.cluster, f.images));
        while (!strstr(obstacle(), "127.0.0.1"))
                assert_true(sd_event_run(f.event, WAIT_USEC) > 0);

        source = cluster_diagnosis(f.cluster);
        assert_int_equal(source.visit(source.source, &visitor), 0);
        assert_string_equal(f.found,
                            "API server: pulls continue; the agent reports them as soon as it "
                            "answers");
        assert_contains(source.target(source.source), "127.0.0.1");
        assert_int_equal(f.n_reached, 0);
}
