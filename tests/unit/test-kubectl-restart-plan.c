/* SPDX-License-Identifier: Apache-2.0 */

/* What a request to restart containers says, and how its status reads. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/document/json-cleanup.h"
#include "agent/kubectl/restart-plan.h"

static json_object *parse(const char *text) {
        cleanup(free_p) char *copy = strdup(text);
        json_object *object;

        for (char *c = copy; *c; c++)
                if (*c == '\'')
                        *c = '"';
        object = json_tokener_parse(copy);
        assert_non_null(object);
        return object;
}

static void test_targets(void **state) {
        static const struct {
                const char *text;
                const char *pods; /* NULL: refused */
                const char *container;
        } cases[] = {
                { "web-0", "web-0", NULL },
                { "web-0/main", "web-0", "main" },
                { "pod/web-0", "pod/web-0", NULL },
                { "pod/web-0/main", "pod/web-0", "main" },
                { "deploy/web", "deploy/web", NULL },
                { "deploy/web/main", "deploy/web", "main" },
                { "", NULL, NULL },
                { "/", NULL, NULL },
                { "web-0/", NULL, NULL },
                { "/main", NULL, NULL },
                { "web-0/main/x", NULL, NULL },
                { "deploy/web/main/x", NULL, NULL },
                { "deploy/", NULL, NULL },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                cleanup(restart_target_done) RestartTarget target = RESTART_TARGET_INIT;
                cleanup(error_done) Error error = ERROR_INIT;
                int r = restart_target_parse(cases[i].text, &target, &error);

                assert_true((r < 0) == !cases[i].pods);
                assert_int_equal(error.kind, r < 0 ? ERROR_INVALID : ERROR_NONE);
                if (r < 0)
                        continue;
                assert_string_equal(target.pods, cases[i].pods);
                if (cases[i].container)
                        assert_string_equal(target.container, cases[i].container);
                else
                        assert_null(target.container);
        }
}

#define POD                                                                          \
        "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'a'},{'name':'b'}]," \
        "'initContainers':[{'name':'i'},{'name':'s','restartPolicy':'Always'}]}}"

static void test_containers(void **state) {
        static const struct {
                const char *names;
                const char *list; /* NULL: refused */
        } cases[] = {
                { NULL, "[\"a\",\"b\"]" },  { "b", "[\"b\"]" },
                { "s,a", "[\"s\",\"a\"]" }, { "i", NULL },
                { "a,none", NULL },         { "", NULL },
        };
        cleanup(json_object_put_p) json_object *pod = parse(POD);

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                cleanup(json_object_put_p) json_object *list = NULL;
                int r = restart_plan_containers(pod, cases[i].names, &list, NULL);

                assert_true((r < 0) == !cases[i].list);
                if (r >= 0)
                        assert_string_equal(json_object_to_json_string_ext(list, 0), cases[i].list);
        }
}

static void test_body(void **state) {
        cleanup(json_object_put_p) json_object *containers = parse("['a','b']");
        cleanup(json_object_put_p) json_object *body = NULL;
        cleanup(json_object_put_p) json_object *expected =
                parse("{'apiVersion':'apps.kruise.io/v1beta1','kind':'ContainerRecreateRequest',"
                      "'metadata':{'generateName':'inplace-restart-','labels':{'inplaced.io/"
                      "restart':'7f'}},"
                      "'spec':{'podName':'p','containers':[{'name':'a'},{'name':'b'}],"
                      "'ttlSecondsAfterFinished':600}}");
        const RestartRequest request = { "v1beta1", "p", "7f", containers, 600 };

        assert_int_equal(restart_plan_body(&request, &body), 0);
        assert_true(json_object_equal(body, expected));
}

static void test_ends(void **state) {
        static const struct {
                const char *request;
                RestartEnd end;
                const char *why;
        } cases[] = {
                { "{}", RESTART_RUNNING, NULL },
                { "[]", RESTART_RUNNING, NULL },
                { "{'status':{'phase':'Recreating','containerRecreateStates':[{'phase':'Failed'}]}}",
                  RESTART_RUNNING, NULL },
                { "{'status':{'phase':'Completed','containerRecreateStates':[{'phase':'Succeeded'}]}}",
                  RESTART_SUCCEEDED, NULL },
                { "{'status':{'phase':'Completed','message':'too late','containerRecreateStates':["
                  "{'phase':'Succeeded'},{'name':'b','phase':'Pending'}]}}",
                  RESTART_FAILED, "container b: too late" },
                { "{'status':{'phase':'Completed','containerRecreateStates':["
                  "{'name':'b','phase':'Failed','message':'no'}]}}",
                  RESTART_FAILED, "container b: no" },
                { "{'status':{'phase':'Completed','message':'the pod is gone'}}", RESTART_FAILED,
                  "the pod is gone" },
                { "{'status':{'phase':'Completed'}}", RESTART_FAILED, NULL },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                cleanup(json_object_put_p) json_object *request = parse(cases[i].request);
                cleanup(free_p) char *why = NULL;
                RestartEnd end;

                assert_int_equal(restart_plan_read(request, &end, &why), 0);
                assert_int_equal(end, cases[i].end);
                if (cases[i].why)
                        assert_string_equal(why, cases[i].why);
                else
                        assert_null(why);
        }
}

static void test_pods(void **state) {
        static const struct {
                const char *pod;
                bool is_over, is_ready;
        } cases[] = {
                { "{}", false, false },
                { "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}}",
                  false, true },
                { "{'status':{'phase':'Running','conditions':[{'type':'Ready','status':'False'}]}}",
                  false, false },
                { "{'status':{'phase':'Succeeded'}}", true, false },
                { "{'status':{'phase':'Failed'}}", true, false },
                { "{'metadata':{'deletionTimestamp':'x'}}", true, false },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                cleanup(json_object_put_p) json_object *pod = parse(cases[i].pod);

                assert_int_equal(restart_plan_is_over(pod), cases[i].is_over);
                assert_int_equal(restart_plan_is_ready(pod), cases[i].is_ready);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_targets), cmocka_unit_test(test_containers),
                cmocka_unit_test(test_body),    cmocka_unit_test(test_ends),
                cmocka_unit_test(test_pods),
        };

        return cmocka_run_group_tests_name("kubectl-restart-plan", tests, NULL, NULL);
}
