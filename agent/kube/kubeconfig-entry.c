/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/kubeconfig-entry.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/kube/access-json.h"
#include "agent/kube/access-text.h"

int kubeconfig_find(struct json_object *root, const char *list_key, const char *key,
                    const char *name, KubeconfigEntry *ret, bool *ret_found, Error *reterr) {
        struct json_object *list;
        bool is_found = false;
        int r;

        ret->list = (JsonPath){ .key = list_key };
        ret->path = (JsonPath){ .parent = &ret->item, .key = key };
        r = access_json_read_list(root, NULL, list_key, &list, reterr);
        if (r < 0)
                return r;

        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                struct json_object *item = json_object_array_get_idx(list, i);
                const JsonPath path = { .parent = &ret->list, .index = i };
                cleanup(free_p) char *its_name = NULL;

                r = access_json_check_object(item, &path, reterr);
                if (r < 0)
                        return r;
                r = access_json_read_text(item, &path, "name", &its_name, reterr);
                if (r < 0)
                        return r;
                if (strcmp(its_name ?: "", name) != 0)
                        continue;
                if (is_found)
                        return json_refuse(&path, reterr, "there is another one of this name");

                is_found = true;
                ret->item = path;
                r = access_json_read_object(item, &path, key, &ret->object, reterr);
                if (r < 0)
                        return r;
                if (!ret->object)
                        return json_refuse(&ret->path, reterr, "is missing");
        }

        *ret_found = is_found;
        return 0;
}

int kubeconfig_follow(struct json_object *root, const KubeconfigEntry *context,
                      const char *list_key, const char *key, KubeconfigEntry *ret, bool *ret_found,
                      Error *reterr) {
        const JsonPath path = { .parent = &context->path, .key = key };
        cleanup(free_p) char *name = NULL;
        bool is_found;
        int r;

        r = access_json_read_text(context->object, &context->path, key, &name, reterr);
        if (r < 0)
                return r;
        if (!name) {
                *ret_found = false;
                return 0;
        }

        r = kubeconfig_find(root, list_key, key, name, ret, &is_found, reterr);
        if (r < 0)
                return r;
        if (!is_found)
                return json_refuse(&path, reterr, "there is no %s %s", key,
                                   quote(name, (char[QUOTE_SIZE]){ 0 }));

        *ret_found = true;
        return 0;
}

int kubeconfig_read_line(const KubeconfigEntry *entry, const char *key, char **ret, Error *reterr) {
        const JsonPath path = { .parent = &entry->path, .key = key };
        int r;

        r = access_json_read_text(entry->object, &entry->path, key, ret, reterr);
        if (r < 0)
                return r;

        if (*ret && !access_text_is_line(*ret))
                return json_refuse(&path, reterr, "has a control character in it");
        return 0;
}

int kubeconfig_read_file(const KubeconfigEntry *entry, const char *folder, const char *key,
                         char **ret, Error *reterr) {
        cleanup(free_p) char *file = NULL;
        int r;

        r = kubeconfig_read_line(entry, key, &file, reterr);
        if (r < 0 || !file)
                return r;

        if (file[0] == '/')
                *ret = take_ptr(file);
        else if (asprintf(ret, "%s/%s", folder, file) < 0) {
                *ret = NULL;
                return -ENOMEM;
        }
        return 0;
}

/* base64, in which line ends do not count; in it has to be PEM. */
static int decode_pem(const JsonPath *path, const char *encoded, char **ret, Error *reterr) {
        cleanup(free_p) char *place = NULL;
        cleanup(access_text_done) char *text = NULL;
        size_t size = strlen(encoded) / 4 * 3 + 4;
        int n;

        place = calloc(1, size);
        if (!place)
                return -ENOMEM;

        n = b64_pton(encoded, (unsigned char *) place, size - 1);
        text = take_ptr(place);
        if (n < 0)
                return json_refuse(path, reterr, "is not base64");
        if ((size_t) n != strlen(text) || !access_text_is_pem(text)) {
                explicit_bzero(text, size);
                return json_refuse(path, reterr, "is not base64 of PEM");
        }

        *ret = take_ptr(text);
        return 0;
}

int kubeconfig_read_source(const KubeconfigEntry *entry, const char *folder, const char *key,
                           const char *data_key, KubeconfigSource *ret, Error *reterr) {
        const JsonPath path = { .parent = &entry->path, .key = data_key };
        cleanup(access_text_done) char *encoded = NULL;
        int r;

        r = kubeconfig_read_file(entry, folder, key, &ret->file, reterr);
        if (r < 0)
                return r;
        r = access_json_read_text(entry->object, &entry->path, data_key, &encoded, reterr);
        if (r < 0 || !encoded)
                return r;

        if (ret->file)
                return json_refuse(&path, reterr, "is there beside %s", key);
        return decode_pem(&path, encoded, &ret->text, reterr);
}
