/* SPDX-License-Identifier: MIT */
#include "file/inspect.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/newer.h"
#include "base/sys.h"
#include "proc/ownfd.h"
#include "file/file.h"
#include "file/terminal.h"

/* Magic numbers that older headers lack. */
enum { CONFIGFS_MAGIC_ = 0x62656570, MQUEUE_MAGIC_ = 0x19800202 };

/*
 * Encode a device number as makedev(3) does. Without optimization, that macro calls a
 * function of glibc that musl does not have.
 */
static uint64_t device_of(uint32_t major, uint32_t minor)
{
	return (uint64_t)(major & 0xfffff000) << 32 | (major & 0xfff) << 8 |
	       (uint64_t)(minor & 0xffffff00) << 12 | (minor & 0xff);
}

static bool has_major(uint64_t device)
{
	return device & ~device_of(0, UINT32_MAX);
}

/* Return: the magic number of the file system of fd (statfs(2)); 0 if fstatfs() fails. */
static uint32_t fs_type(int fd)
{
	struct statfs fs;

	return sys_fstatfs(fd, &fs) < 0 ? 0 : (uint32_t)fs.f_type;
}

static bool is_memory_fs(uint32_t type)
{
	return type == TMPFS_MAGIC || type == RAMFS_MAGIC ||
	       type == HUGETLBFS_MAGIC;
}

/* Return: whether files of this file system may be on a server; true if type is 0 (unknown). */
static bool is_remote_fs(uint32_t type)
{
	static const uint32_t types[] = {
		0x65735546 /* FUSE */, NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,
		SMB2_SUPER_MAGIC,      CIFS_SUPER_MAGIC, V9FS_MAGIC,
		CEPH_SUPER_MAGIC,      AFS_FS_MAGIC,     CODA_SUPER_MAGIC,
	};

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (type == types[i])
			return true;
	return !type;
}

bool uaio_is_remote(int fd)
{
	return is_remote_fs(fs_type(fd));
}

bool uaio_syncs_later(int fd)
{
	uint32_t type = fs_type(fd);

	return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC;
}

/* What the library queries about a file for nearly every request. */
struct look {
	uint32_t mode;
	uint64_t dev, rdev, ino, size;
};

/*
 * Query fd by statx(), without the file's times. fstat() would read the times, too. Since
 * Linux 6.13 the next write must then store a new time in the inode, which costs more than
 * the write itself. With no_server the kernel queries no server: it returns what it has
 * cached.
 */
static bool look_without_times(int fd, bool no_server, struct look *ret)
{
	enum {
		STATX_MODE_INO_SIZE = 0x1 | 0x2 | 0x100 | 0x200,
		DONT_SYNC = 0x4000,
	};
	struct {
		uint32_t mask, blksize;
		uint64_t attributes;
		uint32_t nlink, uid, gid;
		uint16_t mode, spare;
		uint64_t ino, size, counts[10];
		uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
		uint64_t rest[14];
	} answer;

	static_assert(offsetof(typeof(answer), size) == 40 &&
			      offsetof(typeof(answer), rdev_major) == 128 &&
			      sizeof(answer) == 256,
		      "struct statx");
	if (sys_statx(fd, no_server ? DONT_SYNC : 0, STATX_MODE_INO_SIZE,
		      &answer) < 0 ||
	    (answer.mask & STATX_MODE_INO_SIZE) != STATX_MODE_INO_SIZE)
		return false;
	*ret = (struct look){
		.mode = answer.mode,
		.dev = device_of(answer.dev_major, answer.dev_minor),
		.rdev = device_of(answer.rdev_major, answer.rdev_minor),
		.ino = answer.ino,
		.size = answer.size,
	};
	return true;
}

/* Return: 0, -errno. */
static int look_at(int fd, bool no_server, struct look *ret)
{
	struct stat st;
	int error;

	if (likely(look_without_times(fd, no_server, ret)))
		return 0;
	error = sys_fstat(fd, &st);
	if (error < 0)
		return error;
	*ret = (struct look){
		.mode = st.st_mode,
		.dev = st.st_dev,
		.rdev = st.st_rdev,
		.ino = st.st_ino,
		.size = (uint64_t)st.st_size,
	};
	return 0;
}

