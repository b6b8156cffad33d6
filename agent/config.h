/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The config file: one YAML mapping of keys to values or lists of them
 */

#include <stdbool.h>

#include "agent/base/diagnosis-visitor.h"
#include "agent/base/error.h"

#define CONFIG_PATH "/etc/inplaced/config.yaml"

/* Takes a value, or each value of a list. Fails with the reason if it is invalid. */
typedef int (*ConfigValue)(const char *key, const char *value, void *userdata, Error *reterr);

/* path NULL: CONFIG_PATH, which may be missing. Refuses a list for a key unless takes_list() allows
 * it. Reports each problem to the visitor, with the path as subject, and uses the rest. */
int config_read(const char *path, bool (*takes_list)(const char *key), ConfigValue on_value,
                void *userdata, const DiagnosisVisitor *visitor);
