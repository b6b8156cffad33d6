/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/agent-log.h"

#include "agent/node/diagnosis.h"

/* One that is away is away until it is back, however often there is another reason for it. */
static bool is_worth_a_warning(const Runtime *runtime, bool is_chosen) {
        if (runtime_state(runtime) == RUNTIME_REFUSED)
                return true;

        return is_chosen && !runtime_is_as_before(runtime);
}

void agent_log_runtime(Log *log, const Runtimes *runtimes, const Runtime *runtime) {
        bool is_chosen = runtime == runtimes_chosen(runtimes);
        const char *sentence = runtime_sentence(runtime);

        if (runtime_state(runtime) == RUNTIME_READY)
                log_info(log,
                         LOG_FIELDS({ "MESSAGE_ID", MESSAGE_RUNTIME_READY },
                                    { "RUNTIME", runtime_path(runtime) }),
                         "The runtime %s%s.", sentence, is_chosen ? "" : " but not used");
        else if (is_worth_a_warning(runtime, is_chosen))
                log_warning(log,
                            LOG_FIELDS({ "MESSAGE_ID", MESSAGE_RUNTIME_LOST },
                                       { "RUNTIME", runtime_path(runtime) }),
                            "Waiting for a runtime: %s.", sentence);
        else
                log_debug(log, LOG_FIELDS({ "RUNTIME", runtime_path(runtime) }),
                          "Waiting for a runtime: %s.", sentence);
}

/* A runtime that is refused has had its line already. */
static bool is_silence(const Runtimes *runtimes) {
        for (size_t i = 0; i < runtimes_count(runtimes); i++)
                if (runtime_state(runtimes_get(runtimes, i)) != RUNTIME_ABSENT)
                        return false;

        return true;
}

void agent_log_silence(Log *log, const Runtimes *runtimes) {
        if (is_silence(runtimes))
                log_warning(log, LOG_FIELDS({ "MESSAGE_ID", MESSAGE_RUNTIME_LOST }),
                            "Waiting for a runtime: %s.", diagnosis_runtime_sentence(runtimes));
}
