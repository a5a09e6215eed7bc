/* SPDX-License-Identifier: MIT */
/*
 * A program or a library, mapped to be read and not to be run
 *
 * Its segments lie as the loader would place them, so that what looks at loaded
 * objects (patch/find.h) can look at it. Nothing of it is executed, and whatever is
 * in the file, nothing outside of it is read; but who cuts the file meanwhile ends us by
 * SIGBUS.
 *
 * Tested by test/run/doctor_programs.py.
 */
#ifndef UAIO_TOOL_COMMON_IMAGE_H
#define UAIO_TOOL_COMMON_IMAGE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

struct uaio_image {
	struct dl_phdr_info object; /* its headers lie in the image */
	size_t bytes;               /* from object.dlpi_addr on */
	ElfW(Addr) start;           /* the lowest address in the file */
	char *memory;               /* owns; where that address is */
	const ElfW(Dyn) * dynamic;  /* or NULL */
	size_t nr_dynamic;
};

/*
 * Return: 0, or -errno; -ENOEXEC if it is not an ELF file of the tool's own class
 * and processor, or is damaged.
 */
int uaio_image_open(const char *path, struct uaio_image *ret_image);
void uaio_image_close(struct uaio_image *image);

/* Call see() for the name of each function and variable that it imports. */
void uaio_image_imports(const struct uaio_image *image,
			void (*see)(void *arg, const char *name), void *arg);

/* Return: whether it needs a library of that name. */
bool uaio_image_needs(const struct uaio_image *image, const char *library);

/* needed.c */

/*
 * Call see() for each library: its name, and the path where it is, or NULL if it is
 * not found.
 * Return: 0, or -errno if there is no list.
 */
int uaio_needed_list(const char *program,
		     void (*see)(void *arg, const char *name, const char *path),
		     void *arg);

#endif /* UAIO_TOOL_COMMON_IMAGE_H */
