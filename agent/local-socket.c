/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/local-socket.h"

#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"

#define DEFAULT_GROUP "inplaced"

gid_t local_socket_find_group(const char *name, Log *log) {
        const struct group *group = getgrnam(name ?: DEFAULT_GROUP);
        char *end;
        unsigned long number;

        if (group)
                return group->gr_gid;
        if (!name || !name[0])
                return (gid_t) -1;

        number = strtoul(name, &end, 10);
        if (!*end && number < (gid_t) -1)
                return (gid_t) number;

        log_warning(log, NULL, "There is no group `%s` for the socket, only root may call.", name);
        return (gid_t) -1;
}

void local_socket_make_folder(const char *socket) {
        cleanup(free_p) char *parent = strdup(socket);
        char *slash = parent ? strrchr(parent, '/') : NULL;

        if (!slash || slash == parent)
                return;

        *slash = '\0';
        (void) mkdir(parent, 0755);
}
