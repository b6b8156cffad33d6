/* SPDX-License-Identifier: Apache-2.0 */

/* Tests the report about a pod, whatever the API server has of it. */

#include "tests/unit/unit.h"

#include "agent/base/text.h"
#include "agent/document/json-reader.h"
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
        const char *message;
} Case;

#define VERDICT(reason)                                                         \
        "'conditions':[{'type':'inplaced.io/InPlaceVerified','reason':'" reason \
        "','lastTransitionTime':'1970-01-01T00:01:00Z'}]"
#define VERDICT_SAYS(reason, message)                                           \
        "'conditions':[{'type':'inplaced.io/InPlaceVerified','reason':'" reason \
        "','message':'" message "','lastTransitionTime':'1970-01-01T00:01:00Z'}]"
#define ENV(path) "'env':[{'name':'A','valueFrom':{'fieldRef':{'fieldPath':'" path "'}}}]"
#define STATUS(name, restarts)                                                      \
        "{'name':'" name "','imageID':'r/" name "@" ID "','restartCount':" restarts \
        ",'state':{'running':{'startedAt':'1970-01-01T00:00:0" restarts "Z'}}}"

#define ENDED(name, state, reason)                                                           \
        "{'name':'" name "','imageID':'r/" name "@" ID "','restartCount':0,'state':{'" state \
        "':{'reason':'" reason "','message':'Back-off'}}}"