/*
 * Do not query a remote file by fstat(): the submitter would wait for the server before
 * each write. The size in the kernel's cache may be outdated, but the kernel's own writes
 * use it, too.
 */
int uaio_size_of(const struct uaio_file *file, int fd, uint64_t *ret_size)
{
	struct look look;
	int ret = look_at(fd, uaio_file_has(file, UAIO_FILE_F_REMOTE), &look);

	*ret_size = ret < 0 ? 0 : look.size;
	return ret;
}

/* Return: whether the kernel generates the contents of this file system's regular files. */
static bool is_kernel_fs(uint32_t type)
{
	return type == PROC_SUPER_MAGIC || type == TRACEFS_MAGIC ||
	       type == DEBUGFS_MAGIC || type == SECURITYFS_MAGIC ||
	       type == SELINUX_MAGIC || type == CONFIGFS_MAGIC_;
}

/*
 * Find out whether fd accepts RWF_* flags, by a read or write with two flags that exclude each
 * other. If the driver has read_iter or write_iter, the call fails with EINVAL. If it has only
 * the older read or write, which take no flags, the call fails with EOPNOTSUPP. In both cases
 * no byte is read or written.
 */
static int64_t try_contradiction_at(int fd, bool is_write, int64_t off)
{
	enum { RWF_APPEND_ = 0x10, RWF_NOAPPEND_ = 0x20 };
	const int both = RWF_APPEND_ | RWF_NOAPPEND_;
	char byte = 0;
	const struct iovec iov = { &byte, 1 };

	return is_write ? sys_pwritev2(fd, &iov, 1, off, both)
			: sys_preadv2(fd, &iov, 1, off, both);
}

static int64_t try_contradiction(int fd, bool is_write)
{
	int64_t res = try_contradiction_at(fd, is_write, 0);

	/*
	 * Only a stream fails with ESPIPE. For other files, offset -1 is not used, as such
	 * a call would lock the file position.
	 */
	return res == -ESPIPE ? try_contradiction_at(fd, is_write, -1) : res;
}

/*
 * Return: whether the kernel knows RWF_NOAPPEND. Linux before 6.9 does not, and fails with
 * EOPNOTSUPP for every file.
 */
static bool knows_contradiction(void)
{
	enum { UNASKED, YES, NO };
	static uint32_t answer; /* atomic */
	int fd;

	/* relaxed: if several threads compute the value, they get the same one */
	if (load_relaxed(&answer) == UNASKED) {
		fd = uaio_ownfd_open("/dev/null", O_RDONLY);
		if (fd < 0)
			return false;
		store_relaxed(&answer, try_contradiction(fd, false) == -EINVAL
					       ? YES
					       : NO);
		uaio_ownfd_close(fd);
	}
	return load_relaxed(&answer) == YES;
}

/*
 * Return: UAIO_FILE_F_OLD_READ if the driver of fd has no read_iter;
 * UAIO_FILE_F_OLD_WRITE if it has no write_iter. Then reads (or writes) of the file
 * accept no RWF_* flags. A worker must execute such reads, since some of them block for
 * ever (/proc/kmsg, trace_pipe).
 */
static uint32_t old_fashion_flags(int fd, uint32_t flags)
{
	uint32_t none = 0;

	if (flags & UAIO_FILE_F_READ &&
	    try_contradiction(fd, false) == -EOPNOTSUPP)
		none |= UAIO_FILE_F_OLD_READ;
	if (flags & UAIO_FILE_F_WRITE &&
	    try_contradiction(fd, true) == -EOPNOTSUPP)
		none |= UAIO_FILE_F_OLD_WRITE;
	return none && knows_contradiction() ? none : 0;
}

/*
 * Return: flags that tell which requests the file accepts only at its own position. This
 * is possible for a file on FUSE or of the kernel (/proc). The kernel checks this
 * first, and then calls no driver and no server, as there are no bytes to transfer.
 */
static uint32_t position_flags(int fd)
{
	uint32_t flags = 0;

	if (sys_preadv(fd, NULL, 0, 0) == -ESPIPE)
		flags |= UAIO_FILE_F_NO_PREAD;
	if (sys_pwritev(fd, NULL, 0, 0) == -ESPIPE)
		flags |= UAIO_FILE_F_NO_PWRITE;
	return flags;
}

