/* SPDX-License-Identifier: MIT */
/*
 * The ELF file of a program or a library: mapped to be read and not to be run, and what
 * it shows
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

/* image.c */

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

/*
 * interfaces.c: which asynchronous interfaces a program and its libraries use, as far as
 * their files show
 */

enum uaio_use {
	UAIO_USE_LIBAIO,    /* functions of libaio */
	UAIO_USE_LIBURING,  /* functions of liburing */
	UAIO_USE_SITES,     /* instructions that call io_uring */
	UAIO_USE_AIO_SITES, /* instructions that call kernel AIO */
	UAIO_USE_POSIX,     /* aio_read and its like */
	/* What by itself shows no asynchronous interface: */
	UAIO_USE_SYSCALL,   /* syscall(2), with numbers that are not known */
	UAIO_USE_DLOPEN,    /* libraries that are loaded later */
	UAIO_USE_SANITIZER, /* the runtime of a sanitizer */
	UAIO_NR_USES,
};

enum { UAIO_USERS_MAX = 256 };

struct uaio_uses {
	/* Names of the files with each use, in one text; empty: none. */
	char users[UAIO_NR_USES][UAIO_USERS_MAX];
	unsigned nr_sites, nr_sites_left; /* changed when loaded; not changed */
	unsigned nr_aio_sites;            /* never changed */
	bool may_call_any; /* the program has system calls of unknown number */
	char missing
		[UAIO_USERS_MAX]; /* names of libraries that are not found */
};

/*
 * Read the file of a program. can_be_loaded: also read the libraries that it needs.
 *
 * Return: 0, or -errno if the file cannot be read or is no ELF file of this processor.
 */
int uaio_uses_read(const char *path, bool can_be_loaded,
		   struct uaio_uses *ret_uses);

/* Return: whether the files show that the program uses an asynchronous interface. */
bool uaio_uses_show_any(const struct uaio_uses *uses);

/*
 * Return: whether the program needs the trap: the files show calls that only the trap
 * serves; or they show no interface, and system calls whose number is not known.
 */
bool uaio_uses_want_trap(const struct uaio_uses *uses);

#endif /* UAIO_TOOL_COMMON_IMAGE_H */
