/* SPDX-License-Identifier: MIT */
/*
 * The loader that a program names
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

/* Return: what stands behind the last slash of a path. */
static inline const char *uaio_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Return: whether a program is of the class that the caller is of; and whether it is
 * for the same processor: if not, it cannot load the library.
 */
bool uaio_elf_has_our_class(const ElfW(Ehdr) * elf);
bool uaio_elf_is_ours(const ElfW(Ehdr) * elf);

/*
 * elf: the header of the open file, of our own class and processor.
 * Return: 0 with a path in @loader; -ENOENT if the program is static; -ENOEXEC if the
 * file is malformed or the path has no room.
 */
int uaio_loader_read(int fd, const ElfW(Ehdr) * elf, char *loader, size_t room);

#endif /* UAIO_BASE_LOADER_H */
