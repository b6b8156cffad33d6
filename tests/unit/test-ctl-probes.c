/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of the command "probes", with an agent's answer that the test gives
 */

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "agent/ctl/ask.h"
#include "agent/ctl/commands.h"
#include "tests/unit/unit.h"

int __wrap_node_ask(const Question *question, const Options *options,
                    const ProtobufCMessage *request);

static const struct Row {
        const char *name;
        int64_t later_sec; /* time since which the state holds, from now; 0: it is unknown */
        const char *cells; /* STATE, SINCE and TOOK */
} rows[] = {
        { "nothing is known yet", 0, "Unknown  -      -" },
        { "the clock was set back", 3600, "Unknown  0s     -" },
};

static const struct Row *shown;
static char text[1024]; /* the printed table */

int __wrap_node_ask(const Question *question, const Options *options,
                    const ProtobufCMessage *request) {
        Inplaced__V1__Probe probe = INPLACED__V1__PROBE__INIT, *probes[] = { &probe };
        Inplaced__V1__ListProbesResponse reply = INPLACED__V1__LIST_PROBES_RESPONSE__INIT;
        int saved = dup(STDOUT_FILENO), fds[2], r;

        probe.namespace_ = (char *) "default";
        probe.pod = (char *) "web";
        probe.container = (char *) "main";
        probe.name = (char *) "fast";
        probe.state = INPLACED__V1__PROBE_STATE__PROBE_STATE_UNKNOWN;
        probe.since = shown->later_sec > 0 ? time(NULL) + shown->later_sec : 0;
        reply.probes = probes;
        reply.n_probes = 1;

        assert_ok(pipe2(fds, O_CLOEXEC));
        (void) fflush(stdout);
        assert_int_equal(dup2(fds[1], STDOUT_FILENO), STDOUT_FILENO);
        close(fds[1]);
        r = question->print(&reply, options);
        (void) fflush(stdout);
        assert_int_equal(dup2(saved, STDOUT_FILENO), STDOUT_FILENO);
        close(saved);
        memset(text, 0, sizeof(text));
        assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
        close(fds[0]);
        return r;
}

TEST_ROWS(test_table, rows, name, const struct Row *row) {
        shown = row;
        assert_ok(command_probes(&(Options){ .socket_path = "/nowhere" }));
        assert_contains(text, row->cells);
}
