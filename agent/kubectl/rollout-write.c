/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/rollout-write.h"

#include <errno.h>
#include <json-c/json.h>

#include "agent/base/time-units.h"
#include "agent/document/json-cleanup.h"
#include "agent/document/json-patch.h"
#include "agent/kubectl/admission-plan.h"
#include "agent/kubectl/rollout-advice.h"

#define CONFLICTS_MAX 5
#define CONFLICT_PAUSE_USEC (USEC_PER_SEC / 5)

static KubePath path_of_step(const RolloutWriter *writer, const RolloutStep *step) {
        KubePath path = writer->watch->path;

        if (step->action == ROLLOUT_PATCH_REPLICA_SET)
                return workload_path(WORKLOAD_REPLICA_SET, path.namespace, step->name);
        if (step->action == ROLLOUT_CREATE_REPLICA_SET)
                return workload_path(WORKLOAD_REPLICA_SET, path.namespace, NULL);
        if (step->action != ROLLOUT_PATCH_POD && step->action != ROLLOUT_CLOSE_GATE &&
            step->action != ROLLOUT_RETURN_POD)
                return path;

        path = workload_path(WORKLOAD_POD, path.namespace, step->name);
        if (step->action != ROLLOUT_PATCH_POD)
                path.subresource = "status";
        return path;
}

/* The update needs no history. */
static void give_up_history(const RolloutWriter *writer, const char *why) {
        writer->limits->keeps_no_history = true;
        rollout_explain(writer->watch,
                        "kubectl rollout undo will go to an older image than the one before this "
                        "update: %s",
                        why);
}

static int create_history(const RolloutWriter *writer, const RolloutStep *step, bool is_rehearsal,
                          Error *reterr) {
        Session *session = writer->watch->session;
        KubePath path = path_of_step(writer, step);
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (is_rehearsal && !session_is_dry_run(session))
                path.query = "dryRun=All";
        r = session_create(session, &path, step->patch, &object, &error);
        if (r >= 0)
                return is_rehearsal ? 0 : rollout_watch_add(writer->watch, object);
        if (error.kind == ERROR_NONE)
                return r;
        /* In a conflict, it is there already. */
        if (session_is_ended(session) || session_is_lost(session, &error) ||
            (!is_rehearsal && error.kind == ERROR_CONFLICT))
                return error_copy(reterr, &error);
        give_up_history(writer, error_message(&error));
        return 0;
}

static int send_step(const RolloutWriter *writer, const RolloutStep *step, Error *reterr) {
        KubePath path = path_of_step(writer, step);
        cleanup(json_object_put_p) json_object *object = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (step->action == ROLLOUT_CREATE_REPLICA_SET)
                return create_history(writer, step, /* is_rehearsal= */ false, reterr);
        r = session_patch(writer->watch->session, &path, KUBE_STRATEGIC_MERGE_PATCH, step->patch,
                          &object, &error);
        if (error.kind != ERROR_NONE)
                return admission_copy_refusal(&error, reterr);
        if (r >= 0)
                r = rollout_watch_note(writer->watch, object);
        return r < 0 ? r : rollout_check_answer(step->patch, object, reterr);
}

/* The key that this step would have as another write. */
static int key_as(const RolloutStep *step, RolloutAction action, json_object *record, char **ret) {
        const RolloutStep other = { .action = action, .patch = step->patch };

        return rollout_step_key(&other, record, ret);
}

/* As a partition is raised and lowered, a pod leaves the service and returns by turns: one takes back the other. */
static int forget_opposite(const RolloutWriter *writer, const RolloutStep *step,
                           json_object *record) {
        bool is_close = step->action == ROLLOUT_CLOSE_GATE;
        cleanup(free_p) char *key = NULL;

        if (!is_close && step->action != ROLLOUT_RETURN_POD)
                return 0;
        if (key_as(step, is_close ? ROLLOUT_RETURN_POD : ROLLOUT_CLOSE_GATE, record, &key) < 0)
                return -ENOMEM;
        json_object_object_del(writer->written, key);
        return 0;
}

int rollout_write(RolloutWriter *writer, const RolloutStep *step, json_object *record,
                  Error *reterr) {
        cleanup(free_p) char *key = NULL;
        int r = rollout_step_key(step, record, &key);
        bool is_written;

        if (r < 0)
                return r;
        is_written = json_object_object_get_ex(writer->written, key, NULL);
        if (is_written && step->action == ROLLOUT_CREATE_REPLICA_SET) {
                give_up_history(writer, "the ReplicaSet that keeps it has been deleted");
                return 0;
        }
        if (is_written)
                return error_set(reterr, ERROR_INVALID,
                                 "\"%s\" does not stay as it was written: another client or an "
                                 "admission webhook changes it back: see its managedFields and "
                                 "the cluster's webhooks, then repeat the command",
                                 step->name ?: writer->watch->path.name);
        r = send_step(writer, step, reterr);
        if (r >= 0)
                r = forget_opposite(writer, step, record);
        return r < 0 ? r : patch_add_bool(writer->written, key, true);
}

int rollout_write_forget(RolloutWriter *writer) {
        return patch_clear(&writer->written);
}

/* OpenKruise's kinds are custom resources, for which there is no other patch. */
static const char *patch_type(const RolloutWriter *writer) {
        return workload_is_of_kruise(writer->watch->view.kind) ? KUBE_MERGE_PATCH
                                                               : KUBE_STRATEGIC_MERGE_PATCH;
}

int rollout_write_workload(const RolloutWriter *writer, json_object *patch, Error *reterr) {
        cleanup(json_object_put_p) json_object *object = NULL;
        int r = session_patch(writer->watch->session, &writer->watch->path, patch_type(writer),
                              patch, &object, reterr);

        return r < 0 ? r : rollout_watch_note(writer->watch, object);
}

