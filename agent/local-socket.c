/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/local-socket.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"

#define DEFAULT_GROUP "inplaced"

DEFINE_CLEANUP(FILE *, fclose)

/* Where packages make their groups. Other sources of names are libraries that would stay in memory, and
 * services that may be slow to answer; they are asked only for what somebody has named. */
static gid_t find_default(void) {
        cleanup(fclose_p) FILE *file = fopen("/etc/group", "re");
        const struct group *group;

        while (file && (group = fgetgrent(file)))
                if (strcmp(group->gr_name, DEFAULT_GROUP) == 0)
                        return group->gr_gid;

        return (gid_t) -1;
}

static gid_t find_group(const char *name, const char *consequence, Log *log) {
        const struct group *group;
        char *end;
        unsigned long number;

        if (!name[0])
                return (gid_t) -1;

        group = getgrnam(name);
        if (group)
                return group->gr_gid;

        number = strtoul(name, &end, 10);
        if (!*end && number < (gid_t) -1)
                return (gid_t) number;

        log_warning(log, NULL, "There is no group `%s`, only root may %s.", name, consequence);
        return (gid_t) -1;
}

gid_t local_socket_find_group(const char *name, Log *log) {
        return name ? find_group(name, "use the socket", log) : find_default();
}

gid_t local_socket_find_restart_group(const char *name, Log *log) {
        return name ? find_group(name, "restart containers through the socket", log) : (gid_t) -1;
}

void local_socket_make_folder(const char *socket) {
        cleanup(free_p) char *parent = strdup(socket);
        char *slash = parent ? strrchr(parent, '/') : NULL;

        if (!slash || slash == parent)
                return;

        *slash = '\0';
        (void) mkdir(parent, 0755);
}
