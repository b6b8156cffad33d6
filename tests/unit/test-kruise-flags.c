/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Flags of kruise-daemon
 */

#include "agent/kruise-flags.h"
#include "tests/unit/unit.h"

/* clang-format off */
static const struct Row {
        const char *text;
        const char *flag;  /* our flag; "": it is ignored; NULL: OpenKruise has no such flag */
        const char *value; /* OpenKruise's value */
        const char *ours;  /* our value; NULL: as if it was not given */
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

TEST_ROWS(test_rows, rows, text, const struct Row *row) {
        const KruiseFlag *flag = kruise_flag_find(row->text);
        char *ours = NULL;

        print_message("%s\n", row->text);
        if (!row->flag) {
                assert_null(flag);
                return;
        }
        assert_non_null(flag);
        assert_string_equal(flag->flag ?: "", row->flag);
        assert_ok(kruise_flag_translate(flag, row->value, &ours));
        assert_string_equal(ours ?: "not given", row->ours ?: "not given");
        free(ours);
}
