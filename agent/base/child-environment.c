/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/base/child-environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* See systemd.exec(5), "Environment variables set on spawned processes". */
static const char *const private_names[] = {
        "NOTIFY_SOCKET",
        "WATCHDOG_PID",
        "WATCHDOG_USEC",
        "LISTEN_PID",
        "LISTEN_PIDFDID",
        "LISTEN_FDS",
        "LISTEN_FDNAMES",
        "FDSTORE",
        "MAINPID",
        "SYSTEMD_EXEC_PID",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "LOG_NAMESPACE",
        "CREDENTIALS_DIRECTORY",
        "RUNTIME_DIRECTORY",
        "STATE_DIRECTORY",
        "CACHE_DIRECTORY",
        "LOGS_DIRECTORY",
        "CONFIGURATION_DIRECTORY",
        "MEMORY_PRESSURE_WATCH",
        "MEMORY_PRESSURE_WRITE",
};

static size_t name_size(const char *variable) {
        return strcspn(variable, "=");
}

static bool has_name(const char *variable, const char *name, size_t size) {
        return name_size(variable) == size && strncmp(variable, name, size) == 0;
}

static bool is_private(const char *variable) {
        for (size_t i = 0; i < sizeof(private_names) / sizeof(private_names[0]); i++)
                if (has_name(variable, private_names[i], strlen(private_names[i])))
                        return true;

        return false;
}

static bool is_in(const char *variable, const char *const *variables) {
        for (; variables && *variables; variables++)
                if (has_name(variable, *variables, name_size(*variables)))
                        return true;

        return false;
}

/* Returns the end of a proxy's user, in "HTTPS_PROXY=http://user:password@host:3128" or without the
 * scheme; NULL: no user. */
static const char *end_of_user(const char *variable) {
        static const char suffix[] = "_PROXY";
        size_t size = name_size(variable);

        if (size < strlen(suffix) || variable[size] == '\0' ||
            strncasecmp(variable + size - strlen(suffix), suffix, strlen(suffix)) != 0)
                return NULL;

        return strrchr(variable + size, '@');
}

/* Returns the end of the copy, behind its NUL. */
static char *copy_without_user(const char *variable, const char *end_of_user, char *to) {
        const char *value = variable + name_size(variable) + 1;
        size_t scheme = strcspn(value, ":");

        if (strncmp(value + scheme, "://", 3) == 0)
                value += scheme + 3;
        to = mempcpy(to, variable, (size_t) (value - variable));
        return stpcpy(to, end_of_user + 1) + 1;
}

const char **child_environment_new(char *const *own, const char *const *additions) {
        size_t n = 1, n_texts = 0;
        const char **result;
        char *to;

        for (size_t i = 0; additions && additions[i]; i++)
                n++;
        for (size_t i = 0; own && own[i]; i++, n++)
                n_texts += end_of_user(own[i]) ? strlen(own[i]) + 1 : 0;

        result = malloc(n * sizeof(*result) + n_texts);
        if (!result)
                return NULL;

        to = (char *) (result + n);
        n = 0;
        for (size_t i = 0; additions && additions[i]; i++)
                result[n++] = additions[i];
        for (size_t i = 0; own && own[i]; i++) {
                const char *end = end_of_user(own[i]);

                if (is_private(own[i]) || is_in(own[i], additions))
                        continue;
                result[n++] = end ? to : own[i];
                if (end)
                        to = copy_without_user(own[i], end, to);
        }
        result[n] = NULL;
        return result;
}
