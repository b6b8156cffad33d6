/* SPDX-License-Identifier: Apache-2.0 */

/* An API server: versions, generations, preconditions, defaults, the policy inplaced-hold, webhooks, and a log of changes */

#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/rollout-kinds.h"
#include "agent/kubectl/rollout-record.h"
#include "tests/model/world.h"

static size_t find_index(const Items *items, const char *name) {
        size_t i = 0;

        while (i < items->n && strcmp(items->names[i], name) != 0)
                i++;
        return i;
}

json_object *items_find(const Items *items, const char *name) {
        size_t i = find_index(items, name);

        return i < items->n ? items->items[i] : NULL;
}

static void set_item(Items *items, size_t i, json_object *object) {
        items->items[i] = json_object_get(object);
        items->names[i] = object_name(object);
        items->is_dirty[i] = true;
}

static void remove_item(Items *items, size_t i) {
        items->n--;
        items->items[i] = items->items[items->n];
        items->names[i] = items->names[items->n];
        items->is_dirty[i] = items->is_dirty[items->n];
}

/* Returns false where there is no room. object: NULL: it is gone. */
static bool items_put(Items *items, const char *name, json_object *object) {
        size_t i = find_index(items, name);

        if (i == items->n &&
            (!object || items->n == sizeof(items->items) / sizeof(items->items[0])))
                return !object;
        if (i == items->n)
                items->n++;
        else
                json_object_put(items->items[i]);
        if (object)
                set_item(items, i, object);
        else
                remove_item(items, i);
        return true;
}

json_object *api_get(World *world, Resource resource, const char *name) {
        return items_find(&world->items[resource], name);
}

Resource workload_resource(const World *world) {
        switch (world->scenario.kind) {
        case WORKLOAD_STATEFUL_SET: return STATEFUL_SETS;
        case WORKLOAD_DAEMON_SET: return DAEMON_SETS;
        case WORKLOAD_REPLICA_SET: return REPLICA_SETS;
        default: return DEPLOYMENTS;
        }
}

bool has_revisions(const World *world) {
        return world->scenario.kind == WORKLOAD_STATEFUL_SET ||
               world->scenario.kind == WORKLOAD_DAEMON_SET;
}

json_object *api_workload(World *world) {
        return api_get(world, workload_resource(world), WORKLOAD);
}

/* Keeps the object and tells the watches. object: NULL: `old` is gone. */
static void store(World *world, Resource resource, json_object *old, json_object *object) {
        Log *log = &world->logs[resource];

        world->n_changes += resource != LEASES;
        if (!items_put(&world->items[resource], object_name(object ?: old), object))
                fail(world, "the model has no room for more objects");
        if (log->n == log->size) {
                log->size = log->size ? 2 * log->size : 64;
                log->changes = reallocarray(log->changes, log->size, sizeof(Change));
        }
        log->changes[log->n++] = (Change){ json_object_get(object ?: old), !object };
}

