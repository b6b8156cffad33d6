/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command "wait", with states of the node that the test says one after the other
 */

#include "agent/ctl/commands.h"
#include "agent/ctl/follow.h"
#include "agent/document/json-cleanup.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define STATES_MAX 4

int __wrap_follower_new(const FollowerOptions *options, Follower **ret);

/* clang-format off */
static const struct Row {
        const char *name;
        const char *phases[STATES_MAX][3]; /* phases of three images in each state */
        ExitStatus expected;
} rows[] = {
        { "all are there",
          { { "Succeeded", "Succeeded", "Succeeded" } }, EXIT_STATUS_DONE },
        { "all have failed",
          { { "Failed", "Failed", "Pulling" },
            { "Failed", "Failed", "Failed" } }, EXIT_STATUS_FAILED },
        { "a failure is shown twice, and the others come",
          { { "Failed", "Pulling", "Pulling" },
            { "Failed", "Pulling", "Pulling" },
            { "Failed", "Succeeded", "Succeeded" } }, EXIT_STATUS_PARTLY },
        { "a failed one is tried again",
          { { "Failed", "Pulling", "Pulling" },
            { "Pulling", "Succeeded", "Pulling" },
            { "Succeeded", "Succeeded", "Succeeded" } }, EXIT_STATUS_DONE },
};
/* clang-format on */

static const struct Row *shown;

/* Shows the states of the row, as if the agent had sent them. */
int __wrap_follower_new(const FollowerOptions *options, Follower **ret) {
        for (size_t i = 0; i < STATES_MAX && shown->phases[i][0]; i++) {
                const char *const *phases = shown->phases[i];
                cleanup(json_object_put_p) json_object *node_image = parse(
                        "{'spec':{'images':{'a':{'tags':[{'tag':'1'},{'tag':'2'},{'tag':'3'}]}}},"
                        "'status':{'imageStatuses':{'a':{'tags':[{'tag':'1','phase':'%s'},"
                        "{'tag':'2','phase':'%s'},{'tag':'3','phase':'%s'}]}}}}",
                        phases[0], phases[1], phases[2]);

                assert_ok(options->on_changed(node_image, node_image, NULL, options->userdata));
        }
        *ret = NULL;
        return 0;
}

TEST_ROWS(test_wait, rows, name, const struct Row *row) {
        shown = row;
        assert_int_equal(command_wait(&(Options){ .socket_path = "/nowhere" }), row->expected);
}
