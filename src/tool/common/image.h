/* SPDX-License-Identifier: MIT */
/*
 * ELF files of programs and libraries: mapped for reading, not for execution
 *
 * The segments lie as the loader would place them, so that functions for loaded objects
 * (patch/find.h) can examine them. Nothing of the file is executed. A damaged file is
 * never read out of bounds. But if another process truncates the file meanwhile, SIGBUS
 * kills this process.
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
	/* its program headers are a copy in the image */
	struct dl_phdr_info object;
	size_t bytes; /* size of the image, from object.dlpi_addr on */
	/* the lowest address in the file, rounded down to a page */
	ElfW(Addr) start;
	char *memory;              /* owns; where `start` is mapped */
	const ElfW(Dyn) * dynamic; /* the dynamic section, or NULL */
	size_t nr_dynamic;
};

/*
 * Open an ELF file. Return: 0 or -errno; -ENOEXEC if it is damaged, or not an ELF file
 * of the tool's class and machine.
 */
int uaio_image_open(const char *path, struct uaio_image *ret_image);
void uaio_image_close(struct uaio_image *image);

/* Call see() for each function and variable that the file imports. */
void uaio_image_imports(const struct uaio_image *image,
			void (*see)(void *arg, const char *name), void *arg);

/* Return: whether the file needs a library of that name. */
bool uaio_image_needs(const struct uaio_image *image, const char *library);

/* needed.c */

/*
 * Call see() for each library that a program needs: its name, and its path or NULL if
 * the library is not found. Return: 0, or -errno if the libraries cannot be listed.
 */
int uaio_needed_list(const char *program,
		     void (*see)(void *arg, const char *name, const char *path),
		     void *arg);

/* interfaces.c: the asynchronous interfaces that a program's files show */

enum uaio_use {
	UAIO_USE_LIBAIO,    /* functions of libaio */
	UAIO_USE_LIBURING,  /* functions of liburing */
	UAIO_USE_SITES,     /* instructions that make io_uring calls */
	UAIO_USE_AIO_SITES, /* instructions that make kernel AIO calls */
	UAIO_USE_POSIX,     /* aio_read() and similar functions */
	/* The uses from here on are no evidence of an asynchronous interface: */
	UAIO_USE_SYSCALL,   /* calls of syscall(2) with unknown numbers */
	UAIO_USE_DLOPEN,    /* libraries loaded at run time */
	UAIO_USE_SANITIZER, /* a sanitizer's runtime */
	UAIO_NR_USES,
};

enum { UAIO_USERS_MAX = 256 };

struct uaio_uses {
	/* For each use the names of the files that show it; empty: none. */
	char users[UAIO_NR_USES][UAIO_USERS_MAX];
	/*
	 * sites that are patched when the program is loaded; sites that are not patched
	 */
	unsigned nr_sites, nr_sites_left;
	unsigned nr_aio_sites; /* sites that are never patched */
	/* the program makes system calls with unknown numbers */
	bool may_call_any;
	char missing
		[UAIO_USERS_MAX]; /* names of libraries that are not found */
};

/*
 * Read a program's file. can_be_loaded: also read the libraries that it needs.
 *
 * Return: 0, or -errno if the file cannot be read or is not an ELF file of this
 * machine.
 */
int uaio_uses_read(const char *path, bool can_be_loaded,
		   struct uaio_uses *ret_uses);

/* Return: whether the files show that the program uses an asynchronous interface. */
bool uaio_uses_show_any(const struct uaio_uses *uses);

/*
 * Return: whether the program needs the trap. It does if its files show calls that only
 * the trap serves. It also does if the files show no asynchronous interface, but system
 * calls with unknown numbers.
 */
bool uaio_uses_want_trap(const struct uaio_uses *uses);

#endif /* UAIO_TOOL_COMMON_IMAGE_H */
