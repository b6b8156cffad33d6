/* SPDX-License-Identifier: Apache-2.0 */

/* Commands that kubectl-inplace offers, which are run as they are copied. */

#include "agent/kubectl/hint.h"
#include "tests/unit/unit.h"

TEST(test_formatted) {
        static const struct {
                SessionOptions options;
                const char *words[3];
                const char *line;
        } cases[] = {
                { { .namespace = NULL }, { "deployment.apps/web" }, "do deployment.apps/web" },
                { { .namespace = "shop", .context = "lab", .kubeconfig = "/srv/config" },
                  { "deployment.apps/web", "--undo" },
                  "do deployment.apps/web --undo -n shop --context lab --kubeconfig /srv/config" },
                { { .overrides = { .token = "hunter2", .as = "jane", .server = "http://h:1" } },
                  { "pod/web" },
                  "do pod/web --server http://h:1 --as jane" },
                { { .namespace = "shop", .context = "our lab", .kubeconfig = "it's mine" },
                  { "*=a:1", "" },
                  "do '*=a:1' '' -n shop --context 'our lab' --kubeconfig 'it'\\''s mine'" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                cleanup(free_p) char *line = NULL;

                assert_ok(hint_format(&cases[i].options, "do", cases[i].words, &line));
                assert_string_equal(line, cases[i].line);
        }
}
