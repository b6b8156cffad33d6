/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How the image of a container is spelled for a restart, and which changes of metadata are taken
 */

#include "agent/kubectl/restart-image-plan.h"
#include "agent/kubectl/workload.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define NOW_SEC 10000
#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER_HEX "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DIGEST "@sha256:" HEX

static json_object *make_pod(const char *image, const char *named, const char *id,
                             const char *policy, const char *annotation) {
        json_object *pod = parse(
                "{'metadata': {'name': 'web-0', 'uid': 'u', 'resourceVersion': '7', "
                "'labels': {'app': 'web'}, 'annotations': {}}, 'spec': {'containers': "
                "[{'name': 'a', 'image': '%s', 'imagePullPolicy': '%s'}]}, 'status': "
                "{'containerStatuses': [{'name': 'a', 'containerID': '1', 'state': {'running': {'startedAt': '1970-01-01T02:30:00Z'}}, 'image': '%s', 'imageID': '%s'}]}}",
                image, policy, named, id);

        if (annotation) {
                cleanup(json_object_put_p) json_object *known = parse("%s", annotation);

                json_object_object_add(object_at(pod, "metadata.annotations"), RESTART_ANNOTATION,
                                       json_object_new_string(json_object_to_json_string(known)));
        }
        return pod;
}

#define WAS(image, as) "{'a': {'image': '" image "', 'as': '" as "'}}"
/* 9700 s is five minutes before, 9000 s is forgotten. */
#define STARTS(image, as, starts) \
        "{'a': {'image': '" image "', 'as': '" as "', 'starts': {" starts "}}}"
#define START(spelling, n, time) "'" spelling "': {'n': " n ", 'at': '1970-01-01T" time "Z'}"
#define RECENTLY "02:41:40"
#define LONG_AGO "02:30:00"

typedef struct SpellingCase {
        const char *name;
        const char *image;
        const char *spelled; /* NULL: refused */
        const char *named;   /* by the runtime; NULL: the image, or "r/app:1" if it has a digest */
        const char *id;      /* NULL: "r/app" DIGEST */
        const char *policy;  /* NULL: IfNotPresent */
        const char *annotation;
        int64_t delay_sec;
        const char *restart;       /* fields of the container; NULL: none */
        const char *volume_policy; /* pullPolicy of a volume; NULL: there is none */
        const char *ended;         /* exit code of the container; NULL: it runs */
} SpellingCase;

