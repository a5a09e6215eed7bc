/* SPDX-License-Identifier: MIT */
#include "proc/ownfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/lock.h"
#include "base/sys.h"
#include "proc/table.h"
#include "proc/thread.h"

enum {
	OWN_FD_MIN = 512,
	/* descriptors from this number on are not recorded */
	FDS_MAX = 1 << 20,
	WORDS = FDS_MAX / 64,
};

static struct {
	/*
	 * owns; atomic: a bitmap; a set bit means that the descriptor with its number
	 * is the library's
	 */
	uint64_t *words;
	uint32_t nr; /* atomic: number of set bits */
	/*
	 * atomic, written under lock: the library is opening a descriptor, whose bit in
	 * `words` is not yet set
	 */
	uint32_t is_making;

	/*
	 * held while an open descriptor of the library has no bit in `words` yet, and
	 * during fork()
	 */
	struct uaio_lock lock; /* rank OWNFD */
} own;

int uaio_ownfd_init(void)
{
	void *words =
		sys_mmap(NULL, WORDS * sizeof(uint64_t), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	if (sys_is_map_error(words))
		return -ENOMEM;
	own.lock = (struct uaio_lock){ 0 };
	/*
	 * relaxed: no other thread reads own.nr and own.words before the library is
	 * started
	 */
	store_relaxed(&own.nr, 0);
	store_relaxed(&own.words, words);
	return 0;
}

static int note_locked(int fd)
{
	/* relaxed: the bit is set before another thread can know the descriptor */
	if (fd >= 0 && fd < FDS_MAX) {
		or_relaxed(&own.words[fd / 64], 1ull << fd % 64);
		add_relaxed(&own.nr, 1);
	}
	return fd;
}

static void unnote_locked(int fd)
{
	/* relaxed: the bit is cleared before the descriptor is closed */
	if (fd >= 0 && fd < FDS_MAX) {
		and_relaxed(&own.words[fd / 64], ~(1ull << fd % 64));
		sub_relaxed(&own.nr, 1);
	}
}

/*
 * Duplicate fd to a number of at least OWN_FD_MIN if possible, and never below 3.
 */
static int dup_locked(int fd)
{
	int dup = sys_fcntl(fd, F_DUPFD_CLOEXEC, OWN_FD_MIN);

	return note_locked(dup < 0 ? sys_fcntl(fd, F_DUPFD_CLOEXEC, 3) : dup);
}

int uaio_ownfd_dup(int fd)
{
	int dup;

	if (unlikely(uaio_table_is_other()))
		return -EMFILE;
	uaio_lock(&own.lock, UAIO_RANK_OWNFD);
	dup = dup_locked(fd);
	uaio_unlock(&own.lock, UAIO_RANK_OWNFD);
	return dup;
}

/* Return: whether the program has closed fd, or replaced it by a file of another type. */
static bool is_taken(int fd, mode_t type)
{
	struct stat st;
	int ret = sys_fstat(fd, &st);

	/* A seccomp filter may also answer fstat with EBADF, so try another call. */
	if (ret == -EBADF)
		return sys_fcntl(fd, F_GETFD, 0) == -EBADF;
	return ret == 0 && (st.st_mode & S_IFMT) != type;
}

/*
 * Move the new descriptor fd to a high number and record it; if is_brief, only record
 * it. If the program makes system calls by its own syscall instructions, it may have
 * replaced the file meanwhile.
 * Return: the recorded descriptor; -ESTALE if the program has replaced the file; or the
 * error in fd.
 */
static int keep_locked(int fd, mode_t type, bool is_brief)
{
	int high;

	if (fd < 0)
		return fd;
	if (is_brief)
		return is_taken(fd, type) ? -ESTALE : note_locked(fd);
	high = sys_fcntl(fd, F_DUPFD_CLOEXEC, OWN_FD_MIN);
	if (high < 0)
		return is_taken(fd, type) ? -ESTALE : note_locked(fd);
	if (is_taken(high, type)) {
		(void)sys_close(high);
		return -ESTALE;
	}
	if (!is_taken(fd, type))
		(void)sys_close(fd);
	return note_locked(high);
}

/* Open a descriptor. arg: a path, or another argument of the call. */
typedef int make_fn(void *arg, int flags);

static int make_event(void *arg, int flags)
{
	(void)arg;
	return sys_eventfd(0, EFD_CLOEXEC | flags);
}

static int make_epoll(void *arg, int flags)
{
	(void)arg;
	(void)flags;
	return sys_epoll_create(EPOLL_CLOEXEC);
}

static int make_open(void *path, int flags)
{
	return sys_openat(AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

/* The kernel always sets O_CLOEXEC on a ring, so no flag is passed. */
static int make_uring(void *params, int nr)
{
	return sys_uring_setup((unsigned)nr, params);
}

static int keep_new(make_fn *make, mode_t type, void *arg, int flags,
		    bool is_brief)
{
	enum { TRIES = 4 };
	int fd = -ESTALE;

	/*
	 * This thread must open none: its descriptor table is not the library's, and
	 * only the library's table has the library's descriptors.
	 */
	if (unlikely(uaio_table_is_other()))
		return -EMFILE;
	uaio_lock(&own.lock, UAIO_RANK_OWNFD);
	/*
	 * relaxed: uaio_ownfds_settle() may still read 0 after this store, but only in
	 * a thread that closes a descriptor which it has not opened. ownfd.h (I2)
	 * allows for this case.
	 */
	store_relaxed(&own.is_making, 1);
	for (unsigned i = 0; i < TRIES && fd == -ESTALE; i++)
		fd = keep_locked(make(arg, flags), type, is_brief);
	store_relaxed(&own.is_making, 0);
	uaio_unlock(&own.lock, UAIO_RANK_OWNFD);
	return fd;
}

int uaio_ownfd_event(int flags)
{
	return keep_new(make_event, 0, NULL, flags, false);
}

int uaio_ownfd_epoll(void)
{
	return keep_new(make_epoll, 0, NULL, 0, false);
}

int uaio_ownfd_uring(unsigned nr, struct io_uring_params *params)
{
	return keep_new(make_uring, 0, params, (int)nr, false);
}

int uaio_ownfd_open(const char *path, int flags)
{
	return keep_new(make_open, S_IFCHR, (void *)(uintptr_t)path, flags,
			false);
}

int uaio_ownfd_open_file(const char *path, int flags)
{
	return keep_new(make_open, S_IFREG, (void *)(uintptr_t)path, flags,
			false);
}

int uaio_ownfd_open_briefly(const char *path, int flags)
{
	return keep_new(make_open, S_IFREG, (void *)(uintptr_t)path, flags,
			true);
}

void uaio_ownfds_settle(void)
{
	/*
	 * relaxed: only a thread that closes a descriptor which it has not opened may
	 * still read 0. ownfd.h (I2) allows for this case.
	 */
	if (likely(!load_relaxed(&own.is_making)))
		return;
	uaio_lock(&own.lock, UAIO_RANK_OWNFD);
	uaio_unlock(&own.lock, UAIO_RANK_OWNFD);
}

void uaio_ownfd_close(int fd)
{
	uaio_lock(&own.lock, UAIO_RANK_OWNFD);
	unnote_locked(fd);
	(void)sys_close(fd);
	uaio_unlock(&own.lock, UAIO_RANK_OWNFD);
}

/*
 * Closing the file may block, so the lock must not be held. First dup3() puts an
 * eventfd in the file's place, which closes the file without the lock. Then the eventfd
 * is closed under the lock, so the number stays the library's until then.
 */
void uaio_ownfd_close_file(int fd)
{
	int blank = uaio_ownfd_event(0);

	if (blank >= 0) {
		(void)sys_dup3(blank, fd, O_CLOEXEC);
		uaio_ownfd_close(blank);
	}
	uaio_ownfd_close(fd);
}

static void *close_apart(void *arg)
{
	uaio_thread_begin("uaio-close");
	uaio_ownfd_close_file((int)(intptr_t)arg);
	uaio_thread_end();
	return NULL;
}

/*
 * Close the file in a new thread. Such closes are so rare that the thread is not kept
 * for the next one.
 */
void uaio_ownfd_close_slow(int fd)
{
	if (uaio_thread_start(close_apart, (void *)(intptr_t)fd) < 0)
		uaio_ownfd_close_file(fd);
}

void uaio_ownfd_give_up(int fd)
{
	uaio_lock(&own.lock, UAIO_RANK_OWNFD);
	unnote_locked(fd);
	uaio_unlock(&own.lock, UAIO_RANK_OWNFD);
}

/*
 * Return: the library's share of RLIMIT_NOFILE. While the library has fewer descriptors
 * open, it may open optional ones.
 */
static uint64_t share_of_limit(void)
{
	enum { SHARE = 8, SHARE_MIN = 8, USUAL_LIMIT = 1024 };
	struct rlimit limit;
	uint64_t share;

	/* Query the limit each time, since another process may change it. */
	if (sys_getrlimit(RLIMIT_NOFILE, &limit) != 0)
		limit.rlim_cur = USUAL_LIMIT;
	share = limit.rlim_cur / SHARE;
	return share < SHARE_MIN ? SHARE_MIN : share;
}

bool uaio_ownfds_have_room(unsigned nr)
{
	/*
	 * relaxed: callers that open many descriptors prevent concurrent calls by their
	 * own locks
	 */
	return load_relaxed(&own.nr) + (uint64_t)nr <= share_of_limit();
}

bool uaio_ownfds_are_few(void)
{
	/* relaxed: the count may be out of date by a few descriptors */
	return load_relaxed(&own.nr) < share_of_limit() / 2;
}

bool uaio_ownfd_find(unsigned first, unsigned last, unsigned *ret_fd)
{
	uint64_t bits, *words = load_relaxed(&own.words);

	/*
	 * relaxed: note_locked() counts a descriptor before another thread can know it
	 */
	if (!load_relaxed(&own.nr))
		return false;
	if (last >= FDS_MAX)
		last = FDS_MAX - 1;
	for (uint64_t fd = first; fd <= last; fd = (fd | 63) + 1) {
		bits = load_relaxed(&words[fd / 64]) >> fd % 64;
		if (!bits)
			continue;
		fd += (unsigned)__builtin_ctzll(bits);
		*ret_fd = (unsigned)fd;
		return fd <= last;
	}
	return false;
}

bool uaio_ownfd_has(int fd)
{
	unsigned found;

	return fd >= 0 && uaio_ownfd_find((unsigned)fd, (unsigned)fd, &found);
}

void uaio_ownfds_quiesce(void)
{
	uaio_lock(&own.lock, UAIO_RANK_OWNFD);
}

void uaio_ownfds_resume(void)
{
	uaio_unlock(&own.lock, UAIO_RANK_OWNFD);
}

void uaio_ownfds_close_copies(void)
{
	for (unsigned fd = 0; uaio_ownfd_find(fd, FDS_MAX - 1, &fd); fd++)
		(void)sys_close((int)fd);
}

void uaio_ownfd_drop(bool is_ours)
{
	unsigned fd = 0;

	/* Reset the lock: a thread that held the lock does not exist in the child. */
	own.lock = (struct uaio_lock){ 0 };
	store_relaxed(&own.is_making, 0);
	while (uaio_ownfd_find(fd, FDS_MAX - 1, &fd)) {
		if (is_ours)
			uaio_ownfd_close((int)fd);
		else
			uaio_ownfd_give_up((int)fd);
	}
}
