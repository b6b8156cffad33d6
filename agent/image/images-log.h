/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One line in the log for each image that was pulled or could not be
 */

#include "agent/base/log.h"
#include "agent/image/image.h"

void images_log_outcome(Log *log, const Image *image, const ImageStatus *status);