/* clang-format off */
static const SpellingCase rows[] = {
        { "a tag gets the digest", "r/app:1", .spelled = "r/app:1" DIGEST },
        { "and goes back", "r/app:1" DIGEST, .spelled = "r/app:1", .annotation = WAS("r/app:1", "r/app:1" DIGEST) },
        { "but not to a tag that is another image by now", "r/app:1" DIGEST, .spelled = "r/app" DIGEST, .named = "r/app:2",
          .annotation = WAS("r/app:1", "r/app:1" DIGEST) },
        { "or is asked for in the registry", "r/app:1" DIGEST, .spelled = "r/app" DIGEST, .policy = "Always",
          .annotation = WAS("r/app:1", "r/app:1" DIGEST) },
        { "a digest stays", "r/app:1" DIGEST, .spelled = "r/app" DIGEST },
        { "and gets back its tag", "r/app" DIGEST, .spelled = "r/app:1" DIGEST, .annotation = WAS("r/app:1" DIGEST, "r/app" DIGEST) },
        { "a digest alone gets some tag", "r/app" DIGEST, .spelled = "r/app:restarted" DIGEST },
        { "and loses it again", "r/app:restarted" DIGEST, .spelled = "r/app" DIGEST,
          .annotation = WAS("r/app" DIGEST, "r/app:restarted" DIGEST) },
        { "the digest that was written counts", "r/app@sha256:" OTHER_HEX, .spelled = "r/app:restarted@sha256:" OTHER_HEX },
        { "neither tag nor digest", "r/app", .spelled = "r/app:latest" DIGEST },
        { "a port is no tag", "localhost:5000/app", .spelled = "localhost:5000/app:latest" DIGEST, .id = "localhost:5000/app" DIGEST },
        { "a short name of Docker Hub", "nginx:1", .spelled = "nginx:1" DIGEST, .id = "docker.io/library/nginx" DIGEST },
        { "cri-dockerd", "nginx:1", .spelled = "nginx:1" DIGEST, .id = "docker-pullable://nginx" DIGEST },
        { "an annotation of another image", "r/app:2", .spelled = "r/app:2" DIGEST, .annotation = WAS("r/app:1", "r/app:1" DIGEST) },
        { "an annotation that is none", "r/app:1", .spelled = "r/app:1" DIGEST, .annotation = "[]" },
        { "an image that was loaded", "r/app:1", .spelled = NULL, .id = "sha256:" HEX },
        { "that has another name", "r/app:1", .spelled = NULL, .id = "q/app" DIGEST },
        { "that was not started", "r/app:1", .spelled = NULL, .id = "" },
        { "the spelling that was used least", "r/app:1", .spelled = "r/app" DIGEST,
          .annotation = STARTS("r/app:1", "r/app:1", START("r/app:1" DIGEST, "1", RECENTLY)) },
        { "all were used", "r/app:1", .spelled = "r/app:1" DIGEST, .delay_sec = 20,
          .annotation = STARTS("r/app:1", "r/app:1",
                               START("r/app:1" DIGEST, "2", RECENTLY) "," START("r/app" DIGEST, "2", RECENTLY)) },
        { "and the kubelet would not start it after its delay", "r/app:1", .spelled = NULL, .restart = "'restartPolicy': 'Never'",
          .annotation = STARTS("r/app:1", "r/app:1",
                               START("r/app:1" DIGEST, "2", RECENTLY) "," START("r/app" DIGEST, "2", RECENTLY)) },
        { "or all of the pod", "r/app:1", .spelled = NULL,
          .restart = "'restartPolicy': 'Always', 'restartPolicyRules': [{'action': 'RestartAllContainers'}]",
          .annotation = STARTS("r/app:1", "r/app:1",
                               START("r/app:1" DIGEST, "2", RECENTLY) "," START("r/app" DIGEST, "2", RECENTLY)) },
        { "it would in any case", "r/app:1", .spelled = "r/app:1" DIGEST, .delay_sec = 20,
          .restart = "'restartPolicy': 'Always', 'restartPolicyRules': [{'action': 'Restart'}]",
          .annotation = STARTS("r/app:1", "r/app:1",
                               START("r/app:1" DIGEST, "2", RECENTLY) "," START("r/app" DIGEST, "2", RECENTLY)) },
        { "without a delay it is started at once", "r/app:1", .spelled = "r/app:1" DIGEST, .restart = "'restartPolicy': 'Never'" },
        { "but not if the registry does not answer", "r/app:1", .spelled = NULL,
          .restart = "'restartPolicy': 'OnFailure', 'imagePullPolicy': 'Always'" },
        { "after which it is started in any case", "r/app:1", .spelled = "r/app:1" DIGEST,
          .restart = "'restartPolicy': 'Always', 'imagePullPolicy': 'Always'" },
        { "a volume may be pulled, and the registry not answer", "r/app:1", .spelled = NULL, .restart = "'restartPolicy': 'Never'", .volume_policy = "Always" },
        { "a volume is on the node", "r/app:1", .spelled = "r/app:1" DIGEST, .restart = "'restartPolicy': 'Never'",
          .volume_policy = "IfNotPresent" },
        { "it has ended, and stays so", "r/app:1", .spelled = NULL, .restart = "'restartPolicy': 'Never'", .ended = "7" },
        { "it has ended, and is started again", "r/app:1", .spelled = "r/app:1" DIGEST, .ended = "0" },
        { "it has ended, and is started again with all others", "r/app:1", .spelled = "r/app:1" DIGEST,
          .restart = "'restartPolicyRules': [{'action': 'RestartAllContainers'}]", .ended = "0" },
        { "it has failed, and is started again", "r/app:1", .spelled = "r/app:1" DIGEST, .restart = "'restartPolicy': 'OnFailure'", .ended = "7" },
        { "all were used very often", "r/app:1", .spelled = "r/app:1" DIGEST, .delay_sec = 300,
          .annotation = STARTS("r/app:1", "r/app:1",
                               START("r/app:1" DIGEST, "99", RECENTLY) "," START("r/app" DIGEST, "99", RECENTLY)) },
        { "long ago", "r/app:1", .spelled = "r/app:1" DIGEST,
          .annotation = STARTS("r/app:1", "r/app:1",
                               START("r/app:1" DIGEST, "2", LONG_AGO) "," START("r/app" DIGEST, "2", LONG_AGO)) },
};
/* clang-format on */

