/* SPDX-License-Identifier: MIT */
#include "tool/common/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <paths.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/loader.h"
#include "tool/common/library.h"
#include "tool/tool.h"

/*
 * Limits of the kernel: how many bytes of a script it reads to find the #! line
 * (BINPRM_BUF_SIZE), and how deep scripts may be nested (exec_binprm()).
 */
enum {
	HEAD_BYTES = 256,
	MAX_SCRIPTS = 5,
};

enum { NEEDS_TRAP = -1 };

#if defined(__x86_64__)
#define OR_TRAP ", or uaio run --trap"
#else
#define OR_TRAP
#endif

/* The first bytes of a file, which show its format. */
struct head {
	size_t len;
	union {
		char text[HEAD_BYTES + 1]; /* NUL-terminated */
		ElfW(Ehdr) elf;
	};
};

/*
 * Return: whether the path is that of musl's loader. Any other loader is probably
 * glibc's, even at an unusual path.
 */
static bool is_musls(const char *path)
{
	return uaio_has_prefix(uaio_base_name(path), "ld-musl-");
}

static bool is_androids(const char *path)
{
	const char *name = uaio_base_name(path);

	return !strcmp(name, "linker") || !strcmp(name, "linker64");
}

/*
 * Return: whether is_kind() is true for the loader's path, or for this path with its
 * symbolic links resolved.
 */
static bool is_of(const char *loader, bool (*is_kind)(const char *path))
{
	char real[PATH_MAX];

	return is_kind(loader) || (realpath(loader, real) && is_kind(real));
}

/*
 * Called for a program without a loader (PT_INTERP). Accept the program if it is itself
 * a loader, such as ld-linux. Other such programs are static: refuse them, or use the
 * trap if `when` allows.
 */
static int check_static(const char *who, const char *path,
			enum uaio_trap_when when)
{
	char real[PATH_MAX];

	if (is_of(path, is_musls) ||
	    (realpath(path, real) &&
	     uaio_has_prefix(uaio_base_name(real), "ld-linux")))
		return 0;
	if (when)
		return NEEDS_TRAP;
	return uaio_diag(EXIT_REFUSED,
			 "%s is statically linked, so that no library can "
			 "be put in front of it: use a dynamic build of "
			 "it" OR_TRAP,
			 who);
}

static int diag_other_library(const char *who, const char *loader,
			      const char *wanted)
{
	return uaio_diag(EXIT_REFUSED,
			 "%s is built for another C library (its loader is "
			 "%s): use a build for %s",
			 who, loader, wanted);
}

/*
 * Check a program by its loader. A program for musl is accepted, because the library's
 * build for glibc also serves it (base/libc.h).
 */
static int check_loader(const char *who, const char *loader,
			enum uaio_trap_when when)
{
	bool is_for_musl = is_of(loader, is_musls);

	if (is_of(loader, is_androids))
		return diag_other_library(who, loader, "glibc or musl");
	if (is_for_musl && when)
		return NEEDS_TRAP;
	if (!is_for_musl && uaio_library_is_for_musl())
		return diag_other_library(who, loader, "musl");
	if (access(loader, F_OK) < 0)
		return uaio_diag(EXIT_NOT_FOUND, "%s: its loader %s: %s", who,
				 loader, strerror(errno));
	return when == UAIO_TRAP_ALWAYS ? NEEDS_TRAP : 0;
}

/*
 * In every ELF header the class, byte order and machine are at the same offsets. The
 * layout of the other members depends on these three, so compare them first.
 */
static int check_elf(const char *who, const char *path, int fd,
		     const ElfW(Ehdr) * elf, enum uaio_trap_when when)
{
	char loader[PATH_MAX];

	/*
	 * The program must have the ELF class of the tool, which is also the library's
	 * class.
	 */
	if (!uaio_elf_has_our_class(elf))
		return uaio_diag(EXIT_REFUSED,
				 "%s is not a %d-bit program as the "
				 "library is: use a %d-bit build of it",
				 who, (int)(8 * sizeof(long)),
				 (int)(8 * sizeof(long)));
	if (!uaio_elf_is_ours(elf))
		return uaio_diag(EXIT_REFUSED,
				 "%s is for another processor than the "
				 "library: use a build for this one",
				 who);

	switch (uaio_loader_read(fd, elf, loader, sizeof(loader))) {
	case 0: return check_loader(who, loader, when);
	case -ENOENT: return check_static(who, path, when);
	/* The file is damaged: execve() will fail and report this. */
	default: return 0;
	}
}

