/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Report of a pod: the images it should run, those that run, and the verdict
 *
 * Made from the pod as the API server has it; what is missing there, or of another type, is "-" here.
 * Main containers and native sidecars count, in the order of the pod, and after them images that are mounted as volumes. Pure.
 */

#include <json-c/json_types.h>
#include <stdint.h>

/* Texts are borrowed from the pod where they are const, and owned otherwise. */
typedef struct PodReport {
        const char *namespace;
        const char *name;
        const char *node;    /* "-": it is on none */
        char *images;        /* requested, joined with "," */
        char *short_images;  /* the same, see image_short() */
        char *running;       /* IDs of the images that run, joined likewise: "0123456789ab"; of a
                              * container that does not run, the reason: "ImagePullBackOff" */
        char *running_ids;   /* the same, whole */
        const char *verdict; /* "Verified", "ImageStale" ...; "-": no agent has said anything */
        const char *message; /* the agent's reason for the verdict, or the kubelet's to wait; "" */
        const char *
                environment; /* "current", "stale", "unknown"; "-": nothing in it is from metadata */
        int64_t restarts;
        int64_t since; /* time of the verdict, else of the youngest container's start; seconds since the epoch; 0 */
} PodReport;

#define POD_REPORT_INIT ((PodReport){ .namespace = NULL })

/* 0 or -ENOMEM. The pod is borrowed as long as the report lives. */
int pod_report_make(json_object *pod, PodReport *ret);
void pod_report_done(PodReport *report);

/* Makes an object of the report, with a list of containers; the caller owns it. NULL: no memory. */
json_object *pod_report_json(json_object *pod, const PodReport *report);
