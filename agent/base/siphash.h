/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SipHash-2-4, a keyed hash of 64 bits (https://www.aumasson.jp/siphash/)
 *
 * Without the key, a hash says nothing about the bytes, not even to a program that tries all values that are likely.
 */

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY_SIZE 16

uint64_t siphash(const uint8_t key[static SIPHASH_KEY_SIZE], const void *data, size_t size);
