/* SPDX-License-Identifier: MIT */
/*
 * Which system calls syscall(2) leaves to uaio_host_syscall()
 */
#ifndef UAIO_HOST_NUMBERS_H
#define UAIO_HOST_NUMBERS_H

#include <stdint.h>

enum { UAIO_HOST_NUMBERS = 512 };

/* 1 for each of those, read by syscall.S; higher numbers are none of them. */
extern const uint8_t uaio_host_numbers[UAIO_HOST_NUMBERS]
	__attribute__((visibility("hidden")));

#endif /* UAIO_HOST_NUMBERS_H */
