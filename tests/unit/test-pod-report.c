/* SPDX-License-Identifier: Apache-2.0 */

/* What status shows of a pod, whatever the API server has of it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/kubectl/pod-report.h"
#include "tests/unit/quoted-json.h"

#define ID "sha256:0123456789abcdef"

typedef struct Case {
        const char *name;
        const char *pod;
        const char *images;
        const char *running;
        const char *verdict;
        const char *environment;
        int64_t restarts;
        int64_t since;
} Case;

#define VERDICT(reason)                                                         \
        "'conditions':[{'type':'inplaced.io/InPlaceVerified','reason':'" reason \
        "','lastTransitionTime':'1970-01-01T00:01:00Z'}]"
#define ENV(path) "'env':[{'name':'A','valueFrom':{'fieldRef':{'fieldPath':'" path "'}}}]"
#define STATUS(name, restarts)                                                      \
        "{'name':'" name "','imageID':'r/" name "@" ID "','restartCount':" restarts \
        ",'state':{'running':{'startedAt':'1970-01-01T00:00:0" restarts "Z'}}}"

/* clang-format off */
static const Case cases[] = {
        { "nothing at all", "{}", "", "", "-", "-", 0, 0 },
        { "not even an object", "[]", "", "", "-", "-", 0, 0 },
        { "other types", "{'spec':{'containers':{},'nodeName':1},'status':{'conditions':'x','containerStatuses':[1]}}",
          "", "", "-", "-", 0, 0 },
        { "not started", "{'spec':{'containers':[{'name':'a','image':'app:1'}]}}",
          "app:1", "-", "-", "-", 0, 0 },
        { "restarted by another spelling of its image", "{'metadata':{'annotations':{'inplaced.io/restarted':"
          "'{\\'a\\':{\\'image\\':\\'app:1\\',\\'as\\':\\'app@" ID "\\'}}'}},"
          "'spec':{'containers':[{'name':'a','image':'app@" ID "'}]}}",
          "app:1", "-", "-", "-", 0, 0 },
        { "updated since it was restarted", "{'metadata':{'annotations':{'inplaced.io/restarted':"
          "'{\\'a\\':{\\'image\\':\\'app:1\\',\\'as\\':\\'app@" ID "\\'}}'}},"
          "'spec':{'containers':[{'name':'a','image':'app:2'}]}}",
          "app:2", "-", "-", "-", 0, 0 },
        { "without an agent", "{'spec':{'containers':[{'name':'a','image':'app:1'},{'name':'b','image':'db'}]},"
          "'status':{'containerStatuses':[" STATUS("b", "2") "," STATUS("a", "3") "]}}",
          "app:1,db", "0123456789ab,0123456789ab", "-", "-", 5, 3 },
        { "a native sidecar", "{'spec':{'initContainers':[{'name':'i','image':'init'},"
          "{'name':'s','image':'side','restartPolicy':'Always'}],'containers':[{'name':'a','image':'app:1'}]},"
          "'status':{'initContainerStatuses':[" STATUS("i", "1") "," STATUS("s", "2") "]}}",
          "side,app:1", "0123456789ab,-", "-", "-", 2, 2 },
        { "verified", "{'spec':{'containers':[{'name':'a','image':'app:1'," ENV("metadata.labels[\\\'a\\\']") "}]},"
          "'status':{" VERDICT("Verified") ",'containerStatuses':[" STATUS("a", "1") "]}}",
          "app:1", "0123456789ab", "Verified", "current", 1, 60 },
        { "a stale environment", "{'spec':{'containers':[{'name':'a','image':'app:1'," ENV("metadata.annotations[\\\'a\\\']") "}]},"
          "'status':{" VERDICT("EnvironmentStale") "}}",
          "app:1", "-", "EnvironmentStale", "stale", 0, 60 },
        { "another image, so the environment is not known", "{'spec':{'containers':[{'name':'a','image':'app:1',"
          ENV("metadata.labels[\\\'a\\\']") "}]},'status':{" VERDICT("ImageStale") "}}",
          "app:1", "-", "ImageStale", "unknown", 0, 60 },
        { "an environment from elsewhere", "{'spec':{'containers':[{'name':'a','image':'app:1'," ENV("status.podIP") "}]},"
          "'status':{" VERDICT("EnvironmentStale") "}}",
          "app:1", "-", "EnvironmentStale", "-", 0, 60 },
};
/* clang-format on */

#define N_CASES (sizeof(cases) / sizeof(cases[0]))

static void test_report(void **state) {
        const Case *one = *state;
        cleanup(json_object_put_p) json_object *pod = parse("%s", one->pod);
        cleanup(json_object_put_p) json_object *document = NULL;
        cleanup(pod_report_done) PodReport report = POD_REPORT_INIT;

        assert_int_equal(pod_report_make(pod, &report), 0);
        assert_string_equal(report.images, one->images);
        assert_string_equal(report.running, one->running);
        assert_string_equal(report.verdict, one->verdict);
        assert_string_equal(report.environment, one->environment);
        assert_int_equal(report.restarts, one->restarts);
        assert_int_equal(report.since, one->since);
        document = pod_report_json(pod, &report);
        assert_non_null(document);
}

int main(void) {
        struct CMUnitTest tests[N_CASES];

        for (size_t i = 0; i < N_CASES; i++)
                tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                                .test_func = test_report,
                                                .initial_state = (void *) &cases[i] };

        return _cmocka_run_group_tests("pod-report", tests, N_CASES, NULL, NULL);
}
