/* SPDX-License-Identifier: MIT */
#include "engine/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "engine/file.h"
#include "engine/terminal.h"

static bool is_memory_fs(int fd)
{
	struct statfs fs;

	if (sys_fstatfs(fd, &fs) < 0)
		return false;
	return fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC ||
	       fs.f_type == HUGETLBFS_MAGIC;
}

void uaio_fd_path(int fd, char ret_path[UAIO_FD_PATH_BYTES])
{
	static const char folder[] = "/proc/thread-self/fd/";
	char digits[12];
	size_t at = sizeof(folder) - 1;
	int nr = 0;

	memcpy(ret_path, folder, at);
	do
		digits[nr++] = (char)('0' + fd % 10);
	while (fd /= 10);
	while (nr)
		ret_path[at++] = digits[--nr];
	ret_path[at] = '\0';
}

/*
 * Anonymous inodes have no type; the kernel has no other sign of what they are
 * than the name. Those listed can be read, all others neither read nor written
 * by AIO. Without /proc everything is let through.
 */
static uint32_t anonymous_flags(int fd)
{
	static const struct {
		const char *name;
		uint32_t flags;
	} kinds[] = {
		{ "anon_inode:[eventfd]",
		  UAIO_FILE_F_EVENTFD | UAIO_FILE_F_NO_WRITE },
		{ "anon_inode:[timerfd]", UAIO_FILE_F_NO_WRITE },
		{ "anon_inode:[signalfd]", UAIO_FILE_F_NO_WRITE },
		{ "anon_inode:", UAIO_FILE_F_NO_READ | UAIO_FILE_F_NO_WRITE },
	};
	char path[UAIO_FD_PATH_BYTES], link[64];
	int nr;

	uaio_fd_path(fd, path);
	nr = sys_readlinkat(AT_FDCWD, path, link, sizeof(link) - 1);
	if (nr < 0)
		return UAIO_FILE_F_EVENTFD;
	link[nr] = '\0';
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(link, kinds[i].name, strlen(kinds[i].name)))
			return kinds[i].flags;
	return 0;
}

static uint32_t flags_of(int open_flags)
{
	uint32_t flags = 0;
	int access = open_flags & O_ACCMODE;

	if (open_flags & O_PATH)
		return UAIO_FILE_F_PATH;
	if (access == O_RDONLY || access == O_RDWR)
		flags |= UAIO_FILE_F_READ;
	if (access == O_WRONLY || access == O_RDWR)
		flags |= UAIO_FILE_F_WRITE;
	if (open_flags & O_NONBLOCK)
		flags |= UAIO_FILE_F_NONBLOCK;
	if (open_flags & O_APPEND)
		flags |= UAIO_FILE_F_APPEND;
	if (open_flags & O_DSYNC) /* a bit of O_SYNC too */
		flags |= UAIO_FILE_F_SYNC;
	return flags;
}

static uint32_t stream_flags(int fd, mode_t mode)
{
	uint32_t flags = 0;

	if (!S_ISCHR(mode) || sys_lseek(fd, 0, SEEK_CUR) == -ESPIPE)
		flags |= UAIO_FILE_F_STREAM;
	if (S_ISSOCK(mode))
		flags |= UAIO_FILE_F_SOCKET;
	if (!(mode & S_IFMT))
		flags |= anonymous_flags(fd);
	if (S_ISCHR(mode) && uaio_terminal_is(fd))
		flags |= UAIO_FILE_F_TERMINAL;
	return flags;
}

static void identify_stream(int fd, mode_t mode, struct uaio_identity *ret_id)
{
	ret_id->kind = S_ISCHR(mode) ? UAIO_KIND_DEVICE : UAIO_KIND_STREAM;
	ret_id->flags |= stream_flags(fd, mode);
	ret_id->has_inode = false;
	ret_id->dev = ret_id->ino = 0;
}

static void identify_regular(int fd, const struct stat *st, bool is_direct,
			     struct uaio_identity *ret_id)
{
	bool is_blockdev = S_ISBLK(st->st_mode);

	ret_id->kind = is_direct ? UAIO_KIND_DIRECT : UAIO_KIND_CACHED;
	if (S_ISDIR(st->st_mode))
		ret_id->flags |= UAIO_FILE_F_NO_READ | UAIO_FILE_F_NO_WRITE;
	if (is_blockdev)
		ret_id->flags |= UAIO_FILE_F_BLOCKDEV;
	else if (is_memory_fs(fd))
		ret_id->kind = UAIO_KIND_MEMORY;
	ret_id->has_inode = true;
	ret_id->dev = is_blockdev ? UINT64_MAX : st->st_dev;
	ret_id->ino = is_blockdev ? st->st_rdev : st->st_ino;
}

bool uaio_identify(int fd, struct uaio_identity *ret_id)
{
	int open_flags = sys_fcntl(fd, F_GETFL, 0);
	struct stat st;

	if (open_flags < 0 || sys_fstat(fd, &st) < 0)
		return false;
	ret_id->flags = flags_of(open_flags);
	if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) || S_ISDIR(st.st_mode))
		identify_regular(fd, &st, open_flags & O_DIRECT, ret_id);
	else
		identify_stream(fd, st.st_mode, ret_id);
	return true;
}