static void put_path(const char *directory, int fd,
		     char ret_path[UAIO_FD_PATH_BYTES])
{
	char digits[12];
	size_t at = strlen(directory);
	int nr = 0;

	memcpy(ret_path, directory, at);
	do
		digits[nr++] = (char)('0' + fd % 10);
	while (fd /= 10);
	while (nr)
		ret_path[at++] = digits[--nr];
	ret_path[at] = '\0';
}

void uaio_fd_path(int fd, char ret_path[UAIO_FD_PATH_BYTES])
{
	put_path("/proc/thread-self/fd/", fd, ret_path);
}

void uaio_fdinfo_path(int fd, char ret_path[UAIO_FD_PATH_BYTES])
{
	put_path("/proc/thread-self/fdinfo/", fd, ret_path);
}

/*
 * Return: whether an anonymous inode is certainly an eventfd. This function makes two
 * system calls, which take a tenth of the time of reading the inode's name in /proc.
 * For a writable eventfd poll() reports POLLOUT alone; for all other files with
 * read_iter it adds POLLWRNORM. A full eventfd, and any eventfd before Linux 6.9, is
 * not recognized here; anonymous_flags() finds it by name.
 */
static bool is_surely_eventfd(int fd)
{
	const struct timespec zero = { 0 };
	struct pollfd pfd = { .fd = fd, .events = POLLOUT | POLLWRNORM };

	return sys_ppoll(&pfd, 1, &zero, NULL, 0) == 1 &&
	       pfd.revents == POLLOUT &&
	       try_contradiction_at(fd, false, -1) == -EINVAL;
}

/*
 * Anonymous inodes have no type; only the name of the link in /proc/self/fd shows what
 * they are. The table below lists epolls and the anonymous inodes with read_iter. All
 * anonymous inodes that are not in the table have only the older read, if they can be
 * read at all. If /proc is not mounted, every anonymous inode counts as an eventfd.
 */
static uint32_t anonymous_flags(int fd)
{
	enum {
		OF_EVENTFD = UAIO_FILE_F_EVENTFD | UAIO_FILE_F_OLD_WRITE |
			     UAIO_FILE_F_CERTAIN,
	};
	static const struct {
		const char *name;
		uint32_t flags;
	} kinds[] = {
		{ "anon_inode:[eventfd]", OF_EVENTFD },
		{ "anon_inode:[timerfd]",
		  UAIO_FILE_F_OLD_WRITE | UAIO_FILE_F_CERTAIN },
		{ "anon_inode:[signalfd]",
		  UAIO_FILE_F_OLD_WRITE | UAIO_FILE_F_PERSONAL },
		{ "anon_inode:[userfaultfd]",
		  UAIO_FILE_F_OLD_WRITE | UAIO_FILE_F_USERFAULT },
		{ "anon_inode:[eventpoll]", UAIO_FILE_F_EPOLL |
						    UAIO_FILE_F_OLD_READ |
						    UAIO_FILE_F_OLD_WRITE },
		{ "anon_inode:", UAIO_FILE_F_OLD_READ | UAIO_FILE_F_OLD_WRITE },
	};
	char path[UAIO_FD_PATH_BYTES], link[64];
	int nr;

	if (is_surely_eventfd(fd))
		return OF_EVENTFD;
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
	if (open_flags & O_DSYNC) /* O_SYNC includes this bit */
		flags |= UAIO_FILE_F_SYNC;
	return flags;
}

static uint32_t socket_flags(int fd)
{
	uint32_t size = sizeof(int);
	int type = 0;

	(void)sys_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
	return UAIO_FILE_F_SOCKET |
	       (type == SOCK_STREAM ? UAIO_FILE_F_SOCK_STREAM : 0u);
}

