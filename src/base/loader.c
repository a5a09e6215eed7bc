/* SPDX-License-Identifier: MIT */
#include "base/loader.h"

#include <elf.h>
#include <errno.h>

#include "base/sys.h"

/* The ELF header of this library; the linker defines this symbol. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

bool uaio_elf_has_our_class(const ElfW(Ehdr) * elf)
{
	return elf->e_ident[EI_CLASS] == __ehdr_start.e_ident[EI_CLASS];
}

bool uaio_elf_is_ours(const ElfW(Ehdr) * elf)
{
	return uaio_elf_has_our_class(elf) &&
	       elf->e_ident[EI_DATA] == __ehdr_start.e_ident[EI_DATA] &&
	       elf->e_machine == __ehdr_start.e_machine;
}

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
