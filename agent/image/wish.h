/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Wishes
 *
 * Somebody wants an image on this node: one entry of spec.images.NAME.tags of a NodeImage, with
 * everything about it that the node needs. A wish knows neither where it came from nor what became
 * of it, but if it has a fault, that is all that ever will. Times are seconds, as in the object.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WISH_NO_LIMIT (-1) /* for active_deadline_sec and ttl_sec */
#define WISH_TIMEOUT_SEC_DEFAULT 600
#define WISH_BACKOFF_LIMIT_DEFAULT 3

typedef enum PullPolicy {
        PULL_POLICY_ALWAYS, /* also what an empty policy means */
        PULL_POLICY_IF_NOT_PRESENT,
        _PULL_POLICY_MAX,
} PullPolicy;

/* A core/v1 ObjectReference, or what stands for it: a file, a local request. Strings may be NULL. */
typedef struct OwnerRef {
        char *api_version;
        char *kind;
        char *namespace;
        char *name;
        char *uid;
        char *resource_version;
        char *field_path;
} OwnerRef;

typedef struct SecretRef {
        char *namespace; /* may be NULL */
        char *name;
} SecretRef;

typedef struct KeyValue {
        char *key;
        char *value;
} KeyValue;

typedef struct ImageWish {
        char *name;  /* as the source spells it, without the tag */
        char *tag;   /* a tag, or a digest such as "sha256:..." */
        char *fault; /* why nothing can be done about it, one line; or NULL */
        int64_t version;
        int64_t created_at; /* since the epoch, 0 if unknown */
        PullPolicy policy;
        int64_t timeout_sec;         /* of one attempt, > 0 */
        int64_t backoff_limit;       /* attempts after the first one, >= 0 */
        int64_t active_deadline_sec; /* of all attempts together, or WISH_NO_LIMIT */
        int64_t ttl_sec;             /* kept this long when finished, or WISH_NO_LIMIT */

        SecretRef *secrets; /* pull secrets, in the order in which they were given */
        size_t n_secrets;
        KeyValue *labels; /* of the sandbox config that goes with the pull */
        size_t n_labels;
        KeyValue *annotations;
        size_t n_annotations;
        OwnerRef *owners;
        size_t n_owners;
} ImageWish;

typedef struct WishList {
        ImageWish *items;
        size_t n_items;
        size_t n_allocated;
} WishList;

#define WISH_LIST_INIT ((WishList){ .items = NULL })

/* A wish with the defaults. The strings are copied. */
int image_wish_init(ImageWish *wish, const char *name, const char *tag);
int image_wish_copy(const ImageWish *wish, ImageWish *ret);
void image_wish_done(ImageWish *wish);

int image_wish_add_secret(ImageWish *wish, const char *namespace, const char *name);
int image_wish_add_label(ImageWish *wish, const char *key, const char *value);
int image_wish_add_annotation(ImageWish *wish, const char *key, const char *value);
int image_wish_add_owner(ImageWish *wish, const OwnerRef *owner);
void image_wish_clear_owners(ImageWish *wish);

/* Compares everything but the owners' resource versions. */
bool image_wish_equal(const ImageWish *a, const ImageWish *b);

/* Appends a wish, which it takes over also when it fails. */
int wish_list_take(WishList *list, ImageWish *wish);
void wish_list_done(WishList *list);
