/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/api-caller.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

DEFINE_CLEANUP(FILE *, fclose)

static int find_user(uid_t uid, char **ret) {
        cleanup(fclose_p) FILE *file = fopen("/etc/passwd", "re");
        const struct passwd *user;

        while (file && (user = fgetpwent(file)))
                if (user->pw_uid == uid) {
                        *ret = strdup(user->pw_name);
                        return *ret ? 0 : -ENOMEM;
                }

        return 0;
}

void caller_done(Caller *caller) {
        free(caller->user);
        free(caller->words);
        *caller = (Caller){ .user = NULL };
}

int caller_init(const Peer *peer, Caller *ret) {
        cleanup(caller_done) Caller caller = { .user = NULL };
        int r;

        r = find_user(peer->uid, &caller.user);
        if (r < 0)
                return r;

        (void) snprintf(caller.uid, sizeof(caller.uid), "%u", (unsigned) peer->uid);
        (void) snprintf(caller.pid, sizeof(caller.pid), "%d", (int) peer->pid);
        if (asprintf(&caller.words, "%s (uid %s, pid %s)", caller.user ?: "an unknown user",
                     caller.uid, caller.pid) < 0) {
                caller.words = NULL;
                return -ENOMEM;
        }

        *ret = caller;
        caller = (Caller){ .user = NULL };
        return 0;
}

int caller_check_restart(const Caller *caller, const Peer *peer, gid_t group,
                         const char *group_name, Error *reterr) {
        if (peer_is_root(peer) || peer_has_group(peer, group))
                return 0;
        if (!group_name)
                return error_set(
                        reterr, ERROR_DENIED,
                        "%s may not restart containers, only root may; run it as root, or "
                        "name a group that may in restartGroup of inplaced's configuration",
                        caller->words);

        return error_set(reterr, ERROR_DENIED,
                         "%s may not restart containers, only root and the members of the group "
                         "'%s' may; run it as root, or join this group",
                         caller->words, group_name);
}
