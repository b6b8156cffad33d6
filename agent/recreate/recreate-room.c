/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/recreate/recreate-room.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/list.h"

struct RecreateTenant {
        char *namespace;
        size_t size;
        LIST_LINKS(RecreateTenant);
};

static RecreateTenant *find(const RecreateRoom *room, const char *namespace) {
        RecreateTenant *tenant = room->tenants;

        while (tenant && strcmp(tenant->namespace, namespace) != 0)
                tenant = tenant->next;

        return tenant;
}

const char *recreate_room_loser(const RecreateRoom *room, const char *namespace, size_t size) {
        const RecreateTenant *own = find(room, namespace);
        const char *loser = namespace;
        size_t most = size + (own ? own->size : 0);

        if (room->size + size <= RECREATE_ROOM_MAX)
                return NULL;

        for (const RecreateTenant *tenant = room->tenants; tenant; tenant = tenant->next)
                if (tenant->size > most) {
                        loser = tenant->namespace;
                        most = tenant->size;
                }

        return loser;
}

int recreate_room_take(RecreateRoom *room, const char *namespace, size_t size) {
        RecreateTenant *tenant = find(room, namespace);

        if (!tenant) {
                tenant = calloc(1, sizeof(*tenant));
                if (!tenant)
                        return -ENOMEM;
                tenant->namespace = strdup(namespace);
                if (!tenant->namespace) {
                        free(tenant);
                        return -ENOMEM;
                }
                list_prepend(&room->tenants, tenant);
        }

        tenant->size += size;
        room->size += size;
        return 0;
}

void recreate_room_give(RecreateRoom *room, const char *namespace, size_t size) {
        RecreateTenant *tenant = size > 0 ? find(room, namespace) : NULL;

        if (!tenant)
                return;

        room->size -= size;
        tenant->size -= size;
        if (tenant->size > 0)
                return;

        list_remove(&room->tenants, tenant);
        free(tenant->namespace);
        free(tenant);
}
