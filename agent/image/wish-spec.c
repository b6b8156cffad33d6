/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/wish-spec.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/quote.h"

#define PAIRS_MAX 256 /* labels or annotations of one image */

static int check_item(struct json_object *item, const JsonPath *path, Error *reterr) {
        return json_object_is_type(item, json_type_object)
                       ? 0
                       : json_refuse_type(path, item, "an object", reterr);
}

static int parse_secrets(struct json_object *image, const JsonPath *path, ImageWish *wish,
                         Error *reterr) {
        const JsonPath list_path = { .parent = path, .key = "pullSecrets" };
        struct json_object *list;
        int r;

        r = json_read_list(image, path, list_path.key, &list, reterr);

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++) {
                const JsonPath item_path = { .parent = &list_path, .index = i };
                struct json_object *item = json_object_array_get_idx(list, i);
                const char *namespace, *name;

                r = check_item(item, &item_path, reterr);
                if (r < 0)
                        return r;
                r = json_read_string(item, &item_path, "namespace", &namespace, reterr);
                if (r < 0)
                        return r;
                r = json_read_string(item, &item_path, "name", &name, reterr);
                if (r < 0)
                        return r;

                if (!name || !*name)
                        return json_refuse(&item_path, reterr, "has no name");
                r = image_wish_add_secret(wish, namespace, name);
        }

        return r;
}

static int parse_pairs(struct json_object *config, const JsonPath *path, const char *key,
                       int (*add)(ImageWish *wish, const char *key, const char *value),
                       ImageWish *wish, Error *reterr) {
        const JsonPath pairs_path = { .parent = path, .key = key };
        struct json_object *pairs;
        int r;

        r = json_read_object(config, path, key, &pairs, reterr);
        if (r < 0 || !pairs)
                return r;

        if (json_object_object_length(pairs) > PAIRS_MAX)
                return json_refuse(&pairs_path, reterr, "more than %d members", PAIRS_MAX);

        json_object_object_foreach(pairs, name, member) {
                const char *value;

                (void) member;
                r = json_read_text(pairs, &pairs_path, name, &value, reterr);
                if (r < 0)
                        return r;

                r = add(wish, name, value ?: "");
                if (r < 0)
                        return r;
        }

        return 0;
}

static int parse_sandbox_config(struct json_object *image, const JsonPath *path, ImageWish *wish,
                                Error *reterr) {
        const JsonPath config_path = { .parent = path, .key = "sandboxConfig" };
        struct json_object *config;
        int r;

        r = json_read_object(image, path, config_path.key, &config, reterr);
        if (r < 0 || !config)
                return r;

        r = parse_pairs(config, &config_path, "labels", image_wish_add_label, wish, reterr);
        if (r < 0)
                return r;

        return parse_pairs(config, &config_path, "annotations", image_wish_add_annotation, wish,
                           reterr);
}

int wish_spec_read_shared(struct json_object *image, const JsonPath *path, ImageWish *wish,
                          Error *reterr) {
        int r;

        r = parse_secrets(image, path, wish, reterr);
        if (r < 0)
                return r;

        return parse_sandbox_config(image, path, wish, reterr);
}

static int parse_owner(struct json_object *item, const JsonPath *path, ImageWish *wish,
                       Error *reterr) {
        const char *texts[7];
        static const char *const keys[] = { "apiVersion", "kind", "namespace",
                                            "name",       "uid",  "resourceVersion",
                                            "fieldPath" };
        int r;

        r = check_item(item, path, reterr);
        for (size_t i = 0; r >= 0 && i < sizeof(keys) / sizeof(keys[0]); i++)
                r = json_read_string(item, path, keys[i], &texts[i], reterr);
        if (r < 0)
                return r;

        return image_wish_add_owner(wish, &(OwnerRef){
                                                  .api_version = (char *) texts[0],
                                                  .kind = (char *) texts[1],
                                                  .namespace = (char *) texts[2],
                                                  .name = (char *) texts[3],
                                                  .uid = (char *) texts[4],
                                                  .resource_version = (char *) texts[5],
                                                  .field_path = (char *) texts[6],
                                          });
}

