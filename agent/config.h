/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The config file: one YAML mapping of keys to values or lists of them
 */

#include <stdbool.h>

#include "agent/base/diagnosis-visitor.h"
#include "agent/base/error.h"

#define CONFIG_PATH "/etc/inplaced/config.yaml"

/* One value, or each one of a list. A refusal says what is wrong with it. */
typedef int (*ConfigValue)(const char *key, const char *value, void *userdata, Error *reterr);

/* path NULL: CONFIG_PATH, which may be missing. A list is refused for another key than those that
 * takes_list() says may have one. Each thing that is wrong is reported to on_problem, whose subject is
 * the path; the rest is used. */
int config_read(const char *path, bool (*takes_list)(const char *key), ConfigValue on_value,
                void *userdata, const DiagnosisVisitor *visitor);