static void add_restart(json_object *pod, const char *text) {
        cleanup(json_object_put_p) json_object *fields = text ? parse("{%s}", text) : NULL;
        json_object *container = json_object_array_get_idx(object_at(pod, "spec.containers"), 0);

        if (!fields)
                return;
        json_object_object_foreach(fields, key, value)
                json_object_object_add(container, key, json_object_get(value));
}

static void add_volume(json_object *pod, const char *policy) {
        if (policy)
                json_object_object_add(object_at(pod, "spec"), "volumes",
                                       parse("[{'name': 'data', 'image': {'reference': 'r/data:1', "
                                             "'pullPolicy': '%s'}}]",
                                             policy));
}

static void end_container(json_object *pod, const char *code) {
        json_object_object_add(container_status(pod, "a"), "state",
                               parse("{'terminated': {'exitCode': %s}}", code));
}

static void set_image(json_object *pod, const char *image) {
        json_object *container = json_object_array_get_idx(object_at(pod, "spec.containers"), 0);

        json_object_object_add(container, "image", json_object_new_string(image));
}

static const struct StopCase {
        const char *name;
        const char *pod;     /* fields of its spec */
        const char *restart; /* fields of the container; NULL: none */
        bool is_refused;
} stop_rows[] = {
        { "the default", "", NULL, false },
        { "always", "'restartPolicy': 'Always'", NULL, false },
        { "never", "'restartPolicy': 'Never'", NULL, true },
        { "after a failure alone", "'restartPolicy': 'OnFailure'", NULL, true },
        { "the container's own", "'restartPolicy': 'Always'", "'restartPolicy': 'Never'", true },
        { "that comes back", "'restartPolicy': 'Never'", "'restartPolicy': 'Always'", false },
        { "with all others", "", "'restartPolicyRules': [{'action': 'RestartAllContainers'}]",
          true },
};

/* A request stops containers, whatever becomes of the pod then. */
TEST_ROWS(test_stop, stop_rows, name, const struct StopCase *row) {
        cleanup(json_object_put_p) json_object *pod =
                make_pod("r/app:1", "r/app:1", "r/app" DIGEST, "IfNotPresent", NULL);
        cleanup(json_object_put_p) json_object *fields = parse("{%s}", row->pod);
        cleanup(json_object_put_p) json_object *containers = parse("['a']");
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        json_object_object_foreach(fields, key, value)
                json_object_object_add(object_at(pod, "spec"), key, json_object_get(value));
        add_restart(pod, row->restart);
        r = restart_image_check_stop(pod, containers, &error);
        assert_int_equal(r < 0, row->is_refused);
        assert_int_equal(error.kind, row->is_refused ? ERROR_INVALID : ERROR_NONE);
        assert_true(!row->is_refused ||
                    strstr(error_message(&error), "pod/web-0: container a would not come back"));
}

/* The pod after its restart. */
static json_object *respelled(json_object *pod, json_object *patch) {
        json_object *after = parse("%s", json_object_to_json_string(pod));

        json_object_object_add(object_at(after, "metadata"), "annotations",
                               json_object_get(object_at(patch, "metadata.annotations")));
        set_image(after, template_image(patch, "a"));
        return after;
}

