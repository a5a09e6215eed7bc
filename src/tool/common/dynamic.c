/* SPDX-License-Identifier: MIT */
/*
 * Finds the dynamic build of the command, if the command itself is static. Tested by
 * test/anywhere/release.py.
 */
#include "tool/common/library.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/loader.h"

/*
 * Static programs have no loader, so the kernel passes them no AT_BASE, the loader's
 * address.
 */
bool uaio_is_static(void)
{
	return !getauxval(AT_BASE);
}

static bool has_loader(const char *path, char ret_loader[PATH_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ElfW(Ehdr) elf;
	bool has;

	if (fd < 0)
		return false;
	has = read(fd, &elf, sizeof(elf)) == sizeof(elf) &&
	      !memcmp(elf.e_ident, ELFMAG, SELFMAG) && uaio_elf_is_ours(&elf) &&
	      uaio_loader_read(fd, &elf, ret_loader, PATH_MAX) == 0 &&
	      access(ret_loader, X_OK) == 0;
	(void)close(fd);
	return has;
}

bool uaio_dynamic_find(char ret_path[PATH_MAX], char ret_loader[PATH_MAX])
{
	static const char *const names[] = {
		"uaio-dynamic",
		"musl/uaio-dynamic",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (uaio_library_find_program(names[i], ret_path) &&
		    has_loader(ret_path, ret_loader))
			return true;
	return false;
}

bool uaio_dynamic_own(char ret_path[PATH_MAX])
{
	char loader[PATH_MAX];
	const char *execfn;

	if (uaio_is_static())
		return uaio_dynamic_find(ret_path, loader);
	strcpy(ret_path, "/proc/self/exe");
	if (access(ret_path, F_OK) == 0)
		return true;
	/* There is no /proc: use the path by which this process was executed. */
	execfn = (const char *)getauxval(AT_EXECFN);
	return execfn && realpath(execfn, ret_path);
}
