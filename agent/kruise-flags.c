/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kruise-flags.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"

/* clang-format off */
static const KruiseFlag flags[] = {
        { "addr",                       "metrics-address",                   "0.0.0.0",      false },
        { "socket-file",                "runtime-endpoint",                  "/hostvarrun/", false },
        { "plugin-config-file",         "image-credential-provider-config",  NULL,           false },
        { "plugin-bin-dir",             "image-credential-provider-bin-dir", NULL,           false },
        { "max-workers-for-pull-image", "max-parallel-pulls",                NULL,           false },

        { "enable-pprof",                              NULL, NULL, true  },
        { "pprof-addr",                                NULL, NULL, false },
        { "rest-config-qps",                           NULL, NULL, false },
        { "rest-config-burst",                         NULL, NULL, false },
        { "feature-gates",                             NULL, NULL, false },

        { "v",                                         NULL, NULL, false },
        { "vmodule",                                   NULL, NULL, false },
        { "logtostderr",                               NULL, NULL, true  },
        { "alsologtostderr",                           NULL, NULL, true  },
        { "stderrthreshold",                           NULL, NULL, false },
        { "one-output",                                NULL, NULL, true  },
        { "one_output",                                NULL, NULL, true  },
        { "log-backtrace-at",                          NULL, NULL, false },
        { "log_backtrace_at",                          NULL, NULL, false },
        { "log-dir",                                   NULL, NULL, false },
        { "log_dir",                                   NULL, NULL, false },
        { "log-file",                                  NULL, NULL, false },
        { "log_file",                                  NULL, NULL, false },
        { "log-file-max-size",                         NULL, NULL, false },
        { "log_file_max_size",                         NULL, NULL, false },
        { "add-dir-header",                            NULL, NULL, true  },
        { "add_dir_header",                            NULL, NULL, true  },
        { "skip-headers",                              NULL, NULL, true  },
        { "skip_headers",                              NULL, NULL, true  },
        { "skip-log-headers",                          NULL, NULL, true  },
        { "skip_log_headers",                          NULL, NULL, true  },

        { "cloneset-scaling-exclude-preparing-delete", NULL, NULL, true  },
        { "disable-no-deepcopy",                       NULL, NULL, true  },
        { "expectation-timeout",                       NULL, NULL, false },
        { "protection-log-path",                       NULL, NULL, false },
        { "sidecarset-workers",                        NULL, NULL, false },
        { "statefulset-workers",                       NULL, NULL, false },
        { "rate-limiter-base-delay",                   NULL, NULL, false },
        { "rate-limiter-max-delay",                    NULL, NULL, false },
        { "rate-limiter-qps",                          NULL, NULL, false },
        { "rate-limiter-bucket-size",                  NULL, NULL, false },
};
/* clang-format on */

const KruiseFlag *kruise_flag_find(const char *text) {
        size_t n_dashes = strspn(text, "-"), size;

        text += n_dashes;
        size = strcspn(text, "=");
        if (n_dashes > 2 || n_dashes == 0 || (n_dashes == 1 && size != 1))
                return NULL;

        for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
                if (strlen(flags[i].name) == size && strncmp(flags[i].name, text, size) == 0)
                        return &flags[i];

        return NULL;
}

static bool is_unset(const char *value) {
        char *end;

        return !value[0] || (strtol(value, &end, 10) < 1 && !*end);
}

int kruise_flag_translate(const KruiseFlag *flag, const char *value, char **ret) {
        bool is_address = value[0] == ':';
        bool is_short = is_address || (flag->prefix && flag->prefix[0] == '/' && value[0] != '/');

        *ret = NULL;
        if (is_unset(value))
                return 0;

        return text_format(ret, "%s%s", is_short && flag->prefix ? flag->prefix : "", value) < 0
                       ? -ENOMEM
                       : 0;
}
