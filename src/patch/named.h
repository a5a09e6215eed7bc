/* SPDX-License-Identifier: MIT */
/*
 * The addresses of code that an object names
 *
 * These are its exported functions, its entry point, its first and last functions; and
 * the pointers that the loader fills in, which may be those of data. The object may be
 * relocated, or not yet.
 *
 * Tested by test-patch.c.
 */
#ifndef UAIO_PATCH_NAMED_H
#define UAIO_PATCH_NAMED_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Call see() for each address, perhaps more than once; is_code: an instruction starts
 * there for certain.
 */
void uaio_see_named(const struct dl_phdr_info *object,
		    void (*see)(void *arg, uintptr_t addr, bool is_code),
		    void *arg);

#endif /* UAIO_PATCH_NAMED_H */
