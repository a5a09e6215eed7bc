/* SPDX-License-Identifier: MIT */
/*
 * Mapping a program's file as the kernel does when it executes it
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_IMAGE_H
#define UAIO_TRAP_IMAGE_H

#include <limits.h>
#include <stdint.h>

struct uaio_trap_image {
	uint64_t low, high; /* all that is mapped */
	uint64_t bias;      /* what addresses in the file are added to */
	uint64_t entry;
	uint64_t headers; /* where the program headers are in memory */
	uint16_t nr_headers;
	uint64_t code_low, code_high;
	char loader[PATH_MAX]; /* PT_INTERP; empty if there is none */
};

/*
 * hint: where it is mapped, if it may be anywhere.
 * Return: NULL, or why it cannot be mapped; then parts of it may be.
 */
const char *uaio_trap_image_map(const char *path, uint64_t hint,
				struct uaio_trap_image *ret_image);

/*
 * What of that can be known of an open file beforehand. Nothing is mapped.
 * Context: async-signal-safe.
 */
const char *uaio_trap_image_check(int fd);

#endif /* UAIO_TRAP_IMAGE_H */
