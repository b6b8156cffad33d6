/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The config file: one YAML mapping of keys to values or lists of them
 */

#include "agent/base/error.h"

#define CONFIG_PATH "/etc/inplaced/config.yaml"

/* One value, or each one of a list. A refusal says what is wrong with it. */
typedef int (*ConfigValue)(const char *key, const char *value, void *userdata, Error *reterr);

/* path NULL: CONFIG_PATH, which may be missing. */
int config_read(const char *path, ConfigValue on_value, void *userdata, Error *reterr);
