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
	uint64_t low, high; /* address range of all mappings */
	uint64_t bias;      /* is added to addresses in the file */
	uint64_t entry;
	uint64_t headers; /* address of the program headers in memory */
	uint16_t nr_headers;
	uint64_t code_low, code_high;
	char loader[PATH_MAX]; /* path in PT_INTERP; empty if there is none */
};

/*
 * Map a program. hint: the address for position-independent files.
 * Return: NULL on success; otherwise the cause of the failure, after which parts of the
 * program may be mapped.
 */
const char *uaio_trap_image_map(const char *path, uint64_t hint,
				struct uaio_trap_image *ret_image);

/*
 * Check an open file like uaio_trap_image_map(), as far as possible without mapping the
 * file. Context: async-signal-safe.
 */
const char *uaio_trap_image_check(int fd);

#endif /* UAIO_TRAP_IMAGE_H */