/* clang-format off */
static const Case cases[] = {
        { "nothing at all", "{}", "", "", "-", "-", 0, 0, "" },
        { "not even an object", "[]", "", "", "-", "-", 0, 0, "" },
        { "other types", "{'spec':{'containers':{},'nodeName':1},'status':{'conditions':'x','containerStatuses':[1]}}",
          "", "", "-", "-", 0, 0, "" },
        { "not started", "{'spec':{'containers':[{'name':'a','image':'app:1'}]}}",
          "app:1", "-", "-", "-", 0, 0, "" },
        { "restarted by another spelling of its image", "{'metadata':{'annotations':{'inplaced.io/restarted':"
          "'{\\'a\\':{\\'image\\':\\'app:1\\',\\'as\\':\\'app@" ID "\\'}}'}},"
          "'spec':{'containers':[{'name':'a','image':'app@" ID "'}]}}",
          "app:1", "-", "-", "-", 0, 0, "" },
        { "updated since it was restarted", "{'metadata':{'annotations':{'inplaced.io/restarted':"
          "'{\\'a\\':{\\'image\\':\\'app:1\\',\\'as\\':\\'app@" ID "\\'}}'}},"
          "'spec':{'containers':[{'name':'a','image':'app:2'}]}}",
          "app:2", "-", "-", "-", 0, 0, "" },
        { "without an agent", "{'spec':{'containers':[{'name':'a','image':'app:1'},{'name':'b','image':'db'}]},"
          "'status':{'containerStatuses':[" STATUS("b", "2") "," STATUS("a", "3") "]}}",
          "app:1,db", "0123456789ab,0123456789ab", "-", "-", 5, 3, "" },
        { "a native sidecar", "{'spec':{'initContainers':[{'name':'i','image':'init'},"
          "{'name':'s','image':'side','restartPolicy':'Always'}],'containers':[{'name':'a','image':'app:1'}]},"
          "'status':{'initContainerStatuses':[" STATUS("i", "1") "," STATUS("s", "2") "]}}",
          "side,app:1", "0123456789ab,-", "-", "-", 2, 2, "" },
        { "a volume that is an image", "{'spec':{'containers':[{'name':'a','image':'app:1'}],"
          "'volumes':[1,{'name':'tmp','emptyDir':{}},{'name':'data','image':{'reference':'r.io/data:3'}}]},"
          "'status':{'containerStatuses':[" STATUS("a", "1") "]}}",
          "app:1,r.io/data:3", "0123456789ab,-", "-", "-", 1, 1, "" },
        { "no image to pull: the ID is of one that does not run any more",
          "{'spec':{'containers':[{'name':'a','image':'app:2'},{'name':'b','image':'db'}]},"
          "'status':{'containerStatuses':[" ENDED("a", "waiting", "ImagePullBackOff") "," STATUS("b", "1") "]}}",
          "app:2,db", "ImagePullBackOff,0123456789ab", "-", "-", 1, 1, "Back-off" },
        { "an end, before the kubelet starts it again", "{'spec':{'containers':[{'name':'a','image':'app:2'}]},"
          "'status':{'containerStatuses':[" ENDED("a", "terminated", "Error") "]}}",
          "app:2", "Error", "-", "-", 0, 0, "" },
        { "a wait, and the agent's own message", "{'spec':{'containers':[{'name':'a','image':'app:2'}]},"
          "'status':{" VERDICT_SAYS("ImageStale", "runs another") ",'containerStatuses':["
          ENDED("a", "waiting", "CrashLoopBackOff") "]}}",
          "app:2", "CrashLoopBackOff", "ImageStale", "-", 0, 60, "runs another" },
        { "verified", "{'spec':{'containers':[{'name':'a','image':'app:1'," ENV("metadata.labels[\\\'a\\\']") "}]},"
          "'status':{" VERDICT("Verified") ",'containerStatuses':[" STATUS("a", "1") "]}}",
          "app:1", "0123456789ab", "Verified", "current", 1, 60, "" },
        { "a stale environment", "{'spec':{'containers':[{'name':'a','image':'app:1'," ENV("metadata.annotations[\\\'a\\\']") "}]},"
          "'status':{" VERDICT("EnvironmentStale") "}}",
          "app:1", "-", "EnvironmentStale", "stale", 0, 60, "" },
        { "another image, so the environment is not known", "{'spec':{'containers':[{'name':'a','image':'app:1',"
          ENV("metadata.labels[\\\'a\\\']") "}]},'status':{" VERDICT("ImageStale") "}}",
          "app:1", "-", "ImageStale", "unknown", 0, 60, "" },
        { "its second variable", "{'spec':{'containers':[{'name':'a','image':'app:1','env':[{'name':'B','value':'b'},"
          "{'name':'A','valueFrom':{'fieldRef':{'fieldPath':'metadata.labels[\\\'a\\\']'}}}]}]},"
          "'status':{" VERDICT("Verified") "}}",
          "app:1", "-", "Verified", "current", 0, 60, "" },
        { "an environment from elsewhere", "{'spec':{'containers':[{'name':'a','image':'app:1'," ENV("status.podIP") "}]},"
          "'status':{" VERDICT("EnvironmentStale") "}}",
          "app:1", "-", "EnvironmentStale", "-", 0, 60, "" },
};
/* clang-format on */

/* A document leaves out what a table shows as nothing or "-". */
static const char *known(const char *text) {
        return text[0] && strcmp(text, "-") != 0 ? text : NULL;
}

TEST_ROWS(test_report, cases, name, const Case *one) {
        cleanup(json_object_put_p) json_object *pod = parse("%s", one->pod);
        cleanup(json_object_put_p) json_object *document = NULL;
        cleanup(pod_report_done) PodReport report = POD_REPORT_INIT;

        assert_ok(pod_report_make(pod, &report));
        assert_string_equal(report.images, one->images);
        assert_string_equal(report.running, one->running);
        assert_string_equal(report.verdict, one->verdict);
        assert_string_equal(report.environment, one->environment);
        assert_int_equal(report.restarts, one->restarts);
        assert_int_equal(report.since, one->since);
        assert_string_equal(report.message, one->message);
        document = pod_report_json(pod, &report);
        assert_non_null(document);
        assert_true(text_equal(json_get_text(document, "node"), known(report.node)));
        assert_true(text_equal(json_get_text(document, "verdict"), known(one->verdict)));
        assert_true(text_equal(json_get_text(document, "message"), known(one->message)));
        assert_true(text_equal(json_get_text(document, "environment"), known(one->environment)));
}
