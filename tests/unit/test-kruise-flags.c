/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Flags of kruise-daemon
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/kruise-flags.h"

/* clang-format off */
static const struct Row {
        const char *text;
        const char *flag;  /* ours; "": it is ignored; NULL: it is not theirs */
        const char *value; /* of theirs */
        const char *ours;  /* NULL: as if it was not given */
} rows[] = {
        { "--addr=",                        "metrics-address",  ":10221",               "0.0.0.0:10221"                    },
        { "--addr",                         "metrics-address",  "10.0.0.1:1",           "10.0.0.1:1"                       },
        { "--addr",                         "metrics-address",  "",                     NULL                               },
        { "--socket-file=x",                "runtime-endpoint", "containerd/c.sock",    "/hostvarrun/containerd/c.sock"    },
        { "--socket-file",                  "runtime-endpoint", "/run/c.sock",          "/run/c.sock"                      },
        { "--plugin-config-file",           "image-credential-provider-config", "/kruise/c.yaml", "/kruise/c.yaml"         },
        { "--plugin-bin-dir",               "image-credential-provider-bin-dir", "/kruise/plugins", "/kruise/plugins"      },
        { "--max-workers-for-pull-image",   "max-parallel-pulls", "7",                  "7"                                },
        { "--max-workers-for-pull-image=0", "max-parallel-pulls", "0",                  NULL                               },
        { "--max-workers-for-pull-image",   "max-parallel-pulls", "-1",                 NULL                               },
        { "--max-workers-for-pull-image",   "max-parallel-pulls", "many",               "many"                             },
        { "-v",                             "",   "4", "4" },
        { "-v=4",                           "",   "4", "4" },
        { "--v=4",                          "",   "4", "4" },
        { "--logtostderr",                  "",   "",  NULL },
        { "-addr",                          NULL, NULL, NULL },
        { "---addr",                        NULL, NULL, NULL },
        { "--addrs",                        NULL, NULL, NULL },
        { "--add",                          NULL, NULL, NULL },
        { "addr",                           NULL, NULL, NULL },
        { "--",                             NULL, NULL, NULL },
        { "",                               NULL, NULL, NULL },
        { "--socket",                       NULL, NULL, NULL }, /* ours */
        { "--kubeconfig",                   NULL, NULL, NULL }, /* the same in both */
};
/* clang-format on */

static void test_rows(void **state) {
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const KruiseFlag *flag = kruise_flag_find(rows[i].text);
                char *ours = NULL;

                print_message("%s\n", rows[i].text);
                if (!rows[i].flag) {
                        assert_null(flag);
                        continue;
                }
                assert_non_null(flag);
                assert_string_equal(flag->flag ?: "", rows[i].flag);
                assert_int_equal(kruise_flag_translate(flag, rows[i].value, &ours), 0);
                assert_string_equal(ours ?: "not given", rows[i].ours ?: "not given");
                free(ours);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