TEST(test_spelling) {
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                const SpellingCase *row = &rows[i];
                cleanup(json_object_put_p) json_object *pod =
                        make_pod(row->image,
                                 row->named
                                         ?: strchr(row->image, '@') ? "r/app:1"
                                                                    : row->image,
                                 row->id ?: "r/app" DIGEST, row->policy ?: "IfNotPresent",
                                 row->annotation);
                cleanup(json_object_put_p) json_object *containers = parse("['a']");
                cleanup(json_object_put_p) json_object *changes = parse("{'labels': {'x': null}}");
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(error_done) Error error = ERROR_INIT;
                cleanup(json_object_put_p) json_object *after = NULL;
                cleanup(json_object_put_p) json_object *back = NULL;
                cleanup(json_object_put_p) json_object *other = NULL;
                const char *spelled;
                int64_t delay_sec = -1;
                int r;

                add_restart(pod, row->restart);
                add_volume(pod, row->volume_policy);
                if (row->ended)
                        end_container(pod, row->ended);
                r = restart_image_patch(pod, containers, changes, NOW_SEC, &patch, &delay_sec,
                                        &error);
                spelled = patch ? template_image(patch, "a") : NULL;
                if ((r < 0) != !row->spelled || (spelled && strcmp(spelled, row->spelled) != 0) ||
                    (patch && delay_sec != row->delay_sec))
                        fail_msg("%s: %s, %s", row->name, spelled ?: "refused",
                                 error_message(&error));
                if (!patch)
                        continue;
                assert_string_equal(object_text(patch, "metadata.uid"), "u");
                assert_string_equal(object_text(patch, "metadata.resourceVersion"), "7");
                assert_true(
                        json_object_object_get_ex(object_at(patch, "metadata.labels"), "x", NULL));
                after = respelled(pod, patch);
                assert_ok(restart_image_unpatch(pod, after, containers, &back));
                assert_string_equal(template_image(back, "a"), row->image);
                assert_string_equal(object_text(back, "metadata.resourceVersion"), "7");
                set_image(after, "r/app:other");
                assert_ok(restart_image_unpatch(pod, after, containers, &other));
                assert_null(other);
        }
}

/* A pod of the image :2 differs in this from one that has run it since 9000 s. */
typedef struct OtherCase {
        const char *name;
        const char *named;        /* by the runtime */
        const char *updated;      /* annotation of an update; NULL: none */
        const char *starts;       /* annotation of starts; NULL: none */
        const char *gated;        /* container that the closed gate waits for; NULL: it is open */
        const char *state;        /* NULL: it runs */
        int generation, observed; /* 0: there is none */
        bool is_taken;
        bool is_open; /* refused because of the update */
} OtherCase;

#define FROM_1(id) "{'a': {'image': 'r/app:1', 'id': '" id "'}}"
#define AT(time) STARTS("x", "y", START("r/app:2", "1", time))
#define WAITS(reason) "{'waiting': {'reason': '" reason "'}}"

/* clang-format off */
static const OtherCase others[] = {
        { "its own name", "r/app:2", .is_taken = true },
        { "another name", "r/app:1", .is_taken = false },
        { "but the spec was never changed", "r/app:1", .generation = 1, .observed = 1, .is_taken = true },
        { "the spec was changed", "r/app:1", .generation = 2, .observed = 2 },
        { "which the kubelet has not seen", "r/app:2", .generation = 2, .observed = 1 },
        { "updated, and the container is the one before", "r/app:2", .updated = FROM_1("1"), .is_open = true },
        { "which has this image by going back", "r/app:2", .updated = "{'a': {'image': 'r/app:2', 'id': '1'}}", .is_taken = true },
        { "updated, and replaced", "r/app:2", .updated = FROM_1("0"), .is_taken = true },
        { "by another of the image before", "r/app:1", .updated = FROM_1("0"), .starts = AT("02:31:00") },
        { "by one that was started in that very second", "r/app:1", .updated = FROM_1("0"), .starts = AT("02:30:00") },
        { "by the same image of two names", "r/app:1", .updated = FROM_1("0"), .starts = AT("02:29:00"), .is_taken = true },
        { "updated, and out of service still", "r/app:2", .updated = FROM_1("0"), .gated = "a", .is_open = true },
        { "updated, and out of service for another container", "r/app:2", .updated = FROM_1("0"), .gated = "b", .is_taken = true },
        { "waits for its image", "r/app:2", .state = WAITS("ImagePullBackOff") },
        { "crashes", "r/app:2", .state = WAITS("CrashLoopBackOff"), .is_taken = true },
        { "has ended", "r/app:2", .state = "{'terminated': {}}", .is_taken = true },
        { "has no state", "r/app:2", .state = "{}" },
};
/* clang-format on */