/* Where admission changes what is to keep its controller from acting, that one would replace the pods. */
static int check_hold(WorkloadKind kind, json_object *patch, json_object *answer, Error *reterr) {
        return !workload_is_held(kind, patch) || workload_is_held(kind, answer)
                       ? 0
                       : error_set(reterr, ERROR_UNSUPPORTED,
                                   "admission changes the strategy that keeps its controller from "
                                   "replacing pods during the update: exempt it from that webhook "
                                   "or policy");
}

static int rehearse_patch(const RolloutWriter *writer, KubePath path, json_object *patch,
                          Error *reterr) {
        Session *session = writer->watch->session;
        cleanup(json_object_put_p) json_object *rehearsed = json_copy(patch);
        cleanup(json_object_put_p) json_object *answer = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        if (!rehearsed)
                return -ENOMEM;
        path.query = session_is_dry_run(session) ? NULL : "dryRun=All";
        /* The controller writes to it as well, and a rehearsal stores nothing. */
        json_object_object_del(object_at(rehearsed, "metadata"), "resourceVersion");
        r = session_patch(session, &path, patch_type(writer), rehearsed, &answer, &error);
        if (error.kind != ERROR_NONE)
                return admission_copy_refusal(&error, reterr);
        if (r < 0 || workload_is_of_kruise(writer->watch->view.kind))
                return r;
        r = check_hold(writer->watch->view.kind, rehearsed, answer, reterr);
        return r < 0 ? r : rollout_check_answer(rehearsed, answer, reterr);
}

int rollout_write_rehearse(const RolloutWriter *writer, json_object *take_over, json_object *record,
                           const Census *census, Error *reterr) {
        static const RolloutAction actions[] = { ROLLOUT_PATCH_WORKLOAD, ROLLOUT_PATCH_REPLICA_SET,
                                                 ROLLOUT_CREATE_REPLICA_SET, ROLLOUT_CLOSE_GATE,
                                                 ROLLOUT_PATCH_POD };
        int r = rehearse_patch(writer, writer->watch->path, take_over, reterr);

        if (workload_is_of_kruise(writer->watch->view.kind))
                return r; /* the controller does the rest */
        for (size_t i = 0; r >= 0 && i < sizeof(actions) / sizeof(actions[0]); i++) {
                cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;

                r = rollout_rehearse(&writer->watch->view, record, writer->limits, census,
                                     actions[i], &step);
                if (r < 0 || step.action == ROLLOUT_WAIT)
                        continue;
                r = step.action == ROLLOUT_CREATE_REPLICA_SET
                            ? create_history(writer, &step, /* is_rehearsal= */ true, reterr)
                            : rehearse_patch(writer, path_of_step(writer, &step), step.patch,
                                             reterr);
        }
        return r;
}

/* Whether this run has taken the pod of the step out of service, for the images of the record. */
static int has_closed(const RolloutWriter *writer, const RolloutStep *step, json_object *record,
                      bool *ret) {
        cleanup(free_p) char *key = NULL;
        int r = key_as(step, ROLLOUT_CLOSE_GATE, record, &key);

        *ret = r >= 0 && json_object_object_get_ex(writer->written, key, NULL);
        return r;
}

/* A kubelet that sees the closed gate writes to the pod as well: the watch shows that after a conflict. While the update is open,
 * each run returns what it has closed itself. A pod of another workload may have the labels as well. */
static int return_pod(const RolloutWriter *writer, const PodState *state, json_object *record,
                      Error *reterr) {
        RolloutWatch *watch = writer->watch;
        const char *name = object_name(state->pod);
        bool returns_all = state->is_member && !rollout_record_is_open(record);

        for (int n_conflicts = 0;; n_conflicts++) {
                cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
                cleanup(error_done) Error error = ERROR_INIT;
                json_object *pod = json_object_object_get(watch->view.pods, name);
                bool is_ours = false;
                int r = pod ? rollout_plan_return_pod(&watch->view, record, pod, &step) : 0;

                if (r > 0 && !returns_all)
                        r = has_closed(writer, &step, record, &is_ours);
                else
                        is_ours = r > 0;
                if (r < 0 || !is_ours)
                        return r < 0 ? r : 0;
                r = send_step(writer, &step, &error);
                if (error.kind == ERROR_NONE || error.kind == ERROR_NOT_FOUND)
                        return error.kind == ERROR_NONE ? r : 0;
                if (error.kind != ERROR_CONFLICT || n_conflicts == CONFLICTS_MAX)
                        return error_copy(reterr, &error);
                r = session_pause(watch->session, CONFLICT_PAUSE_USEC, reterr);
                if (r < 0)
                        return r;
        }
}

int rollout_write_return(const RolloutWriter *writer, const Census *census, json_object *record,
                         Error *reterr) {
        int r = 0;

        session_begin_leave(writer->watch->session);
        for (size_t i = 0; r >= 0 && i < census->n_pods; i++)
                r = return_pod(writer, &census->pods[i], record, reterr);
        session_end_leave(writer->watch->session);
        return r;
}

void rollout_write_clean(const RolloutWriter *writer) {
        for (int i = json_object_object_length(writer->watch->view.owned); i > 0; i--) {
                cleanup(rollout_step_done) RolloutStep step = ROLLOUT_STEP_INIT;
                cleanup(error_done) Error error = ERROR_INIT;

                if (rollout_plan_clean(&writer->watch->view, &step) < 0 ||
                    step.action != ROLLOUT_PATCH_REPLICA_SET ||
                    send_step(writer, &step, &error) < 0)
                        return;
        }
}
