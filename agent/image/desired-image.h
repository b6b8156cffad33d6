/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Desired images
 *
 * An image that this node should hold: one entry of spec.images.NAME.tags of a NodeImage, with
 * everything about it that the node needs. A desired image knows neither its source nor its outcome, but
 * if it has a fault, it fails with that. Times are seconds, as in the object.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DESIRED_IMAGE_NO_LIMIT (-1) /* no limit, for fields that may be unlimited */
#define DESIRED_IMAGE_TIMEOUT_SEC_DEFAULT 600

typedef enum PullPolicy {
        PULL_POLICY_ALWAYS, /* also the meaning of an empty policy */
        PULL_POLICY_IF_NOT_PRESENT,
        _PULL_POLICY_MAX,
} PullPolicy;

/* A core/v1 ObjectReference, or a file or local request in its place. Strings may be NULL. */
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

typedef struct DesiredImage {
        char *name; /* name as the source spells it, without the tag */
        char *tag;  /* a tag, or a digest such as "sha256:..." */
        bool is_hub; /* a name without a registry is Docker Hub's, whatever the runtime makes of it */
        char *fault; /* reason why the agent cannot handle it, one line; or NULL */
        int64_t version;
        int64_t created_at; /* seconds since 1970; 0: unknown */
        PullPolicy policy;
        bool is_complete;      /* needs all content, also of layers that are fetched on demand */
        bool is_resolved;      /* wants the digest of its tag in the status */
        bool is_pinned;        /* is to be kept from the kubelet's garbage collection */
        int64_t timeout_sec;   /* timeout of one attempt, > 0 */
        int64_t backoff_limit; /* attempts after the first one, or DESIRED_IMAGE_NO_LIMIT */
        int64_t refusal_limit; /* likewise, plain refusals of the registry after the first one */
        int64_t active_deadline_sec; /* limit of all attempts together, or DESIRED_IMAGE_NO_LIMIT */
        int64_t ttl_sec;             /* kept this long when finished, or DESIRED_IMAGE_NO_LIMIT */

        SecretRef *secrets; /* pull secrets, in the order in which they were given */
        size_t n_secrets;
        KeyValue *labels; /* labels of the sandbox config that goes with the pull */
        size_t n_labels;
        KeyValue *annotations;
        size_t n_annotations;
        OwnerRef *owners;
        size_t n_owners;
} DesiredImage;

typedef struct DesiredImages {
        DesiredImage *items;
        size_t n_items;
} DesiredImages;

#define DESIRED_IMAGES_INIT ((DesiredImages){ .items = NULL })

/* Makes a desired image without limits. The strings are copied. */
int desired_image_init(DesiredImage *desired, const char *name, const char *tag);
int desired_image_copy(const DesiredImage *desired, DesiredImage *ret);
void desired_image_done(DesiredImage *desired);

int desired_image_add_secret(DesiredImage *desired, const char *namespace, const char *name);
int desired_image_add_label(DesiredImage *desired, const char *key, const char *value);
int desired_image_add_annotation(DesiredImage *desired, const char *key, const char *value);
int desired_image_add_owner(DesiredImage *desired, const OwnerRef *owner);
/* Removes what the tags of a name share in a NodeImage: pull secrets, labels and annotations. */
void desired_image_clear_shared(DesiredImage *desired);
void desired_image_clear_owners(DesiredImage *desired);

/* Compares everything but the owners' resource versions. */
bool desired_image_equal(const DesiredImage *a, const DesiredImage *b);
/* Adds to a hash (agent/base/hash.h) all that desired_image_equal() compares. */
uint64_t desired_image_hash(uint64_t hash, const DesiredImage *desired);
/* Compares the labels and annotations for the runtime alone. */
bool desired_image_equal_sandbox(const DesiredImage *a, const DesiredImage *b);

/* Appends a desired image, which it takes over also when it fails. */
int desired_images_take(DesiredImages *list, DesiredImage *desired);
void desired_images_done(DesiredImages *list);

/* Merges several desired images of one image: the stricter policy, the widest limits, the longest
 * lifetime, all secrets and owners, and the newest version. A fault stays out. At least one desired
 * image. Name and tag are those of the first. */
int desired_image_merge(const DesiredImage *const *desired_images, size_t n_desired,
                        DesiredImage *ret);

/* Whether an attempt to pull the merged one has the secrets and the time of this desired image. */
bool desired_image_shares_attempts(const DesiredImage *desired, const DesiredImage *merged);

/* Whether this desired image would not have changed the secrets and limits if it had come earlier,
 * so that a failure of the merged one is its failure, too. */
bool desired_image_is_within(const DesiredImage *desired, const DesiredImage *merged);