static void add_integer(json_object *object, const char *key, int value) {
        if (value)
                json_object_object_add(object, key, json_object_new_int(value));
}

static void add_update(json_object *pod, const char *text) {
        cleanup(json_object_put_p) json_object *updated = text ? parse("%s", text) : NULL;

        if (updated)
                json_object_object_add(object_at(pod, "metadata.annotations"),
                                       ROLLOUT_POD_ANNOTATION,
                                       json_object_new_string(json_object_to_json_string(updated)));
}

TEST(test_other_image) {
        for (size_t i = 0; i < N_ELEMENTS(others); i++) {
                const OtherCase *row = &others[i];
                cleanup(json_object_put_p) json_object *pod =
                        make_pod("r/app:2", row->named, "r/app" DIGEST, "IfNotPresent",
                                 row->starts);
                cleanup(json_object_put_p) json_object *containers = parse("['a']");
                cleanup(json_object_put_p) json_object *patch = NULL;
                cleanup(error_done) Error error = ERROR_INIT;
                int64_t delay_sec;

                add_integer(object_at(pod, "metadata"), "generation", row->generation);
                add_integer(object_at(pod, "status"), "observedGeneration", row->observed);
                if (row->state)
                        json_object_object_add(json_object_array_get_idx(
                                                       object_at(pod, "status.containerStatuses"),
                                                       0),
                                               "state", parse("%s", row->state));
                add_update(pod, row->updated);
                if (row->gated)
                        json_object_object_add(
                                object_at(pod, "status"), "conditions",
                                parse("[{'type': 'inplaced.io/Ready', 'status': 'False', 'reason': "
                                      "'InPlaceUpdate', 'message': '{\\'images\\': {\\'%s\\': "
                                      "\\'r/app:2\\'}}'}]",
                                      row->gated));
                (void) restart_image_patch(pod, containers, /* changes= */ NULL, NOW_SEC, &patch,
                                           &delay_sec, &error);
                if ((patch != NULL) != row->is_taken ||
                    (restart_image_check(pod, "a", NULL) < 0) != row->is_open)
                        fail_msg("%s: %s", row->name, error_message(&error));
        }
}

/* The digest of the image before an update is no proof that the pod runs its image. */
TEST(test_proof) {
#define SPELLED(more) "{'a': {'image': 'r/app:2', 'as': 'r/app:2" DIGEST "'" more "}}"
        static const struct {
                const char *restarted, *updated;
                bool is_proof;
        } cases[] = {
                { SPELLED(", 'ran': '1'"), NULL, true },
                { SPELLED(""), NULL, true },
                { SPELLED(", 'ran': '1'"), FROM_1("0"), true },
                { SPELLED(", 'ran': '0'"), FROM_1("0"), false },
                { SPELLED(""), FROM_1("0"), false },
                { SPELLED(", 'ran': '0'"), "{'a': {'image': 'r/app:2', 'id': '0'}}", true },
        };
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                cleanup(json_object_put_p) json_object *pod =
                        make_pod("r/app:2" DIGEST, "", "", "Always", cases[i].restarted);
                cleanup(json_object_put_p) json_object *images = parse("{'a': 'r/app:2'}");
                cleanup(json_object_put_p) json_object *containers = parse("['a']");
                cleanup(json_object_put_p) json_object *patch = NULL;
                json_object *annotations = object_at(pod, "metadata.annotations");
                int64_t delay_sec;

                add_update(pod, cases[i].updated);
                assert_int_equal(template_has_images(pod, images), cases[i].is_proof);

                /* Nor is that of a restart which took the digest over. */
                assert_ok(restart_image_patch(pod, containers, NULL, NOW_SEC, &patch, &delay_sec,
                                              NULL));
                json_object_object_add(annotations, RESTART_ANNOTATION,
                                       json_object_get(json_object_object_get(
                                               object_at(patch, "metadata.annotations"),
                                               RESTART_ANNOTATION)));
                json_object_object_add(json_object_array_get_idx(object_at(pod, "spec.containers"),
                                                                 0),
                                       "image", json_object_new_string(template_image(patch, "a")));
                assert_int_equal(template_has_images(pod, images), cases[i].is_proof);
        }
}

