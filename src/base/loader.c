/* SPDX-License-Identifier: MIT */
#include "base/loader.h"

#include <elf.h>
#include <errno.h>

#include "base/sys.h"

int uaio_loader_read(int fd, const ElfW(Ehdr) * elf, char *loader, size_t room)
{
	for (unsigned int i = 0; i < elf->e_phnum; i++) {
		off_t at = (off_t)(elf->e_phoff + i * sizeof(ElfW(Phdr)));
		ElfW(Phdr) segment;
		size_t len;

		if (sys_pread(fd, &segment, sizeof(segment), at) !=
		    sizeof(segment))
			return -ENOEXEC;
		if (segment.p_type != PT_INTERP)
			continue;
		len = segment.p_filesz;
		if (len < 2 || len > room ||
		    sys_pread(fd, loader, len, (off_t)segment.p_offset) !=
			    (ssize_t)len ||
		    loader[len - 1] != '\0')
			return -ENOEXEC;
		return 0;
	}
	return -ENOENT;
}
