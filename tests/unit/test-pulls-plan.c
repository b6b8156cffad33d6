/* SPDX-License-Identifier: Apache-2.0 */

/* Which pods wait for an image, where a document ends, and what to do about a node that does not answer. */

#include <json-c/json.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/kubectl/pulls-plan.h"
#include "tests/unit/quoted-json.h"
#include "tests/unit/unit.h"

#define STATUS(state) "{'name': 'app', 'state': {" state "}}"
#define WAITING(reason) STATUS("'waiting': {'reason': '" reason "'}")
#define SPEC(more)                                                                                  \
        "'spec': {'nodeName': 'n', 'restartPolicy': 'Always', 'containers': [{'name': 'app'}]" more \
        "}"
#define POD(status) "{" SPEC("") ", 'status': {'containerStatuses': [" status "]}}"
#define INIT(more, init, status)                                                                 \
        "{" SPEC(", 'initContainers': [{'name': 'init'" more                                     \
                 "}]") ", 'status': {'initContainerStatuses': [{'name': 'init', 'state': {" init \
                       "}}], 'containerStatuses': [" status "]}}"

/* clang-format off */
static const struct Awaiting {
        const char *name;
        bool awaits;
        const char *pod;
} awaiting[] = {
        { "no node yet",            false, "{'spec': {'containers': [{'name': 'app'}]}}" },
        { "no status yet",          true,  "{" SPEC("") "}" },
        { "being created",          true,  POD(WAITING("ContainerCreating")) },
        { "between two attempts",   true,  POD(WAITING("ImagePullBackOff")) },
        { "a failed attempt",       true,  POD(WAITING("ErrImagePull")) },
        { "a crash loop",           false, POD(WAITING("CrashLoopBackOff")) },
        { "a missing ConfigMap",    false, POD(WAITING("CreateContainerConfigError")) },
        { "running",                false, POD(STATUS("'running': {}")) },
        { "replaced in place",      true,  POD(STATUS("'terminated': {}")) },
        { "an init container runs", false, INIT("", "'running': {}", WAITING("PodInitializing")) },
        { "an init container waits", true, INIT("", "'waiting': {'reason': 'PodInitializing'}", WAITING("PodInitializing")) },
        { "a sidecar runs",         true,  INIT(", 'restartPolicy': 'Always'", "'running': {}", WAITING("PodInitializing")) },
        { "an init container has ended", false, INIT("", "'terminated': {}", STATUS("'running': {}")) },
        { "deleted",                false, "{'metadata': {'deletionTimestamp': 'now'}, " SPEC("") "}" },
        { "ended",                  false, "{" SPEC("") ", 'status': {'phase': 'Failed'}}" },
        { "no pod",                 false, "{'spec': 1}" },
};
/* clang-format on */

TEST_ROWS(test_awaiting, awaiting, name, const struct Awaiting *row) {
        cleanup(json_object_put_p) json_object *pod = parse("%s", row->pod);

        assert_int_equal(pod_awaits_image(pod), row->awaits);
}

TEST(test_one_that_does_not_start_again) {
        cleanup(json_object_put_p) json_object *pod =
                parse("{'spec': {'nodeName': 'n', 'restartPolicy': 'Never',"
                      " 'containers': [{'name': 'app'}]},"
                      " 'status': {'containerStatuses': [" STATUS("'terminated': {}") "]}}");

        assert_false(pod_awaits_image(pod));
}

static const struct Ending {
        const char *text;
        ssize_t end;
} endings[] = {
        { "", 0 },
        { " \n", 0 },
        { "{", 0 },
        { "{\"a\": [1, {}]", 0 },
        { "{}", 2 },
        { "\n{\"a\": [1, {}]}\n{", 15 },
        { "{\"}\": \"\\\"}\"} {}", 12 },
        { "{\"a\\", 0 },
        { "[]", -1 },
        { "hello", -1 },
        { "}", -1 },
};

TEST_ROWS(test_endings, endings, text, const struct Ending *row) {
        assert_int_equal(json_object_end(row->text, strlen(row->text)), row->end);
}

static const struct Advice {
        const char *reason, *advice;
} advice[] = {
        { "ended with status 1: Error from server (Forbidden): pods \"a\" is forbidden",
          "it takes the right to create pods/exec there, see inplaced-pull-viewers" },
        { "ended with status 2: inplacectl: unknown command \"pulls\"; try: inplacectl help",
          "update its agent, which is too old" },
        { "ended with status 2: inplacectl: --timeout is no option of pulls",
          "update its agent, which is too old" },
        { "cannot be started: No such file or directory",
          "install kubectl, or add its folder to PATH" },
        { "did not end within 15 s", "see: kubectl inplace doctor" },
};

TEST_ROWS(test_advice, advice, reason, const struct Advice *row) {
        cleanup(free_p) char *text = NULL, *expected = NULL;

        assert_ok(pulls_explain("worker-1", "agents", row->reason, &text));
        assert_true(asprintf(&expected, "node worker-1: kubectl exec in namespace agents %s; %s",
                             row->reason, row->advice) > 0);
        assert_string_equal(text, expected);
}

TEST(test_pulls_of_the_agent) {
        cleanup(json_object_put_p) json_object *own = parse("{'requestedBy': ['folder:a']}");
        cleanup(json_object_put_p) json_object *other = parse("{'requestedBy': []}");

        assert_true(pull_is_of_agent(own));
        assert_false(pull_is_of_agent(other));
}
