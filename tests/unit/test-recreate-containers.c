/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the knowledge of a request's containers, from the runtime, the pod and the stops
 */

#include <time.h>
#include <unistd.h>

#include "agent/pod/stop-journal.h"
#include "agent/recreate/recreate-containers.h"
#include "tests/unit/scratch-folder.h"
#include "tests/unit/unit.h"

#define WALL_USEC ((int64_t) (5000 * SEC))
#define OWNER "recreate/u-1"

static struct {
        sd_event *event;
        Stops *stops;
        char folder[40];
} node;

static RecreateContainer asked[] = { { .name = (char *) "app" }, { .name = (char *) "side" } };
static RecreateSpec spec = { .containers = asked, .n_containers = 2 };
static RequestContainers containers;

static void remove_journal(void) {
        char path[64];

        (void) snprintf(path, sizeof(path), "%s/stops.json", node.folder);
        (void) unlink(path);
}

/* A stop of this owner has ended that container, in this run of the agent or before; NULL: none. Older
 * versions have not noted its name, which is NULL then. */
static void stop_named(const char *id, const char *name) {
        const StopRecord record = {
                .owner = (char *) OWNER,
                .container_id = (char *) id,
                .container = (char *) name,
                .phase = STOP_PHASE_STOPPED,
                .changed_sec = (int64_t) time(NULL),
        };
        StopJournal *journal;

        stops_free(node.stops);
        remove_journal();
        if (id) {
                assert_ok(stop_journal_new(node.folder, &journal, NULL));
                assert_ok(stop_journal_set(journal, &record, NULL));
                stop_journal_free(journal);
        }
        assert_int_equal(stops_new(&(StopsOptions){ .event = node.event, .state_dir = node.folder },
                                   &node.stops),
                         0);
}

static void stop(const char *id) {
        stop_named(id, NULL);
}

static int set_up(void **state) {
        node.stops = NULL;
        assert_true(sd_event_new(&node.event) >= 0);
        scratch_make(node.folder);
        stop(NULL);
        asked[0].context_id = NULL;
        assert_ok(request_containers_set(&containers, &spec));
        return 0;
}

static int tear_down(void **state) {
        request_containers_done(&containers);
        stops_free(node.stops);
        remove_journal();
        assert_ok(rmdir(node.folder));
        sd_event_unref(node.event);
        return 0;
}

/* The runtime has this container of "app", and none of the other name. */
static void list(RuntimeContainer newest, RuntimeContainer former, uint64_t now_usec) {
        const RuntimePod pod = {
                .containers = &newest,
                .n_containers = 1,
                .former = &former,
                .n_former = former.id ? 1 : 0,
        };

        newest.name = former.name = (char *) "app";
        assert_ok(request_containers_note(&containers, &spec, &pod, node.stops, OWNER, now_usec));
}

static RecreateFact fact_of(RequestContainersView view, size_t i) {
        cleanup(free_p) RecreateFact *facts = NULL;

        view.wall_usec = view.wall_usec ?: WALL_USEC;
        view.server_usec = view.server_usec ?: view.wall_usec;
        assert_ok(request_containers_to_facts(&containers, &spec, &view, &facts));
        return facts[i];
}

static const RuntimeContainer none = { .id = NULL };

static RuntimeContainer running(const char *id) {
        return (RuntimeContainer){ .id = (char *) id, .is_running = true };
}

static RuntimeContainer exited(const char *id) {
        return (RuntimeContainer){ .id = (char *) id, .is_exited = true };
}

TEST_SET_UP(test_of_spec) {
        const RecreateSpec fewer = { .containers = asked, .n_containers = 1 };

        assert_true(request_containers_are_of(&containers, &spec));
        assert_false(request_containers_are_of(&containers, &fewer));
        assert_ptr_equal(request_containers_find(&containers, "side"), &containers.items[1]);
        assert_null(request_containers_find(&containers, "other"));
        request_containers_done(&containers);
        assert_false(request_containers_are_of(&containers, &spec));
}

