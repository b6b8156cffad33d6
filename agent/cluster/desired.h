/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The NodeImage of this node, as the API server has it
 *
 * Its spec is what one owner wants ("nodeimage/UID", so that one that was deleted and created again
 * begins anew); its status is what others see of that, and what they have decided themselves: an
 * entry that somebody else has finished is not worked on any more.
 */

#include "agent/base/log.h"
#include "agent/cluster/status-diff.h"
#include "agent/image/images.h"
#include "agent/kube/watch.h"

typedef struct Desired Desired;

int desired_new(Log *log, Images *images, Desired **ret);
Desired *desired_free(Desired *desired);

/* What the watch shows: it is borrowed during the call. A tag that cannot be used fails alone. A spec
 * that cannot be used at all leaves the last good one in force, see desired_error(). */
int desired_set(Desired *desired, const KubeObject *object);
/* The watch has told everything for the first time: what an earlier life knew of other objects, and
 * nobody has claimed, is forgotten. */
int desired_on_first_sync(Desired *desired);

/* The object is gone: nothing is wanted for it any more. */
int desired_clear(Desired *desired);

/* NULL: there is no object. Borrowed. */
const char *desired_uid(const Desired *desired);
const char *desired_name(const Desired *desired);

/* Why the spec, or a part of it that has no status, is not used; or unset. */
const Error *desired_error(const Desired *desired);

/* What has to be written, see status_diff(). STATUS_SAME if there is no object, or none whose spec
 * could ever be used. */
int desired_diff(const Desired *desired, struct json_object **ret_patch);

/* The newest version of the object that is known; NULL: none is. Borrowed. */
const char *desired_resource_version(const Desired *desired);

/* The objects are listed anew: whatever the list shows is the newest, even if its version is lower,
 * as when the server's store was restored from a backup. What it does not show has not changed. */
void desired_on_list(Desired *desired);
/* That was all. */
void desired_on_listed(Desired *desired);

/* A patch was written, and the object has this version since: until the watch shows that, too, this
 * is what is known. An object that is older is not believed as to its status. */
int desired_on_written(Desired *desired, struct json_object *patch, const char *resource_version);

/* Whether a want with this owner is one of the object. */
bool desired_is_owner(const Desired *desired, const char *owner);

size_t desired_n_images(const Desired *desired);

/* How many of its images are not finished. Does not count beyond this many and one more. */
unsigned desired_n_in_work(const Desired *desired, unsigned many);
