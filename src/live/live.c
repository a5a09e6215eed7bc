/* SPDX-License-Identifier: MIT */
#include "live/live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "proc/ownfd.h"

enum {
	DIRECTORY_BYTES = 32,
	PATH_BYTES = 48,
	/* how many file names a process may use (live.h, I1) */
	TRIES = 8,
	TMPFS_MAGIC = 0x01021994,
};

/* does not change once the library has started in this process */
static struct {
	/* shared memory, never unmapped; or NULL */
	struct uaio_live_page *page;
	uint64_t dev, ino;
	char path[PATH_BYTES];
} live;

struct uaio_live_page *uaio_live_page(void)
{
	return live.page;
}

/* the directory of the file that contains the page (this process's counts) */

/*
 * Return: whether path is a directory that belongs to uid and that no other user can
 * access. *ret_error: 0, or the error of the query.
 */
static bool is_own_directory(const char *path, unsigned uid, int *ret_error)
{
	struct stat st;

	*ret_error = sys_lstatat(AT_FDCWD, path, &st);
	return *ret_error == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid &&
	       !(st.st_mode & 077);
}

/*
 * Create the directory for the process's user, unless it exists.
 * Return: whether it exists now; *ret_uid: the user.
 */
static bool make_directory(char path[DIRECTORY_BYTES], unsigned *ret_uid)
{
	uint32_t ids[3]; /* real, effective, saved */
	int error;

	if (sys_getresuid(ids) < 0)
		return false;
	*ret_uid = ids[1];
	(void)snprintf(path, DIRECTORY_BYTES, UAIO_LIVE_DIRECTORY "%u",
		       *ret_uid);
	if (is_own_directory(path, *ret_uid, &error))
		return true;
	return error == -ENOENT && sys_mkdirat(AT_FDCWD, path, 0700) == 0 &&
	       is_own_directory(path, *ret_uid, &error);
}

/* free space in the file system */

/*
 * Return: whether RLIMIT_FSIZE allows a file of this size. A larger file would raise
 * SIGXFSZ.
 */
static bool is_within_limit(int64_t bytes)
{
	struct rlimit limit;

	return sys_getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	       (limit.rlim_cur == RLIM_INFINITY ||
		limit.rlim_cur >= (uint64_t)bytes);
}

/*
 * Return: whether the file is in a tmpfs of which at least half would still be free
 * after allocating these bytes.
 */
static bool has_room(int fd, int64_t bytes)
{
	struct statfs st;
	uint64_t nr;

	if (sys_fstatfs(fd, &st) < 0 || st.f_type != TMPFS_MAGIC ||
	    st.f_bsize <= 0)
		return false;
	nr = ((uint64_t)bytes + (uint64_t)st.f_bsize - 1) /
	     (uint64_t)st.f_bsize;
	/* If a tmpfs has no size limit, f_blocks is 0. */
	return !st.f_blocks ||
	       (uint64_t)st.f_bavail >= (uint64_t)st.f_blocks / 2 + nr;
}

/*
 * Allocate bytes of the file from offset `at`, so that no access to them raises SIGBUS.
 * If another process has already allocated some of these bytes, this does no harm.
 */
static bool allocate(int fd, int64_t at, int64_t bytes)
{
	return is_within_limit(at + bytes) && has_room(fd, bytes) &&
	       sys_fallocate(fd, 0, at, bytes) == 0;
}

/* the page's file */

static uint64_t pid_namespace(void)
{
	struct stat st;

	return sys_fstatat(AT_FDCWD, "/proc/self/ns/pid", &st) == 0 ? st.st_ino
								    : 0;
}

/*
 * What this process can find out about the process that created the file live.path.
 */
enum maker {
	LIVES,
	IS_GONE,
	/*
	 * This process cannot find out whether the creator exists: the creator is in
	 * another pid namespace, or has left an incomplete identity.
	 */
	UNKNOWN,
};

/*
 * Find out whether the process that created the file exists. *ret_since: when the file
 * was last extended (CLOCK_REALTIME).
 */
static enum maker who_made(struct timespec *ret_since)
{
	struct uaio_live_identity identity;
	int fd = uaio_ownfd_open_briefly(live.path, O_RDONLY | O_NOFOLLOW);
	struct stat st;
	ssize_t got;

	if (fd < 0)
		return LIVES;
	if (sys_fstat(fd, &st) < 0)
		memset(&st, 0, sizeof(st));
	got = sys_pread(fd, &identity, sizeof(identity), 0);
	uaio_ownfd_close(fd);
	*ret_since = st.st_mtim;
	if (got != sizeof(identity) ||
	    memcmp(identity.magic, UAIO_LIVE_MAGIC, sizeof(identity.magic)) ||
	    identity.pid <= 0)
		return UNKNOWN;
	if (identity.pid_namespace != pid_namespace())
		/*
		 * This process cannot see processes of another pid namespace. If the
		 * creator was about to end or exec, treat it as gone. At worst the
		 * creator's exec has failed: then the creator goes on, but other
		 * processes cannot see its page.
		 */
		return identity.state == UAIO_LIVE_LEAVING ? IS_GONE : UNKNOWN;
	/*
	 * If the file contains this process's own id, the file's creator is gone: the
	 * creator was an earlier process with this id, or an earlier program of this
	 * process.
	 */
	return identity.pid == sys_getpid() ||
			       sys_tgkill(identity.pid, identity.pid, 0) ==
				       -ESRCH
		       ? IS_GONE
		       : LIVES;
}