/* Since when a container runs is known anew for each. */
TEST_SET_UP(test_newest) {
        list(running("a1"), none, 10 * SEC);
        assert_string_equal(fact_of((RequestContainersView){ .now_usec = 12 * SEC }, 0).id, "a1");
        assert_int_equal(fact_of((RequestContainersView){ .now_usec = 12 * SEC }, 0).age_usec,
                         2 * SEC);
        assert_false(fact_of((RequestContainersView){ .now_usec = 12 * SEC }, 1).is_here);

        list(running("a1"), none, 13 * SEC);
        list(running("a2"), exited("a1"), 15 * SEC);
        assert_string_equal(fact_of((RequestContainersView){ .now_usec = 16 * SEC }, 0).id, "a2");
        assert_int_equal(fact_of((RequestContainersView){ .now_usec = 16 * SEC }, 0).age_usec, SEC);

        assert_ok(request_containers_note(&containers, &spec, NULL, node.stops, OWNER, 0));
        assert_false(fact_of((RequestContainersView){ .now_usec = 17 * SEC }, 0).is_here);
}

/* clang-format off */
static const struct KilledRow {
        const char *name, *stopped, *context_id, *newest, *former;
        bool is_running, was_killed;
} kills[] = {
        { "nothing was",                    NULL, NULL,              "a1", NULL, true,  false },
        { "the newest",                     "a1", NULL,              "a1", NULL, false, true  },
        { "it runs all the same",           "a1", NULL,              "a1", NULL, true,  false },
        { "a former one",                   "a1", NULL,              "a2", "a1", true,  true  },
        { "the one that the request names", "a1", "containerd://a1", "a2", NULL, true,  true  },
        { "that one runs all the same",     "a1", "containerd://a1", "a1", NULL, true,  false },
        { "another one",                    "x",  "containerd://a1", "a2", "a1", true,  false },
};
/* clang-format on */

TEST_ROWS_F(test_killed, kills, name, const struct KilledRow *row, void *unused) {
        print_message("%s\n", row->name);
        stop(row->stopped);
        asked[0].context_id = (char *) row->context_id;
        list(row->is_running ? running(row->newest) : exited(row->newest),
             row->former ? exited(row->former) : none, 0);
        assert_int_equal(fact_of((RequestContainersView){ .now_usec = 0 }, 0).was_killed,
                         row->was_killed);
}

/* The kubelet has removed it, and the request names another one. */
TEST_SET_UP(test_killed_and_removed) {
        asked[0].context_id = (char *) "containerd://a1";
        stop_named("a2", "side");
        list(running("a3"), exited("a1"), 0);
        assert_false(fact_of((RequestContainersView){ .now_usec = 0 }, 0).was_killed);
        assert_true(fact_of((RequestContainersView){ .now_usec = 0 }, 1).was_killed);

        stop_named("a2", "app");
        list(running("a3"), exited("a1"), 0);
        assert_true(fact_of((RequestContainersView){ .now_usec = 0 }, 0).was_killed);
        list(running("a2"), none, 0);
        assert_false(fact_of((RequestContainersView){ .now_usec = 0 }, 0).was_killed);
}

/* A container that the stop has ended counts as ended before the runtime says so. */
TEST_SET_UP(test_ended) {
        list((RuntimeContainer){ .id = (char *) "a1" }, none, 0);
        assert_false(fact_of((RequestContainersView){ .now_usec = 0 }, 0).is_exited);
        assert_ok(request_container_note_end(&containers.items[0], "a1", true));
        assert_true(fact_of((RequestContainersView){ .now_usec = 0 }, 0).is_exited);
        assert_true(fact_of((RequestContainersView){ .now_usec = 0 }, 0).was_killed);

        list(running("a1"), none, 0);
        assert_false(fact_of((RequestContainersView){ .now_usec = 0 }, 0).is_exited);
}