/* A restart or an update was written ten seconds before, or longer ago; the pod has 30 s to end. */
static const struct AwaitedRow {
        const char *name;
        const char *restarted, *updated; /* annotations; NULL: there is none */
        bool is_awaited;
} awaited_rows[] = {
#define SINCE(time, more) "{'a': {" more "'starts': {" START("r/app:2", "1", time) "}}}"
#define RESPELLED(time, from) \
        SINCE(time, "'image': 'r/app:2', 'as': 'r/app:2', 'from': '" from "', ")
        { "neither", NULL, NULL, false },
        { "restarted, and not replaced yet", RESPELLED("02:46:30", "1"), NULL, true },
        { "restarted, and replaced", RESPELLED("02:46:30", "0"), NULL, false },
        { "restarted by an older version", SINCE("02:46:30", ""), NULL, false },
        { "a kubelet would have done it", RESPELLED("02:45:09", "1"), NULL, false },
        { "in a time to come", RESPELLED("12:46:30", "1"), NULL, false },
        { "updated, and not replaced yet", SINCE("02:46:30", ""), FROM_1("1"), true },
        { "updated, and replaced", SINCE("02:46:30", ""), FROM_1("0"), false },
        { "updated, and gone back", SINCE("02:46:30", ""), "{'a': {'image': 'r/app:2', 'id': '1'}}",
          false },
        { "another image was written since",
          "{'a': {'image': 'r/app:1', 'as': 'r/app:1', 'from': '1', 'starts': {" START(
                  "r/app:1", "1", "02:46:30") "}}}",
          NULL, false },
};

TEST_ROWS(test_awaited, awaited_rows, name, const struct AwaitedRow *row) {
        cleanup(json_object_put_p) json_object *pod =
                make_pod("r/app:2", "", "", "Always", row->restarted);

        json_object_object_add(object_at(pod, "spec"), "terminationGracePeriodSeconds",
                               json_object_new_int(30));
        add_update(pod, row->updated);
        assert_int_equal(restart_image_is_awaited(pod, NOW_SEC), row->is_awaited);
}

/* The patch of a restart says which container it ends, also where it is not the first one. */
TEST(test_awaited_after_restart) {
        cleanup(json_object_put_p) json_object *pod =
                make_pod("r/app:1", "r/app:1", "r/app" DIGEST, "IfNotPresent", NULL);

        for (int n = 1; n <= 2; n++) {
                cleanup(json_object_put_p) json_object *containers = parse("['a']");
                cleanup(json_object_put_p) json_object *patch = NULL;
                json_object *restarted;
                char id[] = { (char) ('1' + n), '\0' };
                int64_t delay_sec;

                assert_false(restart_image_is_awaited(pod, NOW_SEC));
                assert_ok(restart_image_patch(pod, containers, NULL, NOW_SEC, &patch, &delay_sec,
                                              NULL));
                restarted = respelled(pod, patch);
                json_object_put(pod);
                pod = restarted;
                assert_true(restart_image_is_awaited(pod, NOW_SEC));
                json_object_object_add(container_status(pod, "a"), "containerID",
                                       json_object_new_string(id));
        }
}

#define RUNS "'state': {'running': {}}"
#define CRASHED \
        "'state': {}, 'lastState': {'terminated': {'finishedAt': '1970-01-01T02:46:36Z'}}" /* 4 s before */

