/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Workloads as the API server shows them
 *
 * Deployments, ReplicaSets, StatefulSets, DaemonSets, those of OpenKruise and pods have a template of the same
 * form (a pod is its own), and so have ControllerRevisions. What is asked of them here is read from their JSON; what is missing
 * in it, or of another type, is not there. Pure.
 */

#include <json-c/json_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/error.h"
#include "agent/image/image-ref.h"
#include "agent/kube/path.h"

typedef enum WorkloadKind {
        WORKLOAD_DEPLOYMENT,
        WORKLOAD_REPLICA_SET,
        WORKLOAD_STATEFUL_SET,
        WORKLOAD_DAEMON_SET,
        WORKLOAD_POD,
        WORKLOAD_CLONE_SET, /* a kind of OpenKruise, as the next ones */
        WORKLOAD_ADVANCED_STATEFUL_SET,
        WORKLOAD_ADVANCED_DAEMON_SET,
        _WORKLOAD_KIND_MAX,
} WorkloadKind;

/* "deployment", "sts": the text of that size; false: it is no kind. */
bool workload_kind_parse(const char *text, size_t size, WorkloadKind *ret);
bool workload_is_kind(const char *text);

/* "deployment/web", with kubectl's short names and plurals; *ret_name is borrowed from the text. */
int workload_name_parse(const char *text, WorkloadKind *ret_kind, const char **ret_name,
                        Error *reterr);

/* "deployment.apps" */
const char *workload_kind_to_string(WorkloadKind kind);

/* The kind's controller updates pods in place by itself. */
bool workload_is_of_kruise(WorkloadKind kind);

/* Borrows namespace and name, which may be NULL. The version of a kind of OpenKruise is NULL: which one the
 * server has is to be asked, see workload_find(). */
KubePath workload_path(WorkloadKind kind, const char *namespace, const char *name);

/* A member however deep: "spec.template.spec"; NULL: there is none. Borrowed. */
json_object *object_at(json_object *object, const char *path);
const char *object_text(json_object *object, const char *path);
/* 0: there is none. So far from the ends of its type that sums do not overflow. */
int64_t object_integer(json_object *object, const char *path);
/* An array. */
json_object *object_list(json_object *object, const char *path);
/* Borrowed; NULL: there is none. */
const char *object_annotation(json_object *object, const char *key);
/* The JSON object in an annotation; NULL: there is none, or another text. Borrowed. It needs no memory where
 * object_parse_notes() has been called before. */
json_object *object_annotation_json(json_object *object, const char *key);
/* Parses the annotations and the message of a pod in which updates and restarts note what they have done, so that nothing that
 * is decided later can take a lack of memory for a pod without them. Returns 0 or -ENOMEM. */
int object_parse_notes(json_object *object);
/* An array of texts that contains this one. */
bool list_has_text(json_object *list, const char *text);
const char *object_name(json_object *object);

/* The controller has seen the object as it is. */
bool object_is_observed(json_object *object);
/* How many pods a PodDisruptionBudget lets go. As the API server evicts none then: 0 until its last change is counted. */
int64_t budget_allowed(json_object *budget);
/* Whether a PodDisruptionBudget is about a pod, or about the pods of a template. */
bool budget_covers(json_object *budget, json_object *pod);
/* All PodDisruptionBudgets of the namespace, which is borrowed. */
KubePath budgets_path(const char *namespace);
/* The OwnerReference of the controller; NULL: there is none. */
json_object *object_controller(json_object *object);
/* The kind that an OwnerReference names, by its group as well; false: it is none of these. */
bool workload_kind_of_owner(json_object *owner, WorkloadKind *ret);
/* The controller that owns it, a uid; NULL: none. */
const char *object_owner(json_object *object);
/* The size of the name of the Deployment whose ReplicaSet owns it, with which the ReplicaSet's name begins; 0: no
 * Deployment does, which alone gives its ReplicaSets, and their pods, the label with a hash. */
size_t owner_deployment_size(json_object *object);
/* Refused if a controller owns it, which is named. */
int object_refuse_owned(json_object *object, Error *reterr);
bool object_is_deleted(json_object *object);
/* The pod's containers are not started again; a controller makes another pod for it. */
bool pod_has_ended(json_object *pod);

/* The template of a workload, a ControllerRevision, or a pod. */
json_object *object_template(json_object *object);