/* The pod knows longer since when it runs, to the second. */
TEST_SET_UP(test_pod) {
        PodContainer in_pod = { .name = (char *) "app", .is_ready = true, .is_running = true };
        Pod pod = { .containers = &in_pod, .n_containers = 1 };
        RequestContainersView view = { .now_usec = 1 * SEC, .pod = &pod, .are_pods_known = true };

        list(running("a1"), none, 0);
        in_pod.container_id = (char *) "containerd://a1";
        in_pod.started_at_sec = WALL_USEC / SEC - 100;
        assert_true(fact_of(view, 0).is_ready);
        assert_int_equal(fact_of(view, 0).age_usec, 99 * SEC);
        assert_true(fact_of(view, 0).is_in_pod);
        assert_false(fact_of(view, 1).is_in_pod);
        assert_false(fact_of(view, 0).runs_once);
        assert_false(fact_of(view, 1).runs_once);
        in_pod.kind = POD_CONTAINER_SIDECAR;
        assert_false(fact_of(view, 0).runs_once);
        in_pod.kind = POD_CONTAINER_INIT;
        assert_true(fact_of(view, 0).runs_once);
        in_pod.name = (char *) "other";
        assert_true(fact_of(view, 0).runs_once);
        in_pod = (PodContainer){ .name = (char *) "app", .is_ready = true, .is_running = true };

        in_pod.container_id = (char *) "containerd://a1";
        in_pod.started_at_sec = WALL_USEC / SEC + 100;
        assert_int_equal(fact_of(view, 0).age_usec, 1 * SEC);
        in_pod.started_at_sec = 0; /* is not known */
        assert_int_equal(fact_of(view, 0).age_usec, 1 * SEC);
        in_pod.container_id = (char *) "containerd://a0";
        in_pod.started_at_sec = 1;
        assert_false(fact_of(view, 0).is_ready);
        assert_int_equal(fact_of(view, 0).age_usec, 1 * SEC);
}

/* The pod's status may still be about the container before. */
TEST_SET_UP(test_stays_ended) {
        PodContainer in_pod = { .name = (char *) "app",
                                .container_id = (char *) "containerd://a1",
                                .stays_ended = true };
        Pod pod = { .containers = &in_pod, .n_containers = 1 };
        const RequestContainersView view = { .pod = &pod, .are_pods_known = true };

        list(exited("a1"), none, 0);
        assert_true(fact_of(view, 0).stays_ended);
        assert_false(fact_of(view, 1).stays_ended);
        list(exited("a2"), exited("a1"), 0);
        assert_false(fact_of(view, 0).stays_ended);
}

/* A controller's snapshot of the pod counts while the agent does not see the pod. */
TEST_SET_UP(test_snapshot) {
        RecreateSnapshot seen = { (char *) "app", (char *) "containerd://a1", true };

        spec.snapshot = &seen;
        spec.n_snapshot = 1;
        list(running("a1"), none, 0);
        assert_true(fact_of((RequestContainersView){ .are_pods_known = true }, 0).is_ready);
        seen.container_id = (char *) "containerd://a0";
        assert_false(fact_of((RequestContainersView){ .are_pods_known = true }, 0).is_ready);
        spec.n_snapshot = 0;
}

TEST_SET_UP(test_times) {
        RequestContainersView view = { .now_usec = 0, .server_usec = WALL_USEC - 60 * SEC };
        RuntimeContainer made = running("a1");

        made.created_at_nsec = (int64_t) 4000 * 1000000000;
        list(made, none, 0);
        assert_int_equal(fact_of(view, 0).created_at_sec, 3940);

        containers.items[0].rest_usec = 5 * SEC;
        assert_int_equal(fact_of(view, 0).rest_usec, 5 * SEC);
        view.now_usec = 7 * SEC;
        assert_int_equal(fact_of(view, 0).rest_usec, 0);
        view.stopping = "app";
        assert_true(fact_of(view, 0).is_stopping);
        assert_false(fact_of(view, 1).is_stopping);
}