static int check_secure(const char *who, const char *path)
{
	const struct uaio_secure *secure = uaio_secure_if_executed(path);

	if (!secure)
		return 0;
	return uaio_diag(EXIT_REFUSED,
			 "%s %s, so that its loader ignores LD_PRELOAD: %s",
			 who, secure->reason, secure->advice);
}

static void read_head(int fd, struct head *head)
{
	ssize_t len = pread(fd, head->text, HEAD_BYTES, 0);

	head->len = len > 0 ? (size_t)len : 0;
	memset(head->text + head->len, 0, sizeof(head->text) - head->len);
}

static bool is_elf(const struct head *head)
{
	return head->len >= sizeof(head->elf) &&
	       !memcmp(head->text, ELFMAG, SELFMAG);
}

/*
 * Find the interpreter of a file that is not ELF: the program on the file's #! line. If
 * the file has no such line, or the line names none, the interpreter is the shell, as in
 * execvp().
 */
static const char *interpreter_of(struct head *head, char word[PATH_MAX])
{
	char *name, *end, *rest;

	word[0] = '\0';
	if (!uaio_has_prefix(head->text, "#!"))
		return _PATH_BSHELL;
	name = head->text + 2 + strspn(head->text + 2, " \t");
	name[strcspn(name, "\n")] = '\0';
	end = name + strcspn(name, " \t");
	rest = end + strspn(end, " \t");
	for (size_t len = strlen(rest); len && strchr(" \t", rest[len - 1]);)
		rest[--len] = '\0';
	strcpy(word, rest);
	*end = '\0';
	return *name ? name : _PATH_BSHELL;
}

/*
 * Check one file.
 * Return: 0; NEEDS_TRAP; -ENOEXEC if the file is a script; or the exit status after a
 * message.
 */
static int check_file(const char *who, const char *path, struct head *head,
		      enum uaio_trap_when when)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0) /* not readable, but maybe executable */
		return check_secure(who, path);
	read_head(fd, head);
	r = -ENOEXEC;
	if (is_elf(head)) {
		r = check_secure(who, path);
		if (!r)
			r = check_elf(who, path, fd, &head->elf, when);
	}
	close(fd);
	return r;
}

/*
 * With --trap, uaio and not the kernel starts the program. For a script, uaio can start
 * the interpreter only if that is no script itself.
 */
static int check_depth(const char *who, int nr_scripts)
{
	if (nr_scripts <= 1)
		return 0;
	return uaio_diag(EXIT_REFUSED,
			 "%s: --trap does not follow a script that another "
			 "script interprets",
			 who);
}

int uaio_target_check(const char *path, enum uaio_trap_when when,
		      struct uaio_target *ret_target)
{
	char *file = ret_target->file, who[2 * PATH_MAX + 32];
	struct head head;
	int r;

	memset(ret_target, 0, sizeof(*ret_target));
	snprintf(file, PATH_MAX, "%s", path);
	snprintf(who, sizeof(who), "%s", path);
	for (int i = 0; i <= MAX_SCRIPTS; i++) {
		ret_target->nr_scripts = i;
		r = check_file(who, file, &head, when);
		if (r == NEEDS_TRAP) {
			ret_target->needs_trap = true;
			return check_depth(who, i);
		}
		if (r != -ENOEXEC)
			return r;

		snprintf(file, PATH_MAX, "%s",
			 interpreter_of(&head, ret_target->word));
		snprintf(who, sizeof(who), "%s (which interprets %s)", file,
			 path);
		r = uaio_search_probe(file);
		if (r < 0)
			return uaio_search_diag(who, r);
	}
	/*
	 * Scripts are nested deeper than the kernel allows: execve() will report this.
	 */
	return 0;
}

void uaio_target_program(const char *path, char ret_file[PATH_MAX])
{
	char word[PATH_MAX];
	struct head head;

	snprintf(ret_file, PATH_MAX, "%s", path);
	for (int i = 0; i <= MAX_SCRIPTS; i++) {
		int fd = open(ret_file, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			return;
		read_head(fd, &head);
		close(fd);
		if (is_elf(&head))
			return;
		snprintf(ret_file, PATH_MAX, "%s", interpreter_of(&head, word));
	}
}