static uint32_t stream_flags(int fd, mode_t mode)
{
	uint32_t flags = 0;

	/*
	 * Most character devices, such as terminals, are streams. A device that can seek is
	 * not.
	 */
	if (!S_ISCHR(mode) || sys_lseek(fd, 0, SEEK_CUR) < 0)
		flags |= UAIO_FILE_F_STREAM;
	if (S_ISSOCK(mode))
		flags |= socket_flags(fd);
	if (S_ISFIFO(mode))
		flags |= UAIO_FILE_F_CERTAIN;
	if (!(mode & S_IFMT))
		flags |= anonymous_flags(fd);
	if (S_ISCHR(mode) && uaio_terminal_is(fd))
		flags |= UAIO_FILE_F_TERMINAL;
	return flags;
}

static void inspect_stream(int fd, const struct stat *st,
			   struct uaio_fd_facts *ret_facts)
{
	mode_t mode = st->st_mode;

	ret_facts->kind = S_ISCHR(mode) ? UAIO_KIND_DEVICE : UAIO_KIND_STREAM;
	/*
	 * O_APPEND has no meaning for a stream. Its entry stays if the program changes the
	 * flag, so the entry does not have it.
	 */
	ret_facts->flags &= ~(uint32_t)UAIO_FILE_F_APPEND;
	ret_facts->flags |= stream_flags(fd, mode);
	if (S_ISCHR(mode) || ret_facts->flags & UAIO_FILE_F_USERFAULT)
		ret_facts->flags |= old_fashion_flags(fd, ret_facts->flags);
	ret_facts->has_inode = false;
	ret_facts->dev = st->st_dev;
	ret_facts->ino = st->st_ino;
}

/*
 * Return: whether the file system is on a block device, by its device number. File
 * systems in memory, remote file systems and those that the kernel generates have an
 * anonymous number (major 0). The caller calls fstatfs() only for an anonymous number,
 * which saves this call for files on a block device. Therefore FUSE on a block device
 * (fuseblk) counts as a local disk.
 */
static bool has_device(const struct stat *st)
{
	return has_major(st->st_dev);
}

static void inspect_regular(int fd, const struct stat *st, bool is_direct,
			    struct uaio_fd_facts *ret_facts)
{
	bool is_blockdev = S_ISBLK(st->st_mode);
	bool is_on_disk = is_blockdev || has_device(st);
	uint32_t type = is_on_disk ? 0 : fs_type(fd);

	ret_facts->kind = is_direct ? UAIO_KIND_DIRECT : UAIO_KIND_CACHED;
	/*
	 * A message queue's driver has only the older read function, which takes no
	 * RWF_* flags and returns text about the queue's state.
	 */
	if (S_ISDIR(st->st_mode) || type == MQUEUE_MAGIC_)
		ret_facts->flags |=
			UAIO_FILE_F_OLD_READ | UAIO_FILE_F_OLD_WRITE;
	if (is_blockdev)
		ret_facts->flags |= UAIO_FILE_F_BLOCKDEV;
	else if (is_memory_fs(type))
		ret_facts->kind = UAIO_KIND_MEMORY;
	else if (!is_on_disk && is_remote_fs(type))
		ret_facts->flags |= UAIO_FILE_F_REMOTE | position_flags(fd);
	else if (is_kernel_fs(type) && !S_ISDIR(st->st_mode))
		ret_facts->flags |= old_fashion_flags(fd, ret_facts->flags) |
				    position_flags(fd);
	ret_facts->has_inode = true;
	ret_facts->dev = is_blockdev ? UINT64_MAX : st->st_dev;
	ret_facts->ino = is_blockdev ? st->st_rdev : st->st_ino;
}

bool uaio_socket_lingers(int fd)
{
	struct linger linger = { 0 };
	uint32_t size = sizeof(linger);

	return sys_getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &size) == 0 &&
	       linger.l_onoff && linger.l_linger;
}

bool uaio_closes_at_once(int fd)
{
	struct stat st;

	if (sys_fstat(fd, &st) < 0)
		return true;
	switch (st.st_mode & S_IFMT) {
	case S_IFCHR:
	case S_IFBLK: return false;
	case S_IFSOCK: return !uaio_socket_lingers(fd);
	case S_IFREG: return has_device(&st) || !is_remote_fs(fs_type(fd));
	default: return true;
	}
}