static int parse_owners(struct json_object *item, const JsonPath *path, ImageWish *wish,
                        Error *reterr) {
        const JsonPath list_path = { .parent = path, .key = "ownerReferences" };
        struct json_object *list;
        int r;

        r = json_read_list(item, path, list_path.key, &list, reterr);

        for (size_t i = 0; r >= 0 && list && i < json_object_array_length(list); i++)
                r = parse_owner(json_object_array_get_idx(list, i),
                                &(JsonPath){ .parent = &list_path, .index = i }, wish, reterr);

        return r;
}

/* No limit in the object may overflow once it is counted in microseconds. */
static int read_number(struct json_object *policy, const JsonPath *path, const char *key,
                       int64_t smallest, int64_t otherwise, int64_t *ret, Error *reterr) {
        int64_t number = otherwise;
        int r;

        r = json_read_integer(policy, path, key, &number, reterr);
        if (r < 0)
                return r;

        if (number < smallest)
                number = otherwise;
        *ret = number < INT32_MAX ? number : INT32_MAX;
        return 0;
}

static int parse_limits(struct json_object *item, const JsonPath *path, ImageWish *wish,
                        Error *reterr) {
        const JsonPath here = { .parent = path, .key = "pullPolicy" };
        struct json_object *policy;
        int r;

        r = json_read_object(item, path, here.key, &policy, reterr);
        if (r < 0 || !policy)
                return r;

        r = read_number(policy, &here, "timeoutSeconds", 1, WISH_TIMEOUT_SEC_DEFAULT,
                        &wish->timeout_sec, reterr);
        if (r < 0)
                return r;
        r = read_number(policy, &here, "backoffLimit", 0, WISH_BACKOFF_LIMIT_DEFAULT,
                        &wish->backoff_limit, reterr);
        if (r < 0)
                return r;
        r = read_number(policy, &here, "activeDeadlineSeconds", 0, WISH_NO_LIMIT,
                        &wish->active_deadline_sec, reterr);
        if (r < 0)
                return r;
        return read_number(policy, &here, "ttlSecondsAfterFinished", 0, WISH_NO_LIMIT,
                           &wish->ttl_sec, reterr);
}

static int parse_policy(struct json_object *item, const JsonPath *path, bool is_lenient,
                        ImageWish *wish, Error *reterr) {
        const JsonPath here = { .parent = path, .key = "imagePullPolicy" };
        const char *policy;
        int r;

        r = json_read_string(item, path, here.key, &policy, reterr);
        if (r < 0)
                return r;

        if (policy && strcmp(policy, "IfNotPresent") == 0)
                wish->policy = PULL_POLICY_IF_NOT_PRESENT;
        else if (!policy || !*policy || strcmp(policy, "Always") == 0 || is_lenient)
                wish->policy = PULL_POLICY_ALWAYS;
        else
                return json_refuse(&here, reterr, "expected Always or IfNotPresent, got %s",
                                   quote(policy, (char[QUOTE_SIZE]){ 0 }));
        return 0;
}

static int parse_version(struct json_object *item, const JsonPath *path, ImageWish *wish,
                         Error *reterr) {
        const JsonPath here = { .parent = path, .key = "version" };
        int r;

        r = json_read_integer(item, path, here.key, &wish->version, reterr);
        if (r < 0)
                return r;
        if (wish->version < 0)
                return json_refuse(&here, reterr, "expected zero or more, got %lld",
                                   (long long) wish->version);
        return 0;
}

int wish_spec_read_tag(struct json_object *item, const JsonPath *path, bool is_lenient,
                       ImageWish *wish, Error *reterr) {
        const char *tag;
        int r;

        r = check_item(item, path, reterr);
        if (r < 0)
                return r;
        r = json_read_string(item, path, "tag", &tag, reterr);
        if (r < 0)
                return r;
        if (!tag || !*tag)
                return json_refuse(path, reterr, "has no tag");

        free(wish->tag);
        wish->tag = strdup(tag);
        if (!wish->tag)
                return -ENOMEM;

        /* The version and the owners are needed even if the rest has a fault, to report it. */
        r = parse_version(item, path, wish, reterr);
        if (r < 0)
                return r;
        r = parse_owners(item, path, wish, reterr);
        if (r < 0)
                return r;
        r = json_read_time(item, path, "createdAt", &wish->created_at, reterr);
        if (r < 0)
                return r;
        r = parse_policy(item, path, is_lenient, wish, reterr);
        if (r < 0)
                return r;
        return parse_limits(item, path, wish, reterr);
}
