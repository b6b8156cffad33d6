/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files that say what the agent does, or hold what it is trusted with
 *
 * They are read whatever their owner and mode are: that other users may write or read them is for the
 * administrator to decide. But it is said: in a line at the start and at a reload, and by the doctor; so
 * is that a sandbox hides them.
 * What is in them can be checked without an agent.
 */

#include <sys/types.h>

#include "agent/auth/docker-config.h"
#include "agent/base/diagnosis-visitor.h"
#include "agent/base/log.h"
#include "agent/options.h"

typedef struct AgentFiles AgentFiles;

/* Everything is copied. */
int agent_files_new(const Options *options, const DockerConfig *docker, AgentFiles **ret);
AgentFiles *agent_files_free(AgentFiles *files);

int agent_files_log(const AgentFiles *files, Log *log);
DiagnosisSource agent_files_diagnosis(const AgentFiles *files);

/* Names the source of the access to the API server, or of its refusal: an option, or the account of the pod. */
const char *agent_files_access(const Options *options);

/* The group with this name or number; (gid_t) -1: there is none, or the name is empty. May block. */
gid_t agent_files_find_group(const char *name);

/* Reports that there is no such group, and what follows from that. */
int agent_files_report_group(const char *option, const char *name, const DiagnosisVisitor *visitor);

/* What of the configuration on disk keeps a running agent from starting again, or what it starts without.
 * argv is that of main(). */
int agent_files_check_start(char **argv, const Options *running, const DiagnosisVisitor *visitor);

/* Reads the files as the agent does, with the same code: those that the options name, then the documents
 * and the credentials. Reports what is wrong in them. Contacts nothing and writes nothing. */
int agent_files_check(const Options *options, const DiagnosisVisitor *visitor);
