/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/node/owner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/text.h"
#include "agent/base/utf8.h"

static const struct {
        const char *prefix;
        const char *kind;
} kinds[] = {
        { OWNER_FILE, "File" },    { OWNER_REQUEST, "Request" },
        { OWNER_CALL, "Call" },    { OWNER_NODE_IMAGE, "NodeImage" },
        { OWNER_SET, "ImageSet" },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static size_t find_kind(const char *owner) {
        size_t i = 0;

        while (i < N_KINDS && strncmp(owner, kinds[i].prefix, strlen(kinds[i].prefix)) != 0)
                i++;

        return i;
}

int owner_of_file(const char *name, char **ret) {
        char *owner, *to;

        owner = malloc(strlen(OWNER_FILE "./") + 3 * strlen(name) + 1);
        if (!owner)
                return -ENOMEM;

        *ret = owner;
        if (utf8_valid_size(name, strlen(name)) == strlen(name)) {
                stpcpy(stpcpy(owner, OWNER_FILE), name);
                return 0;
        }

        to = stpcpy(owner, OWNER_FILE "./");
        for (; *name; name++)
                if ((unsigned char) *name >= 0x80 || *name == '%')
                        to += sprintf(to, "%%%02X", (unsigned) (unsigned char) *name);
                else
                        *to++ = *name;
        *to = '\0';
        return 0;
}

const char *owner_kind(const char *owner) {
        size_t i = find_kind(owner);

        return i < N_KINDS ? kinds[i].kind : NULL;
}

const char *owner_name(const char *owner) {
        size_t i = find_kind(owner);

        return i < N_KINDS ? owner + strlen(kinds[i].prefix) : NULL;
}

int owner_from_reference(const OwnerRef *reference, char **ret) {
        if (!reference->api_version || strcmp(reference->api_version, OWNER_API_VERSION) != 0)
                return -EINVAL;

        for (size_t i = 0; i < N_KINDS; i++)
                if (reference->kind && strcmp(reference->kind, kinds[i].kind) == 0)
                        return text_format(ret, "%s%s", kinds[i].prefix, reference->name ?: "");

        return -EINVAL;
}

bool owner_is_call(const char *owner) {
        return strncmp(owner, OWNER_CALL, strlen(OWNER_CALL)) == 0;
}

bool owner_is_request(const char *owner) {
        return strncmp(owner, OWNER_REQUEST, strlen(OWNER_REQUEST)) == 0 || owner_is_call(owner);
}

bool owner_is_file(const char *owner) {
        return strncmp(owner, OWNER_FILE, strlen(OWNER_FILE)) == 0;
}

bool owner_is_node_image(const char *owner) {
        return strncmp(owner, OWNER_NODE_IMAGE, strlen(OWNER_NODE_IMAGE)) == 0;
}

bool owner_is_set(const char *owner) {
        return strncmp(owner, OWNER_SET, strlen(OWNER_SET)) == 0;
}

static bool is_kind(const OwnerRef *reference, const char *kind) {
        return reference->kind && strcmp(reference->kind, kind) == 0;
}

OwnerRef owner_to_reference(const char *owner, const DesiredImage *desired) {
        OwnerRef reference = {
                .api_version = (char *) OWNER_API_VERSION,
                .kind = (char *) owner_kind(owner),
                .name = (char *) owner_name(owner),
        };

        for (size_t i = 0; owner_is_request(owner) && i < desired->n_owners; i++)
                if (text_equal(desired->owners[i].name, reference.name)) {
                        reference.uid = desired->owners[i].uid;
                        reference.field_path = desired->owners[i].field_path;
                }

        return reference;
}

int owner_reference_to_words(const OwnerRef *reference, char **ret) {
        const char *name = reference->name ?: "", *namespace = reference->namespace ?: "";
        const char *caller = reference->field_path ?: "";

        if (is_kind(reference, "File"))
                return text_format(ret, "folder:%s", name);
        if (is_kind(reference, "Request") || is_kind(reference, "Call"))
                return text_format(ret, "%s%srequest %s", caller, caller[0] ? ", " : "", name);
        if (is_kind(reference, "NodeImage"))
                return text_format(ret, "NodeImage");
        if (is_kind(reference, "ImageSet"))
                return text_format(ret, "set %s", name);
        return text_format(ret, "%s %s%s%s",
                             is_kind(reference, "ImagePullJob") ? "job" : reference->kind ?: "?",
                             namespace, namespace[0] ? "/" : "", name);
}
