/* SPDX-License-Identifier: MIT */
/*
 * Finds the program interpreter (loader) that an ELF file names, such as ld-linux.so
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
 * Return: whether the ELF file has the class (32 or 64 bits) of this process.
 * uaio_elf_is_ours() also requires that the file is for this processor. If either
 * function returns false, a process that executes this file cannot load the library.
 */
bool uaio_elf_has_our_class(const ElfW(Ehdr) * elf);
bool uaio_elf_is_ours(const ElfW(Ehdr) * elf);

/*
 * Read the path of the program interpreter from the open file fd. elf: the file's
 * header, for which uaio_elf_is_ours() is true.
 * Return: 0 with the path in `loader`; -ENOENT if the program is static; -ENOEXEC if the
 * file is malformed or the path is too long.
 */
int uaio_loader_read(int fd, const ElfW(Ehdr) * elf, char *loader, size_t room);

#endif /* UAIO_BASE_LOADER_H */
