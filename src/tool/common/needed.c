/* SPDX-License-Identifier: MIT */
/*
 * Lists the libraries with which a program would be loaded
 *
 * The loader lists the libraries, and does not run the program. For a musl program, the
 * loader is the musl loader in /lib; otherwise it is the tool's own loader. If the tool
 * is static, it has no loader, and uses the loader of its dynamic build.
 *
 * Tested by test/run/doctor_programs.py.
 */
#include "tool/common/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loader.h"
#include "tool/common/library.h"

enum { LINE_MAX_BYTES = 2 * PATH_MAX };

/*
 * Return: the loader of this command or, if the command is static, of its dynamic
 * build; NULL if there is none.
 */
static const char *own_loader(char dynamics[PATH_MAX])
{
	char dynamic[PATH_MAX];
	const ElfW(Phdr) *headers = (const void *)getauxval(AT_PHDR);
	unsigned long nr = getauxval(AT_PHNUM);
	uintptr_t base = 0, interpreter = 0;

	for (unsigned long i = 0; headers && i < nr; i++) {
		if (headers[i].p_type == PT_PHDR)
			base = (uintptr_t)headers - headers[i].p_vaddr;
		if (headers[i].p_type == PT_INTERP)
			interpreter = headers[i].p_vaddr;
	}
	if (interpreter)
		return (const char *)(base + interpreter);
	return uaio_dynamic_find(dynamic, dynamics) ? dynamics : NULL;
}

/*
 * Choose the loader that lists the program's libraries: the program's own loader if
 * that is musl's in /lib, else own_loader().
 * Return: the loader, or NULL.
 */
static const char *loader_of(const char *program, char own[PATH_MAX])
{
	int fd = open(program, O_RDONLY | O_CLOEXEC);
	ElfW(Ehdr) elf;
	bool is_musls;

	if (fd < 0)
		return own_loader(own);
	is_musls = pread(fd, &elf, sizeof(elf), 0) == sizeof(elf) &&
		   uaio_elf_is_ours(&elf) &&
		   uaio_loader_read(fd, &elf, own, PATH_MAX) == 0 &&
		   uaio_has_prefix(own, "/lib/ld-musl-") &&
		   !strchr(own + strlen("/lib/"), '/');
	(void)close(fd);
	return is_musls ? own : own_loader(own);
}

/* Execute the loader, in a child process. */
static void list(const char *loader, const char *program, int out)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)dup2(out, STDOUT_FILENO);
	(void)dup2(null, STDERR_FILENO);
	(void)unsetenv("LD_PRELOAD");
	/* with LD_AUDIT the loader would run code of other libraries */
	(void)unsetenv("LD_AUDIT");
	/*
	 * LD_TRACE_LOADED_OBJECTS, which ldd(1) sets too, makes the loader list the
	 * libraries and not run the program.
	 */
	(void)setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
	if (!uaio_has_prefix(uaio_base_name(loader), "ld-musl-"))
		execl(loader, loader, program, NULL);
	else
		execl(loader, loader, "--list", program, NULL);
	_exit(127);
}

/*
 * Parse a line of the loader's list, and call see() with the library's name and path.
 * The line is "NAME => PATH (ADDRESS)", "NAME => not found" or "PATH (ADDRESS)".
 */
static void see_line(char *line,
		     void (*see)(void *arg, const char *name, const char *path),
		     void *arg)
{
	char *name = line + strspn(line, " \t");
	char *path = strstr(name, " => "), *end;

	name[strcspn(name, "\n")] = '\0';
	end = strstr(name, " (0x");
	if (end)
		*end = '\0';
	if (path) {
		*path = '\0';
		path += strlen(" => ");
		see(arg, name, strcmp(path, "not found") ? path : NULL);
	} else if (*name ==
		   '/') { /* the vDSO, which has no path, is left out */
		see(arg, strrchr(name, '/') + 1, name);
	}
}

int uaio_needed_list(const char *program,
		     void (*see)(void *arg, const char *name, const char *path),
		     void *arg)
{
	char its_own[PATH_MAX];
	const char *loader = loader_of(program, its_own);
	char line[LINE_MAX_BYTES];
	int ends[2];
	FILE *from;
	pid_t pid;

	if (!loader)
		return -ENOENT;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		list(loader, program, ends[1]);
	(void)close(ends[1]);
	from = pid < 0 ? NULL : fdopen(ends[0], "r");
	while (from && fgets(line, sizeof(line), from))
		see_line(line, see, arg);
	if (from)
		(void)fclose(from);
	else
		(void)close(ends[0]);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	return pid < 0 ? -EAGAIN : 0;
}