/* Defaults that matter */
static void set_defaults(Resource resource, json_object **object) {
        bool is_rolling =
                text_equal(object_text(*object, "spec.updateStrategy.type"), "RollingUpdate");

        if (resource == STATEFUL_SETS && is_rolling &&
            !object_at(*object, "spec.updateStrategy.rollingUpdate.partition"))
                SET_NUMBER(object, 0, "spec", "updateStrategy", "rollingUpdate", "partition");
        if (resource == DAEMON_SETS && is_rolling &&
            !object_at(*object, "spec.updateStrategy.rollingUpdate.maxUnavailable"))
                SET_NUMBER(object, 1, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable");
}

/* As packaging/kubernetes/components/updates/policy.yaml. */
static const char *held_former(Resource resource, json_object *object, char *buffer, size_t size) {
        json_object *partition = object_at(object, "spec.updateStrategy.rollingUpdate.partition");

        if (resource == DEPLOYMENTS)
                return json_object_get_boolean(object_at(object, "spec.paused")) ? NULL : "paused";
        if (!workload_is_rolling(object))
                return NULL;
        if (resource == DAEMON_SETS)
                return "RollingUpdate";
        if (json_object_get_int64(partition) == INT32_MAX)
                return NULL;
        (void) snprintf(buffer, size, "%" PRId64, json_object_get_int64(partition));
        return buffer;
}

/* By a write of "kubectl replace" */
static bool is_replaced(json_object *old, json_object *object) {
        return workload_held(old) && !annotation_of(object, HELD_ANNOTATION) &&
               !annotation_of(object, ROLLOUT_ANNOTATION);
}

static bool is_for_policy(Resource resource, json_object *old, json_object *object) {
        return !json_object_equal(GET(old, "spec", "template"), GET(object, "spec", "template")) ||
               (resource != DEPLOYMENTS && workload_held(old) && workload_held(object)) ||
               is_replaced(old, object);
}

static bool differs_in_images(json_object *old, json_object *object) {
        cleanup(free_p) char *difference = NULL;

        return template_compare(GET(old, "spec", "template"), GET(object, "spec", "template"),
                                &difference) >= 0 &&
               !difference;
}

static void hold(Resource resource, json_object *old, json_object **object) {
        char buffer[24];
        const char *former;

        if ((resource != DEPLOYMENTS && resource != STATEFUL_SETS && resource != DAEMON_SETS) ||
            !workload_is_declared(*object) || !is_for_policy(resource, old, *object))
                return;
        former = held_former(resource, *object, buffer, sizeof(buffer));
        if (!former || !differs_in_images(old, *object))
                return;
        if (is_replaced(old, *object) && annotation_of(old, ROLLOUT_ANNOTATION))
                SET_TEXT(object, annotation_of(old, ROLLOUT_ANNOTATION), "metadata", "annotations",
                         ROLLOUT_ANNOTATION);
        SET_TEXT(object, former, "metadata", "annotations", HELD_ANNOTATION);
        if (resource == DEPLOYMENTS)
                SET(object, json_object_new_boolean(true), "spec", "paused");
        else if (resource == DAEMON_SETS)
                SET_TEXT(object, "OnDelete", "spec", "updateStrategy", "type");
        else
                SET_NUMBER(object, INT32_MAX, "spec", "updateStrategy", "rollingUpdate",
                           "partition");
}

/* Webhooks */

static json_object *inject(json_object *containers) {
        json_object *list = copy_list(containers), *added = json_object_new_object();

        SET_TEXT(&added, "mesh", "name");
        SET_TEXT(&added, "r/mesh:1", "image");
        json_object_array_add(list, added);
        return list;
}

/* "r/app:1" becomes "m/app:1". */
static json_object *mirror(json_object *containers) {
        json_object *list = copy_list(containers);

        for (size_t i = 0; i < json_object_array_length(list); i++) {
                json_object *container = json_object_get(json_object_array_get_idx(list, i));
                char image[24];

                (void) snprintf(image, sizeof(image), "m%s", json_get_text(container, "image") + 1);
                SET_TEXT(&container, image, "image");
                json_object_array_put_idx(list, i, container);
        }
        return list;
}

static bool is_denied(json_object *old, json_object *pod) {
        const char *name = object_name(pod);

        return name[strlen(name) - 1] % 2 == 1 &&
               !text_equal(template_image(old, "app"), template_image(pod, "app"));
}

/* old: NULL: the pod is new. A pod that is there gets no other containers from any client. */
static ErrorKind admit(const World *world, json_object *old, json_object **pod) {
        json_object *containers = GET(*pod, "spec", "containers");
        bool has_injected = json_find(containers, "name", "mesh");

        switch (world->has_webhook ? world->scenario.webhook : WEBHOOK_NONE) {
        case WEBHOOK_INJECTS_ALWAYS:
                if (old && !has_injected)
                        return ERROR_INVALID;
                __attribute__((fallthrough));
        case WEBHOOK_INJECTS:
                if (!old && !has_injected)
                        SET(pod, inject(containers), "spec", "containers");
                break;
        case WEBHOOK_MIRRORS:
        case WEBHOOK_MIRRORS_ALWAYS:
                if (!old || world->scenario.webhook == WEBHOOK_MIRRORS_ALWAYS)
                        SET(pod, mirror(containers), "spec", "containers");
                break;
        case WEBHOOK_DENIES: return old && is_denied(old, *pod) ? ERROR_DENIED : ERROR_NONE;
        case WEBHOOK_NONE:
        case _WEBHOOK_MAX: break;
        }
        return ERROR_NONE;
}

static void set_version(World *world, json_object **object) {
        char version[16];

        (void) snprintf(version, sizeof(version), "%u", ++world->n_versions);
        SET_TEXT(object, version, "metadata", "resourceVersion");
}

/* Takes `object` over. ret: owned by the caller; may be NULL. */
static ErrorKind finish(World *world, const Patch *write, json_object *old, json_object *object,
                        json_object **ret) {
        ErrorKind kind = write->resource == PODS && !write->is_status ? admit(world, old, &object)
                                                                      : ERROR_NONE;

        if (kind != ERROR_NONE) {
                json_object_put(object);
                return kind;
        }
        if (!write->is_status) {
                set_defaults(write->resource, &object);
                hold(write->resource, old, &object);
        }
        if (json_object_equal(old, object)) {
                json_object_put(object);
                if (ret)
                        *ret = json_object_get(old);
                return ERROR_NONE;
        }
        if (write->resource != PODS || !write->is_status) {
                if (!write->is_status && !json_object_equal(GET(old, "spec"), GET(object, "spec")))
                        SET_NUMBER(&object, object_integer(old, "metadata.generation") + 1,
                                   "metadata", "generation");
        }
        if (!write->is_dry_run) {
                set_version(world, &object);
                judge_write(world, write->author, write->resource, old, object);
                store(world, write->resource, old, object);
        }
        if (ret)
                *ret = json_object_get(object);
        json_object_put(object);
        return ERROR_NONE;
}

/* A part of the body is for the subresource alone, or for all but that. */
static json_object *relevant(const Patch *patch) {
        json_object *body = json_object_get(patch->body);

        if (patch->is_status)
                SET(&body, NULL, "spec");
        else if (GET(body, "status"))
                SET(&body, NULL, "status");
        if (GET(body, "metadata", "uid"))
                SET(&body, NULL, "metadata", "uid");
        if (GET(body, "metadata", "resourceVersion"))
                SET(&body, NULL, "metadata", "resourceVersion");
        return body;
}

ErrorKind api_patch(World *world, const Patch *patch, json_object **ret) {
        json_object *old = api_get(world, patch->resource, patch->name);
        const char *uid = object_text(patch->body, "metadata.uid");
        const char *version = object_text(patch->body, "metadata.resourceVersion");
        cleanup(json_object_put_p) json_object *body = NULL;

        if (!old)
                return ERROR_NOT_FOUND;
        if ((uid && !text_equal(uid, object_text(old, "metadata.uid"))) ||
            (version && !text_equal(version, object_text(old, "metadata.resourceVersion"))))
                return ERROR_CONFLICT;
        body = relevant(patch);
        return finish(world, patch, old, merge_patch(old, body, patch->is_strategic), ret);
}

ErrorKind api_create(World *world, Author author, Resource resource, json_object *object,
                     bool is_dry_run, json_object **ret) {
        cleanup(json_object_put_p) json_object *made = json_object_get(object);
        char uid[16];

        (void) author;
        if (api_get(world, resource, object_name(object)))
                return ERROR_CONFLICT;
        (void) snprintf(uid, sizeof(uid), "u%u", ++world->n_uids);
        SET_TEXT(&made, uid, "metadata", "uid");
        SET_NUMBER(&made, 1, "metadata", "generation");
        if (resource == PODS)
                (void) admit(world, NULL, &made);
        if (!is_dry_run) {
                set_version(world, &made);
                store(world, resource, NULL, made);
        }
        if (ret)
                *ret = json_object_get(made);
        return ERROR_NONE;
}

ErrorKind api_update(World *world, Author author, Resource resource, bool is_status,
                     json_object *object) {
        json_object *old = api_get(world, resource, object_name(object));
        const Patch write = { .author = author, .resource = resource, .is_status = is_status };

        if (!old ||
            !text_equal(object_text(old, "metadata.uid"), object_text(object, "metadata.uid")) ||
            !text_equal(object_text(old, "metadata.resourceVersion"),
                        object_text(object, "metadata.resourceVersion"))) {
                json_object_put(object);
                return old ? ERROR_CONFLICT : ERROR_NOT_FOUND;
        }
        return finish(world, &write, old, object, NULL);
}

void api_remove(World *world, Resource resource, const char *name) {
        cleanup(json_object_put_p) json_object *old =
                json_object_get(api_get(world, resource, name));

        if (old)
                store(world, resource, old, NULL);
}

ErrorKind api_delete(World *world, Author author, Resource resource, const char *name) {
        json_object *old = api_get(world, resource, name), *object;
        const Patch write = { .author = author, .resource = resource, .is_status = true };

        if (!old)
                return ERROR_NOT_FOUND;
        if (resource != PODS) {
                world->has_garbage = true;
                api_remove(world, resource, name);
                return ERROR_NONE;
        }
        /* No kubelet has to end it. */
        if ((pod_node(old) < 0 || pod_has_ended(old)) && !GET(old, "metadata", "finalizers"))
                api_remove(world, PODS, name);
        if (object_is_deleted(old) || !api_get(world, PODS, name))
                return ERROR_NONE;
        object = json_object_get(old);
        SET(&object, time_text(world->now_sec), "metadata", "deletionTimestamp");
        return finish(world, &write, old, object, NULL);
}

bool cache_is_behind(const World *world, const Cache *cache, Resource resource) {
        return cache->seen[resource] < world->logs[resource].n;
}

void cache_advance(World *world, Cache *cache, Resource resource) {
        const Change *change = &world->logs[resource].changes[cache->seen[resource]++];

        (void) items_put(&cache->items[resource], object_name(change->object),
                         change->is_gone ? NULL : change->object);
}

static void items_done(Items *items) {
        for (size_t i = 0; i < items->n; i++)
                json_object_put(items->items[i]);
}

void api_done(World *world) {
        for (Resource resource = 0; resource < _RESOURCE_MAX; resource++) {
                Log *log = &world->logs[resource];

                items_done(&world->items[resource]);
                items_done(&world->manager.items[resource]);
                for (size_t i = 0; i < log->n; i++)
                        json_object_put(log->changes[i].object);
                free(log->changes);
        }
}
