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

/* The values that a key takes. */
typedef struct ConfigKeys {
        bool (*takes_list)(const char *key);
        bool (*takes_text)(const char *key); /* alone: YAML makes 15 of 0017, true of yes */
} ConfigKeys;

/* path NULL: CONFIG_PATH, which may be missing. Refuses values that the keys do not take. Reports each
 * problem to the visitor, with the path as subject, and uses the rest. */
int config_read(const char *path, const ConfigKeys *keys, ConfigValue on_value, void *userdata,
                const DiagnosisVisitor *visitor);
