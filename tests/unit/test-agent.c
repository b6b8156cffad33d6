/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lock by which one agent alone uses a state folder
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "tests/unit/unit.h"

/* Another user who could open the file could keep the agent from starting. */
TEST(test_lock) {
        char folder[] = "/tmp/test-agent-XXXXXX", path[64];
        cleanup(error_done) Error error = ERROR_INIT;
        cleanup(close_p) int lock = -1, other = -1;
        struct stat status;

        assert_non_null(mkdtemp(folder));
        (void) snprintf(path, sizeof(path), "%s/" AGENT_LOCK_FILE, folder);
        assert_ok(agent_lock_folder(folder, /* flags= */ 0, &lock, NULL));
        assert_int_equal(lock, -1);

        assert_ok(agent_lock_folder(folder, O_CREAT, &lock, NULL));
        assert_true(lock >= 0);
        assert_ok(fstat(lock, &status));
        assert_int_equal(status.st_mode & 07777, 0600);
        assert_true(agent_lock_folder(folder, O_CREAT, &other, &error) < 0);
        assert_int_equal(error.kind, ERROR_UNAVAILABLE);
        assert_contains(error_message(&error), folder);

        close_p(&lock);
        assert_ok(agent_lock_folder(folder, O_CREAT, &other, NULL));
        assert_ok(unlink(path));
        assert_ok(rmdir(folder));
}
