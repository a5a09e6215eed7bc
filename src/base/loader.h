/* SPDX-License-Identifier: MIT */
/*
 * The program interpreter (loader) that an ELF file names, such as ld-linux.so
 *
 * Context: async-signal-safe.
 *
 * Tested by test/run/targets.py and test/run/lost.py.
 */
#ifndef UAIO_BASE_LOADER_H
#define UAIO_BASE_LOADER_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool uaio_has_prefix(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* Return: the part of a path after its last slash. */
static inline const char *uaio_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Return: whether an ELF file has the caller's class (32 or 64 bits);
 * uaio_elf_is_ours(): and is also for the caller's processor. If not, the program
 * cannot load the library.
 */
bool uaio_elf_has_our_class(const ElfW(Ehdr) * elf);
bool uaio_elf_is_ours(const ElfW(Ehdr) * elf);

/*
 * Read the path of the program interpreter. elf: the header of the open file fd, which
 * has the caller's class and processor.
 * Return: 0 with the path in loader; -ENOENT if the program is static; -ENOEXEC if the
 * file is malformed or the path does not fit.
 */
int uaio_loader_read(int fd, const ElfW(Ehdr) * elf, char *loader, size_t room);

#endif /* UAIO_BASE_LOADER_H */
