/* SPDX-License-Identifier: MIT */
/*
 * Decides which executed programs can run under the trap (exec.h)
 *
 * Context: async-signal-safe, also in a child of vfork(); only uaio_trap_fit_begin() is
 * not.
 *
 * Tested by test/trap.
 */
#include "trap/exec.h"

#if defined(__x86_64__)
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/calls.h"
#include "base/loader.h"
#include "base/sys.h"
#include "trap/image.h"

enum {
	OBJECTS_MAX = 16,
	MEMORY_MIN = 64 << 20,
	STACK_MIN = 1 << 20,
};

struct object {
	const char *path;
	dev_t dev;
	ino_t ino;
};

/* Neither this struct nor its strings change once the program has begun. */
static struct {
	bool is_complete;
	unsigned nr;
	struct object objects[OBJECTS_MAX];
} loaded;

static bool is_same(const struct object *object, int fd)
{
	struct stat st;

	return sys_fstat(fd, &st) == 0 && st.st_dev == object->dev &&
	       st.st_ino == object->ino;
}

/*
 * Open the file, but not by sys_openat(), which makes no system call if a seccomp
 * filter may forbid the call (calls.h). The call here is safe, as the loader has
 * already made the same call.
 */
static int open_to_read(const char *path)
{
	return (int)uaio_sys6(SYS_openat, AT_FDCWD, (long)path,
			      O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
}

static bool note_object(const char *path)
{
	struct object *object = &loaded.objects[loaded.nr];
	struct stat st;

	if (loaded.nr == OBJECTS_MAX || sys_fstatat(AT_FDCWD, path, &st) < 0)
		return false;
	object->path = strdup(path);
	object->dev = st.st_dev;
	object->ino = st.st_ino;
	loaded.nr += object->path != NULL;
	return object->path;
}

static int note_loaded(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	bool *is_complete = arg;

	(void)bytes;
	/*
	 * Record only real files. The entry of the program itself has no name, and the
	 * vDSO is not a file.
	 */
	if (info->dlpi_name && strchr(info->dlpi_name, '/') &&
	    !note_object(info->dlpi_name))
		*is_complete = false;
	return 0;
}

void uaio_trap_fit_begin(void)
{
	loaded.is_complete = note_object("/proc/self/exe");
	(void)dl_iterate_phdr(note_loaded, &loaded.is_complete);
}

/* Checking the file of the program that is to be executed */

/*
 * Return: whether the process would, or might, gain privileges if it executed the file.
 */
static bool may_gain(int fd, const struct stat *st)
{
	static const char name[] = "security.capability";
	long ret;

	if (st->st_mode & (S_ISUID | S_ISGID))
		return true;
	ret = uaio_sys_if(UAIO_CALL_FGETXATTR, SYS_fgetxattr, fd, (long)name, 0,
			  0, 0, 0);
	return ret != -ENODATA && ret != -EOPNOTSUPP;
}

/*
 * access(2) checks the rights of the real user. So the answer is valid only if the
 * effective user is the same.
 */
static bool may_execute(const char *path)
{
	return uaio_sys6(SYS_getuid, 0, 0, 0, 0, 0, 0) ==
		       uaio_sys6(SYS_geteuid, 0, 0, 0, 0, 0, 0) &&
	       uaio_sys6(SYS_getgid, 0, 0, 0, 0, 0, 0) ==
		       uaio_sys6(SYS_getegid, 0, 0, 0, 0, 0, 0) &&
	       uaio_sys6(SYS_access, (long)path, X_OK, 0, 0, 0, 0) == 0;
}

/* Return: whether fd is one of the files from which this process was loaded. */
static bool is_known(int fd)
{
	for (unsigned i = 0; i < loaded.nr; i++)
		if (is_same(&loaded.objects[i], fd))
			return true;
	return false;
}

/*
 * Return: whether the program must run under the trap: no library can be loaded into
 * it, or all programs are to run under the trap. False if the program's loader cannot
 * be opened.
 */
static bool needs_trap(int fd, const char *path)
{
	char loader[PATH_MAX];
	ElfW(Ehdr) elf;
	int loader_fd;

	if (sys_pread(fd, &elf, sizeof(elf), 0) != sizeof(elf) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) || !uaio_elf_is_ours(&elf))
		return false;
	switch (uaio_loader_read(fd, &elf, loader, sizeof(loader))) {
	case -ENOENT: return !uaio_has_prefix(uaio_base_name(path), "ld-");
	case 0: break;
	default: return false;
	}
	if (!uaio_has_prefix(uaio_base_name(loader), "ld-musl-") &&
	    !uaio_trap_environ_wants_all())
		return false;
	loader_fd = open_to_read(loader);
	if (loader_fd >= 0)
		(void)sys_close(loader_fd);
	return loader_fd >= 0;
}

static bool is_file_for_us(const char *path)
{
	struct stat st;
	bool is_it;
	int fd;

	/*
	 * Make sure that the path leads to a regular file before opening it: opening a
	 * device, for example, may have side effects.
	 */
	if (sys_fstatat(AT_FDCWD, path, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	fd = open_to_read(path);
	if (fd < 0)
		return false;
	is_it = sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		!may_gain(fd, &st) && may_execute(path) && !is_known(fd) &&
		needs_trap(fd, path) && !uaio_trap_image_check(fd);
	(void)sys_close(fd);
	return is_it;
}

/* Checking the limits and the state of this process */

static bool has_room(int resource, uint64_t bytes)
{
	struct rlimit limit;

	return sys_getrlimit(resource, &limit) == 0 && limit.rlim_cur >= bytes;
}

static bool finds_objects(void)
{
	for (unsigned i = 0; i < loaded.nr; i++) {
		int fd = open_to_read(loaded.objects[i].path);
		bool is_it = fd >= 0 && is_same(&loaded.objects[i], fd);

		if (fd >= 0)
			(void)sys_close(fd);
		if (!is_it)
			return false;
	}
	return true;
}

/*
 * Return: whether this process could be loaded again: the resource limits leave enough
 * memory, and all files from which it was loaded are unchanged.
 */
static bool can_load(void)
{
	return has_room(RLIMIT_AS, MEMORY_MIN) &&
	       has_room(RLIMIT_DATA, MEMORY_MIN) &&
	       has_room(RLIMIT_STACK, STACK_MIN) && finds_objects();
}

bool uaio_trap_fits(const char *path)
{
	return loaded.is_complete && is_file_for_us(path) && can_load();
}
#endif
