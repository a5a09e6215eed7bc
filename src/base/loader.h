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
#include <stddef.h>

/*
 * elf: the header of the open file, of our own class and processor.
 * Return: 0 with a path in @loader; -ENOENT if the program is static; -ENOEXEC if the
 * file is malformed or the path has no room.
 */
int uaio_loader_read(int fd, const ElfW(Ehdr) * elf, char *loader, size_t room);

#endif /* UAIO_BASE_LOADER_H */
