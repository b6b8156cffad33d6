/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <fcntl.h>

#include "tests/unit/unit.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/ctl/connect.h"
#include "agent/ctl/doctor.h"

#define FILE_NAME "file"
#define SERVED_NAME "served.sock"
#define STALE_NAME "stale.sock"

/* A directory with a file, a socket that is served, and one whose owner has died. */
static int set_up(void **state) {
        char *directory = strdup("/tmp/test-ctl-socket-check-XXXXXX");

        *state = directory;
        return mkdtemp(directory) && chdir(directory) == 0 ? 0 : -1;
}

static int tear_down(void **state) {
        cleanup(free_p) char *directory = *state;

        (void) unlink(FILE_NAME);
        (void) unlink(SERVED_NAME);
        (void) unlink(STALE_NAME);
        return rmdir(directory);
}

static int make_socket(const char *name) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        strcpy(address.sun_path, name);
        assert_ok(bind(fd, (struct sockaddr *) &address, sizeof(address)));
        assert_ok(listen(fd, 1));
        return fd;
}

TEST_SET_UP(test_each_reason_is_found) {
        cleanup(close_p) int served = make_socket(SERVED_NAME);
        char long_path[200];

        close(make_socket(STALE_NAME));
        close(open(FILE_NAME, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        memset(long_path, 'x', sizeof(long_path) - 1);
        long_path[sizeof(long_path) - 1] = '\0';

        assert_ok(socket_check(SERVED_NAME));
        assert_int_equal(socket_check(STALE_NAME), -ECONNREFUSED);
        assert_int_equal(socket_check(FILE_NAME), -ENOTSOCK);
        assert_int_equal(socket_check("none.sock"), -ENOENT);
        assert_int_equal(socket_check(long_path), -ENAMETOOLONG);
}

static const struct AdviceSaysWhatToDoRow {
        int result;
        const char *advice;
} advice_says_what_to_do_rows[] = {
        { -ENOENT, "no such file; is it running? try: systemctl status inplaced" },
        { -ECONNREFUSED, "nothing listens there; is it running? try: systemctl status inplaced" },
        { -ENOTSOCK, "not a socket; check --socket" },
        { -EACCES, "permission denied; run it as root" },
        { -EIO, "Input/output error; try: journalctl -u inplaced" },
};

TEST_ROWS_F(test_advice_says_what_to_do, advice_says_what_to_do_rows, advice,
            const struct AdviceSaysWhatToDoRow *row, void *unused) {
        cleanup(free_p) char *advice = socket_check_advise("/proc", row->result);

        assert_string_equal(advice, row->advice);
}

TEST_SET_UP(test_the_group_is_named) {
        cleanup(free_p) char *advice = NULL;

        close(open(FILE_NAME, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        if (chown(FILE_NAME, (uid_t) -1, 1) < 0)
                skip(); /* only root may */

        advice = socket_check_advise(FILE_NAME, -EACCES);
        assert_string_equal(advice,
                            "permission denied; run it as root or join the group \"daemon\"");
}

/* The agent always serves root, so an agent that hangs up is lost, and has not refused root. */
TEST_SET_UP(test_root_is_served) {
        cleanup(error_done) Error error = ERROR_INIT;
        NodeClient *client;

        close(open(FILE_NAME, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        if (chown(FILE_NAME, 1, 1) < 0)
                skip(); /* only root may */

        assert_ok(node_client_new(FILE_NAME, NULL, NULL, &client));
        (void) error_set(&error, ERROR_CANCELED, "canceled");
        assert_true(node_client_is_lost(client, &error));
        assert_null(node_client_free(client));
}

TEST_SET_UP(test_diagnosis_without_the_agent) {
        const char *const sockets[] = { "none.sock", SERVED_NAME, NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(close_p) int served = -1;
        LocalDiagnosis diagnosis;

        (void) unlink(SERVED_NAME);
        (void) error_set(&error, ERROR_UNAVAILABLE, "cannot reach inplaced");
        doctor_local_diagnose(sockets, &error, &diagnosis);
        assert_int_equal(diagnosis.response.n_facts, 2);
        assert_int_equal(diagnosis.response.n_problems, 2);
        assert_string_equal(diagnosis.response.problems[0]->message, "cannot reach inplaced");
        assert_string_equal(diagnosis.response.problems[1]->subject, "container runtime");
        assert_string_equal(diagnosis.response.problems[1]->message,
                            "none listens on the usual sockets");

        served = make_socket(SERVED_NAME);
        doctor_local_diagnose(sockets, &error, &diagnosis);
        assert_int_equal(diagnosis.response.n_problems, 1);
        assert_string_equal(diagnosis.response.facts[0]->value, "no such file");
        assert_string_equal(diagnosis.response.facts[1]->value, "it accepts connections");
}