int uaio_inspect(int fd, struct uaio_fd_facts *ret_facts)
{
	int open_flags = sys_fcntl(fd, F_GETFL, 0);
	struct stat st;
	int ret;

	if (open_flags < 0)
		return -EBADF;
	ret = sys_fstat(fd, &st);
	if (ret < 0)
		return ret;
	ret_facts->flags = flags_of(open_flags);
	if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) || S_ISDIR(st.st_mode))
		inspect_regular(fd, &st, open_flags & O_DIRECT, ret_facts);
	else
		inspect_stream(fd, &st, ret_facts);
	return 0;
}

/* Return: whether the entry says of O_APPEND and O_DIRECT what open_flags say. */
static bool is_written_as(const struct uaio_file *file, int open_flags)
{
	enum uaio_kind kind = uaio_file_kind(file);
	bool appends = open_flags & O_APPEND;
	bool is_direct = open_flags & O_DIRECT;

	return uaio_file_has(file, UAIO_FILE_F_APPEND) == appends &&
	       (kind == UAIO_KIND_MEMORY ||
		(kind == UAIO_KIND_DIRECT) == is_direct);
}

bool uaio_take_flags(struct uaio_file *file, int fd, int open_flags)
{
	if (open_flags < 0)
		open_flags = sys_fcntl(fd, F_GETFL, 0);
	if (open_flags < 0)
		return true;
	if (uaio_file_kind(file) < UAIO_KIND_STREAM &&
	    !is_written_as(file, open_flags))
		return false;
	if (uaio_file_has(file, UAIO_FILE_F_TERMINAL) &&
	    load_relaxed(&file->reopened) < 0 &&
	    load_relaxed(&file->is_nonblock) && !(open_flags & O_NONBLOCK))
		return false;
	store_relaxed(&file->is_nonblock, (uint32_t)open_flags & O_NONBLOCK);
	return true;
}

bool uaio_is_replaced(const struct uaio_file *file, int fd)
{
	uint64_t dev = load_relaxed(&file->dev), ino = load_relaxed(&file->ino);
	struct look look;

	if (uaio_file_has(file, UAIO_FILE_F_REMOTE) ||
	    look_at(fd, false, &look) < 0)
		return false;
	if (dev == UINT64_MAX)
		return !S_ISBLK(look.mode) || look.rdev != ino;
	return look.dev != dev || look.ino != ino;
}

bool uaio_is_reopened(const struct uaio_file *file, int fd)
{
	const uint32_t access =
		UAIO_FILE_F_READ | UAIO_FILE_F_WRITE | UAIO_FILE_F_PATH;
	int open_flags = sys_fcntl(fd, F_GETFL, 0);

	if (open_flags < 0)
		return open_flags == -EBADF;
	/* The entry of a ring has no flags of access. */
	return uaio_is_replaced(file, fd) ||
	       (!uaio_file_has(file, UAIO_FILE_F_RING) &&
		(flags_of(open_flags) ^ load_relaxed(&file->flags)) & access);
}

bool uaio_is_duplicate(const struct uaio_file *file,
		       const struct uaio_file *other)
{
	/* relaxed: if another thread is replacing a descriptor, either result is right */
	int fd = load_relaxed(&file->fd), other_fd = load_relaxed(&other->fd);

	if (load_relaxed(&file->dev) != load_relaxed(&other->dev) ||
	    load_relaxed(&file->ino) != load_relaxed(&other->ino))
		return false;
	/*
	 * Here both descriptors have the same inode. A socket has only one open file, as
	 * open() on its inode fails. So for a socket the comparison of the inodes
	 * suffices.
	 */
	return uaio_file_has(file, UAIO_FILE_F_SOCKET) ||
	       (fd >= 0 && other_fd >= 0 && sys_is_duplicate(fd, other_fd) > 0);
}

bool uaio_ends_by(const struct uaio_file *file, int fd, uint64_t offset)
{
	struct look look;

	return !uaio_file_has(file, UAIO_FILE_F_REMOTE) &&
	       look_at(fd, false, &look) == 0 && S_ISREG(look.mode) &&
	       look.dev == load_relaxed(&file->dev) &&
	       look.ino == load_relaxed(&file->ino) && look.size <= offset;
}
