/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/socket-group.h"

#include <grp.h>
#include <stdlib.h>

#define DEFAULT_GROUP "inplaced"

gid_t socket_group_find(const char *name, Log *log) {
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