/* The containers and then the init containers, one after the other; NULL: there are no more. */
json_object *template_container(json_object *template, size_t i);
/* The container or init container of that name; NULL: there is none. */
json_object *template_find_container(json_object *template, const char *name);
/* The status of a container or init container; NULL: there is none. */
json_object *container_status(json_object *pod, const char *container);
/* The image that it was started from, by its digest; false: none is known. */
bool container_running_image(json_object *status, ImageRef *ret);
/* The kubelet's whole back-off before it starts the container again; 0: its status does not say. */
int64_t container_backoff_sec(json_object *status);
/* NULL: it has no such container or init container. */
const char *template_image(json_object *template, const char *container);
/* "app, side": the main containers; the caller owns *ret. */
int template_name_containers(json_object *template, char **ret);
/* Says that there is no such container, and which there are. */
int template_refuse_container(json_object *template, const char *container, Error *reterr);
/* An init container that has ended when the pod runs, and does not run again for another image. Those that keep
 * running count as containers. */
bool template_ends(json_object *template, const char *container);

/* "web:2" of "registry.internal/shop/web:2": what fits into a table. Borrowed from it. */
const char *image_short(const char *image);

/* The size of "host:5000/app" in "host:5000/app:1" and "host:5000/app@sha256:...". */
size_t image_name_size(const char *image);

/* Adds the names of the pull secrets, {name: null}. */
int pod_spec_add_secrets(json_object *spec, json_object *names);

/* The image that is mounted as this volume; NULL: it is no such volume. Borrowed. */
const char *volume_image(json_object *volume);
/* The name of a volume whose image the kubelet asks the registry for before each start of a container; NULL: there is
 * none. Borrowed. */
const char *template_pulled_volume(json_object *template);
/* A message of the kubelet is about this image, and not about one whose name begins or ends with its name. An empty name
 * is that of no image. */
bool message_is_about_image(const char *message, const char *image);
/* A message of the kubelet is about an image that is mounted as a volume. */
bool message_is_about_volume(const char *message, json_object *template);
/* Adds the images of the volumes, {image: null}. */
int pod_spec_add_volume_images(json_object *spec, json_object *images);

/* {container: image}, where "*" stands for all containers and init containers, as for kubectl. The caller owns
 * *ret. */
int template_expand_images(json_object *template, json_object *images, json_object **ret);

/* An annotation of a pod: {container: {"image", "as", "ran", "starts"}}. A restart spelled the image as `as`, by the digest of
 * what the container with the ID `ran` was made from. */
#define RESTART_ANNOTATION "inplaced.io/restarted"
/* An annotation of a pod: {container: {"image", "id"}} at the time of an update's patch, of containers that it replaces. */
#define ROLLOUT_POD_ANNOTATION "inplaced.io/updated-containers"

/* OpenKruise's annotation of a pod that it has updated in place. */
#define KRUISE_STATE_ANNOTATION "apps.kruise.io/inplace-update-state"

/* The image as it was written before a restart spelled it otherwise. Borrowed; NULL: there is no such container. */
const char *template_written_image(json_object *template, const char *container);

/* All images that the object of container names and images has are the template's, in either spelling. The digest of
 * a restart counts for none of an update if it may come from a container from before that update. */
bool template_has_images(json_object *template, json_object *images);

/* {"containers": [{"name", "image"}], "initContainers": ...}: for a strategic merge patch of the template's
 * spec. NULL: no memory. */
json_object *template_image_patch(json_object *template, json_object *images);

/* The first place where they differ in more than images and what controllers add, such as
 * "spec.containers[0].env"; NULL: nowhere. The caller owns *ret. */
int template_compare(json_object *a, json_object *b, char **ret);

/* A label selector as a query has it; the caller owns *ret. */
int selector_format(json_object *selector, char **ret);
/* An empty one matches everything, none nothing. */
bool selector_matches(json_object *selector, json_object *labels);

typedef enum ShareRounding {
        SHARE_ROUNDED_UP,
        SHARE_ROUNDED_DOWN,
        _SHARE_ROUNDING_MAX,
} ShareRounding;

/* "2" or "25%" of a number. */
int share_parse(const char *text, int64_t whole, ShareRounding rounding, int64_t *ret,
                Error *reterr);
