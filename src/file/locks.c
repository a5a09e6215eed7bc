/* SPDX-License-Identifier: MIT */
/*
 * Record locks of the program (fcntl), and the library's descriptors
 *
 * When a process closes any descriptor of a file, the kernel drops all record locks that
 * the process has on that file. So the library neither opens a file once more that the
 * process has locked, nor closes a descriptor of its own for such a file: the descriptor
 * is kept until the locks are gone. They are gone when the program has unlocked the file,
 * or has closed a descriptor of the file, which every process with a lock has.
 *
 *   I1  A kept descriptor is in no entry. It is used again for the next duplicate of the
 *       same open file, so that a program which locks a file and registers it again and
 *       again has one descriptor kept.
 *   I2  UAIO_KEPT_MAX descriptors are kept. Another is closed, and the locks are lost.
 *
 * Window: a lock that another thread takes while the library is closing the descriptor is
 * lost.
 *
 * Thread-safety: any thread. Tested by test-locks.c.
 */
#include "file/duplicate.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sys.h"
#include "proc/ownfd.h"
#include "file/inspect.h"

static struct {
	/*
	 * atomic: a descriptor and 1, or 0. All accesses are relaxed: a slot says
	 * nothing of other memory. The thread that empties a slot owns its descriptor.
	 */
	uint32_t slots[UAIO_KEPT_MAX];
	uint32_t nr; /* atomic: how many are not 0 */
} kept;

void uaio_kept_init(void)
{
	memset(&kept, 0, sizeof(kept));
}

static bool change(uint32_t *slot, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(slot, &from, to, false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Return: whether there was an empty slot for fd. */
static bool put(int fd)
{
	for (unsigned i = 0; i < UAIO_KEPT_MAX; i++)
		if (change(&kept.slots[i], 0, (uint32_t)fd + 1)) {
			add_relaxed(&kept.nr, 1);
			return true;
		}
	return false;
}

/* Empty a slot. Return: the descriptor, which is the caller's now; or -1. */
static int claim(unsigned i)
{
	uint32_t value = load_relaxed(&kept.slots[i]);

	if (!value || !change(&kept.slots[i], value, 0))
		return -1;
	sub_relaxed(&kept.nr, 1);
	return (int)value - 1;
}

enum locked { LOCKED_BY_NOBODY, LOCKED_BY_US, LOCKED_BY_OTHERS };

/*
 * The question is that of the open file, so that locks of this process stand in its way.
 * One lock is reported; locks of this process may stand behind another process's.
 */
static enum locked who_locks(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (sys_fcntl(fd, F_OFD_GETLK, (long)&lock) < 0 ||
	    lock.l_type == F_UNLCK)
		return LOCKED_BY_NOBODY;
	return lock.l_pid == sys_getpid() ? LOCKED_BY_US : LOCKED_BY_OTHERS;
}

bool uaio_fd_is_locked(int fd)
{
	return who_locks(fd) != LOCKED_BY_NOBODY;
}

/* Return: whether the kernel lists record locks of this process; true if in doubt. */
static bool lists_locks(int fd)
{
	char path[UAIO_FD_PATH_BYTES], text[4096];
	int64_t nr;
	int own;

	uaio_fdinfo_path(fd, path);
	own = uaio_ownfd_open_briefly(path, O_RDONLY);
	if (own < 0)
		return true;
	nr = sys_read(own, text, sizeof(text) - 1);
	uaio_ownfd_close(own);
	if (nr <= 0 || nr == sizeof(text) - 1)
		return true;
	text[nr] = '\0';
	return strstr(text, "POSIX");
}

bool uaio_kept_any(void)
{
	return load_relaxed(&kept.nr);
}

bool uaio_kept_keep(int fd)
{
	return unlikely(uaio_fd_is_locked(fd)) && put(fd);
}

int uaio_kept_take(int fd)
{
	int own;

	if (likely(!uaio_kept_any()))
		return -1;
	for (unsigned i = 0; i < UAIO_KEPT_MAX; i++) {
		own = claim(i);
		if (own < 0)
			continue;
		if (sys_is_duplicate(fd, own) == 1)
			return own;
		if (!put(own))
			uaio_ownfd_close_file(own);
	}
	return -1;
}

bool uaio_kept_forget(int fd)
{
	for (unsigned i = 0; i < UAIO_KEPT_MAX; i++)
		if (change(&kept.slots[i], (uint32_t)fd + 1, 0)) {
			sub_relaxed(&kept.nr, 1);
			return true;
		}
	return false;
}

/* Return: whether the program may lose a lock if fd is closed. */
static bool is_needed(int fd)
{
	enum locked by = who_locks(fd);

	return by == LOCKED_BY_US ||
	       (by == LOCKED_BY_OTHERS && lists_locks(fd));
}

void uaio_kept_close(void)
{
	int own;

	for (unsigned i = 0; i < UAIO_KEPT_MAX; i++) {
		own = claim(i);
		if (own >= 0 && (!is_needed(own) || !put(own)))
			uaio_ownfd_close_file(own);
	}
}