/* Updates and restarts count for each other; each image counts alone. */
TEST(test_starts) {
        static const struct {
                const char *annotation, *status;
                int64_t delay_sec;
                const char *noted;
        } cases[] = {
                { NULL, RUNS, 0, "{'r/app:1': {'n': 1, 'at': '1970-01-01T02:46:40Z'}}" },
                { STARTS("x", "y", START("r/app:2", "1", RECENTLY)), RUNS, 0,
                  "{'r/app:2': {'n': 1, 'at': '1970-01-01T02:41:40Z'}, "
                  "'r/app:1': {'n': 1, 'at': '1970-01-01T02:46:40Z'}}" },
                { STARTS("x", "y", START("r/app:1", "2", RECENTLY)), RUNS, 20,
                  "{'r/app:1': {'n': 3, 'at': '1970-01-01T02:46:40Z'}}" },
                { STARTS("x", "y", START("r/app:1", "2", RECENTLY)), CRASHED, 16,
                  "{'r/app:1': {'n': 3, 'at': '1970-01-01T02:46:40Z'}}" },
                { STARTS("x", "y", START("r/app:1", "2", LONG_AGO)), RUNS, 0,
                  "{'r/app:1': {'n': 1, 'at': '1970-01-01T02:46:40Z'}}" },
                /* The image that is left has crashed: it will wait that long when it comes back. */
                { NULL, "'state': {'waiting': {'message': 'back-off 1m20s restarting'}}", 0,
                  "{'r/app:2': {'n': 4, 'at': '1970-01-01T02:46:40Z'}, "
                  "'r/app:1': {'n': 1, 'at': '1970-01-01T02:46:40Z'}}" },
        };
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                cleanup(json_object_put_p) json_object *pod =
                        make_pod("r/app:2", "", "", "Always", cases[i].annotation);
                cleanup(json_object_put_p) json_object *status =
                        parse("{'containerStatuses': [{'name': 'a', %s}]}", cases[i].status);
                cleanup(json_object_put_p) json_object *images = parse("{'a': 'r/app:1'}");
                cleanup(json_object_put_p) json_object *annotations = parse("{}");
                cleanup(json_object_put_p) json_object *annotation = NULL;

                json_object_object_add(pod, "status", json_object_get(status));
                assert_int_equal(restart_image_delay(pod, images, NOW_SEC), cases[i].delay_sec);
                assert_ok(restart_image_note(pod, images, NOW_SEC, annotations));
                annotation = json_tokener_parse(json_object_get_string(
                        json_object_object_get(annotations, RESTART_ANNOTATION)));
                assert_json(object_at(annotation, "a.starts"), cases[i].noted);
                /* A restart stays known. */
                assert_true(!cases[i].annotation ||
                            strcmp(object_text(annotation, "a.as"), "y") == 0);
        }
}

/* The kubelet starts no container whose image stays as it is, and no init container that has ended. */
TEST(test_no_starts) {
        cleanup(json_object_put_p) json_object *pod = parse(
                "{'metadata': {'annotations': {}}, 'spec': {'containers': [{'name': 'a', 'image': 'r/app:1'}, "
                "{'name': 'b', 'image': 'r/app:1'}], 'initContainers': [{'name': 'i', 'image': 'r/app:1'}, "
                "{'name': 's', 'image': 'r/app:1', 'restartPolicy': 'Always'}]}}");
        cleanup(json_object_put_p) json_object *images =
                parse("{'a': 'r/app:2', 'b': 'r/app:1', 'i': 'r/app:2', 's': 'r/app:2'}");
        cleanup(json_object_put_p) json_object *stays = parse("{'b': 'r/app:1', 'i': 'r/app:2'}");
        cleanup(json_object_put_p) json_object *annotations = parse("{}");
        cleanup(json_object_put_p) json_object *noted = NULL;

        assert_ok(restart_image_note(pod, stays, NOW_SEC, annotations));
        assert_ok(json_object_object_length(annotations));
        assert_ok(restart_image_note(pod, images, NOW_SEC, annotations));
        noted = json_tokener_parse(
                json_object_get_string(json_object_object_get(annotations, RESTART_ANNOTATION)));
        assert_int_equal(json_object_object_length(noted), 2);
        assert_non_null(json_object_object_get(noted, "a"));
        assert_non_null(json_object_object_get(noted, "s"));

        /* Notes of those that do not start delay nothing. */
        json_object_object_add(object_at(pod, "metadata.annotations"), RESTART_ANNOTATION,
                               json_object_new_string(
                                       "{\"b\": {\"starts\": {\"r/app:1\": {\"n\": 3, \"at\": "
                                       "\"1970-01-01T02:46:40Z\"}}}}"));
        assert_int_equal(restart_image_delay(pod, stays, NOW_SEC), 0);
}

