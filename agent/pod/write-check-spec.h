/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Judges the answers to writes that the agent must not do, see write-check.h
 */

#include <stddef.h>
#include <stdint.h>

#define WRITE_CHECK_START_USEC ((uint64_t) 60 * 1000000)
#define WRITE_CHECK_SOON_USEC ((uint64_t) 10 * 60 * 1000000)
#define WRITE_CHECK_LATER_USEC ((uint64_t) 24 * 60 * 60 * 1000000)

typedef enum WriteTarget {
        WRITE_TARGET_POD,        /* a label of a pod of this node */
        WRITE_TARGET_NODE_IMAGE, /* the status of another node's NodeImage */
        WRITE_TARGET_NODE,       /* a label of this node */
        WRITE_TARGET_LEASE,      /* a Lease that is no slot of pulls */
        _WRITE_TARGET_MAX,
} WriteTarget;

typedef enum WriteVerdict {
        WRITE_VERDICT_UNKNOWN, /* the object does not exist, or the answer is inconclusive */
        WRITE_VERDICT_REFUSED,
        WRITE_VERDICT_ALLOWED,
        _WRITE_VERDICT_MAX,
} WriteVerdict;

/* code: HTTP's status of the dry run; 0: none came. A missing right is as good as a policy. */
WriteVerdict write_check_judge(int code);

/* Describes the writes that the agent could do, for a sentence. *ret: owned by the caller; NULL: none is known. */
int write_check_describe(const WriteVerdict verdicts[_WRITE_TARGET_MAX], char **ret);

/* Returns the pause before the next check: a day if all writes were refused, else a short time;
 * +- 10 %. random is any number. */
uint64_t write_check_pause_usec(const WriteVerdict verdicts[_WRITE_TARGET_MAX], uint32_t random);

/* The name of another NodeImage than this node's in a list of them; *ret is NULL if there is none, or
 * this is no such list. The caller owns *ret. */
int write_check_find_other(const char *list, size_t size, const char *node_name, char **ret);
