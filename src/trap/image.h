/* SPDX-License-Identifier: MIT */
/*
 * Maps the file of a program like the kernel's execve()
 *
 * Tested by test/trap.
 */
#ifndef UAIO_TRAP_IMAGE_H
#define UAIO_TRAP_IMAGE_H

#include <limits.h>
#include <stdint.h>

struct uaio_trap_image {
	/* the range of addresses of all mappings */
	uint64_t low, high;
	/* an address in memory minus the address that the file gives for it */
	uint64_t bias;
	uint64_t entry;
	/* where the program headers are in memory */
	uint64_t headers;
	uint16_t nr_headers;
	uint64_t code_low, code_high;
	/* the loader's path from PT_INTERP; empty if there is none */
	char loader[PATH_MAX];
};

/*
 * Map a program. hint: the address to try for a position-independent file.
 * Return: NULL on success; otherwise the cause of the failure. Parts of the program may
 * then be mapped.
 */
const char *uaio_trap_image_map(const char *path, uint64_t hint,
				struct uaio_trap_image *ret_image);

/*
 * Check the open file fd like uaio_trap_image_map(), but map nothing.
 * Return: NULL if the checks succeed; otherwise the cause.
 * Context: async-signal-safe.
 */
const char *uaio_trap_image_check(int fd);

#endif /* UAIO_TRAP_IMAGE_H */
