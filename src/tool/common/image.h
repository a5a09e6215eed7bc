/* SPDX-License-Identifier: MIT */
/*
 * Opens ELF files of programs and libraries for reading; nothing in the files is
 * executed
 *
 * The segments lie in memory as the loader would place them, so that the functions for
 * loaded objects (patch/find.h) can examine them. A damaged file is never read out of
 * bounds. But if another process truncates the file while it is open, SIGBUS kills this
 * process.
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
	/*
	 * describes the image as dl_iterate_phdr() would describe the loaded file; its
	 * program headers are a copy
	 */
	struct dl_phdr_info object;
	size_t bytes; /* size of the image, from `memory` on */
	/* lowest address of the file's segments, rounded down to a page */
	ElfW(Addr) start;
	/* owned by this struct: the image, which begins with address `start` */
	char *memory;
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

/* Return: whether the file needs a library of that name (DT_NEEDED). */
bool uaio_image_needs(const struct uaio_image *image, const char *library);

/* needed.c */

/*
 * Call see() for each library that the loader would load with a program. path: NULL if
 * the library is not found.
 * Return: 0, or -errno if the libraries cannot be listed.
 */
int uaio_needed_list(const char *program,
		     void (*see)(void *arg, const char *name, const char *path),
		     void *arg);

/* interfaces.c: finds the asynchronous interfaces that a program's files use */

enum uaio_use {
	UAIO_USE_LIBAIO,    /* functions of libaio */
	UAIO_USE_LIBURING,  /* functions of liburing */
	UAIO_USE_SITES,     /* instructions that make io_uring calls */
	UAIO_USE_AIO_SITES, /* instructions that make kernel AIO calls */
	UAIO_USE_POSIX,     /* functions such as aio_read() */
	/*
	 * The remaining values are only hints: such a program may use no asynchronous
	 * interface.
	 */
	/* calls of syscall(2), which may make any system call */
	UAIO_USE_SYSCALL,
	UAIO_USE_DLOPEN,    /* dlopen(), which may load any library */
	UAIO_USE_SANITIZER, /* a sanitizer's runtime */
	UAIO_NR_USES,
};

enum { UAIO_USERS_MAX = 256 };

struct uaio_uses {
	/*
	 * For each value of enum uaio_use, the names of the files that use it; empty:
	 * none.
	 */
	char users[UAIO_NR_USES][UAIO_USERS_MAX];
	/*
	 * instructions that call io_uring: those that the library patches when the
	 * program is loaded, and those that it cannot patch
	 */
	unsigned nr_sites, nr_sites_left;
	/* instructions that call kernel AIO, which are never patched */
	unsigned nr_aio_sites;
	/* the program has system calls whose numbers its code does not show */
	bool may_call_any;
	char missing
		/* names of needed libraries that are missing */
		[UAIO_USERS_MAX];
};

/*
 * Find which interfaces (enum uaio_use) the program's file uses. can_be_loaded: the
 * library can be loaded into the program. Then also examine the libraries that the
 * program needs.
 *
 * Return: 0, or -errno if the file cannot be read or is not an ELF file of this
 * machine.
 */
int uaio_uses_read(const char *path, bool can_be_loaded,
		   struct uaio_uses *ret_uses);

/* Return: whether any file uses an asynchronous interface. */
bool uaio_uses_show_any(const struct uaio_uses *uses);

/*
 * Return: whether the program needs the trap (uaio run --trap), which catches system
 * calls. True if the files have system call instructions that only the trap can serve.
 * Also true if the files use no asynchronous interface, but the program has system
 * calls with unknown numbers.
 */
bool uaio_uses_want_trap(const struct uaio_uses *uses);

#endif /* UAIO_TOOL_COMMON_IMAGE_H */