static int create(void)
{
	return uaio_ownfd_open_briefly(live.path,
				       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
}

static int replace(void)
{
	(void)sys_unlinkat(AT_FDCWD, live.path, 0);
	return create();
}

static void set_path(const char *directory, unsigned number)
{
	(void)snprintf(live.path, sizeof(live.path), "%s/%u", directory,
		       number % UAIO_LIVE_SLOTS);
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec ||
	       (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/*
 * Create the page's file under one of the names that this process may use. If all are in
 * use, replace a file whose creator is gone, or whose creator this process cannot see.
 * Return: its descriptor; or a negative error number.
 */
static int create_somewhere(const char *directory)
{
	unsigned pid = (unsigned)sys_getpid(), oldest = 0;
	struct timespec since, first = { 0 };
	bool has_oldest = false;
	int fd = -EEXIST;

	for (unsigned i = 0; i < TRIES && fd == -EEXIST; i++) {
		enum maker maker;

		set_path(directory, pid + i);
		fd = create();
		if (fd != -EEXIST)
			break;
		maker = who_made(&since);
		if (maker == IS_GONE)
			fd = replace();
		if (maker != UNKNOWN ||
		    (has_oldest && !is_before(&since, &first)))
			continue;
		has_oldest = true;
		oldest = pid + i;
		first = since;
	}
	if (fd == -EEXIST && has_oldest) {
		set_path(directory, oldest);
		fd = replace();
	}
	return fd;
}

static void identify(struct uaio_live_identity *identity, unsigned uid)
{
	memcpy(identity->magic, UAIO_LIVE_MAGIC, sizeof(identity->magic));
	identity->version = UAIO_LIVE_VERSION;
	identity->block_bytes = sizeof(struct uaio_live_block);
	identity->pid = sys_getpid();
	identity->uid = uid;
	identity->pid_namespace = pid_namespace();
	identity->born_ns = (uint64_t)uaio_now_of(CLOCK_BOOTTIME);
	identity->born_real_ns = (uint64_t)uaio_now_of(CLOCK_REALTIME);
	(void)snprintf(identity->comm, sizeof(identity->comm), "%s",
		       program_invocation_short_name);
}

/*
 * Allocate the beginning of the page's file, including the first block (counts of one
 * thread), and map the file.
 */
static struct uaio_live_page *map(int fd, unsigned uid)
{
	const int64_t first = UAIO_LIVE_BLOCKS_AT + UAIO_LIVE_BLOCK_BYTES;
	struct stat st;
	void *page;

	if (sys_fstat(fd, &st) < 0 || st.st_uid != uid || st.st_size ||
	    !allocate(fd, 0, first))
		return NULL;
	live.dev = st.st_dev;
	live.ino = st.st_ino;
	page = sys_mmap_file(UAIO_LIVE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_SHARED, fd, 0);
	return sys_is_map_error(page) ? NULL : page;
}

struct uaio_live_page *uaio_live_open(void)
{
	char directory[DIRECTORY_BYTES];
	unsigned uid;
	int fd;

	live.page = NULL;
	if (!make_directory(directory, &uid))
		return NULL;
	fd = create_somewhere(directory);
	if (fd < 0)
		return NULL;
	live.page = map(fd, uid);
	uaio_ownfd_close(fd);
	if (live.page)
		identify(&live.page->identity, uid);
	else
		(void)sys_unlinkat(AT_FDCWD, live.path, 0);
	return live.page;
}

void uaio_live_publish(struct uaio_live_page *page)
{
	/*
	 * [MB:live-ready] release: publishes the identity. Pairs with
	 * uaio_live_is_ready().
	 */
	store_release(&page->identity.is_ready, 1);
}

/* blocks of the page */

static bool extend(int64_t at)
{
	int fd = uaio_ownfd_open_briefly(live.path, O_RDWR | O_NOFOLLOW);
	struct stat st;
	bool is_done;

	if (fd < 0)
		return false;
	/*
	 * Check that live.path still names the file that this process created. Another
	 * process may have replaced the file, or the program may have changed its root
	 * directory.
	 */
	is_done = sys_fstat(fd, &st) == 0 && st.st_dev == live.dev &&
		  st.st_ino == live.ino &&
		  allocate(fd, at, UAIO_LIVE_BLOCK_BYTES);
	uaio_ownfd_close(fd);
	return is_done;
}

struct uaio_live_block *uaio_live_block(unsigned place)
{
	int64_t at =
		UAIO_LIVE_BLOCKS_AT + (int64_t)place * UAIO_LIVE_BLOCK_BYTES;

	if (place && !extend(at))
		return NULL;
	return (struct uaio_live_block *)(void *)((char *)live.page + at);
}

/* what happens to the page (this process's counts) when the process ends */

void uaio_live_set_state(enum uaio_live_state state)
{
	if (live.page)
		/* relaxed: other processes use the state only as a hint */
		store_relaxed(&live.page->identity.state, state);
}

void uaio_live_remove(void)
{
	struct stat st;

	if (!live.page)
		return;
	uaio_live_set_state(UAIO_LIVE_LEAVING);
	/*
	 * Remove only the file that this process created. Another process may have
	 * assumed that this process is gone, and have replaced the file.
	 */
	if (sys_lstatat(AT_FDCWD, live.path, &st) == 0 &&
	    st.st_dev == live.dev && st.st_ino == live.ino)
		(void)sys_unlinkat(AT_FDCWD, live.path, 0);
}
