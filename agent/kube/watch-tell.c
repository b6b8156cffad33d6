/* SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/kube/watch-internal.h"

DEFINE_CLEANUP(WatchKey *, watch_key_free)

static int tell_gone(KubeWatch *watch, WatchKey *known) {
        cleanup(watch_key_free_p) WatchKey *key = watch_keys_take(&watch->keys, known);
        const KubeObject object = {
                .namespace = key->namespace,
                .name = key->name,
                .uid = key->uid,
        };

        return watch->options.on_gone(&object, watch->options.userdata);
}

static int tell_new(KubeWatch *watch, const KubeObject *object) {
        int r;

        r = watch_keys_add(&watch->keys, object->namespace, object->name, object->uid,
                           object->resource_version);
        if (r < 0)
                return r;

        return watch->options.on_object(object, watch->options.userdata);
}

/* A new list has much that is known. */
static int tell_again(KubeWatch *watch, WatchKey *key, const KubeObject *object) {
        int r;

        key->is_marked = true;
        if (strcmp(key->version, object->resource_version) == 0)
                return 0;

        r = watch_key_set_version(key, object->resource_version);
        if (r < 0)
                return r;

        return watch->options.on_object(object, watch->options.userdata);
}

static int tell_object(KubeWatch *watch, WatchKey *key, const KubeObject *object) {
        int r;

        if (key && strcmp(key->uid, object->uid) == 0)
                return tell_again(watch, key, object);

        if (key) {
                r = tell_gone(watch, key);
                if (r < 0 || watch->is_closed)
                        return r;
        }

        return tell_new(watch, object);
}

int watch_tell_event(KubeWatch *watch, const WatchEvent *event) {
        const KubeObject *object = &event->object;
        WatchKey *key = watch_keys_find(&watch->keys, object->namespace, object->name);

        switch (event->type) {
        case WATCH_EVENT_ADDED:
        case WATCH_EVENT_MODIFIED: return tell_object(watch, key, object);
        case WATCH_EVENT_DELETED:
                return key && strcmp(key->uid, object->uid) == 0 ? tell_gone(watch, key) : 0;
        case WATCH_EVENT_BOOKMARK:
        case WATCH_EVENT_ERROR:
        case _WATCH_EVENT_TYPE_MAX: break;
        }

        return 0;
}

int watch_tell_rest_gone(KubeWatch *watch) {
        WatchKey *key;
        int r;

        while (!watch->is_closed && (key = watch_keys_find_unmarked(&watch->keys))) {
                r = tell_gone(watch, key);
                if (r < 0)
                        return r;
        }

        return 0;
}