/* The kubelet does not read what the API server has. */
TEST(test_static_pod) {
        cleanup(json_object_put_p) json_object *pod =
                make_pod("r/app:1", "r/app:1", "r/app" DIGEST, "IfNotPresent", NULL);
        cleanup(json_object_put_p) json_object *names = parse("['a']");
        cleanup(json_object_put_p) json_object *patch = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int64_t delay_sec;

        json_object_object_add(object_at(pod, "metadata.annotations"),
                               "kubernetes.io/config.mirror", json_object_new_string("0a1b"));
        assert_true(restart_image_patch(pod, names, NULL, NOW_SEC, &patch, &delay_sec, &error) < 0);
        assert_int_equal(error.kind, ERROR_INVALID);
        assert_contains(error_message(&error), "it is static");
        assert_null(patch);
}

TEST(test_changes) {
        static const struct {
                const char *text;
                const char *labels; /* NULL: refused */
        } cases[] = {
                { "a=b", "{\"a\":\"b\"}" },
                { "a=", "{\"a\":\"\"}" },
                { "a-", "{\"a\":null}" },
                { "a=b-", "{\"a\":\"b-\"}" },
                { "a", NULL },
                { "ab", NULL },
                { "=b", NULL },
                { "-", NULL },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                const char *const texts[] = { cases[i].text, NULL }, *const none[] = { NULL };
                cleanup(json_object_put_p) json_object *changes = NULL;
                int r = restart_changes_parse(texts, none, &changes, NULL);

                assert_int_equal(r < 0, !cases[i].labels);
                if (r >= 0)
                        assert_string_equal(
                                json_object_to_json_string_ext(object_at(changes, "labels"), 0),
                                cases[i].labels);
        }
}

TEST(test_selector) {
        static const struct {
                const char *labels;
                bool is_taken;
        } cases[] = { { "{'x': 'y'}", true },
                      { "{'app': 'web'}", true },
                      { "{'app': 'db'}", false },
                      { "{'app': null}", false } };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                cleanup(json_object_put_p) json_object *pod =
                        make_pod("r/app:1", "", "", "Always", NULL);
                cleanup(json_object_put_p) json_object *changes =
                        parse("{'labels': %s}", cases[i].labels);
                cleanup(json_object_put_p) json_object *selector =
                        parse("{'matchLabels': {'app': 'web'}}");

                assert_int_equal(restart_changes_check(changes, pod, selector, NULL) >= 0,
                                 cases[i].is_taken);
                assert_string_equal(object_text(pod, "metadata.labels.app"), "web");
        }
}

/* The time of a restart counts for the image that it has left. */
TEST(test_began) {
        static const struct {
                const char *image, *annotation;
                int64_t began_sec;
        } cases[] = {
                { "r/app:1", NULL, 0 },
                { "r/app:1", "{'a':{'starts':{'r/app:1':{'n':1,'at':'1970-01-01T00:01:00Z'}}}}",
                  60 },
                { "r/app:2", "{'a':{'starts':{'r/app:1':{'n':1,'at':'1970-01-01T00:01:00Z'}}}}",
                  0 },
                { "r/app:1", "{'b':{'starts':{'r/app:1':{'n':1,'at':'1970-01-01T00:01:00Z'}}}}",
                  0 },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                cleanup(json_object_put_p) json_object *pod =
                        make_pod(cases[i].image, "", "", "Always", cases[i].annotation);

                assert_int_equal(restart_image_began(pod, "a"), cases[i].began_sec);
        }
}
