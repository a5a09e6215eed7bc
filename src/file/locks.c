/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that the library keeps open, so that the program loses no record lock (fcntl)
 *
 * When a process closes any descriptor of a file, the kernel drops all record locks that
 * the process has on that file (fcntl(2)). So if the process has locked a file, the library
 * opens no descriptor for it. A descriptor that the library already has stays open until
 * the locks are gone. The program ends its locks by unlocking the file, or by closing its
 * own descriptor of the file.
 *
 *   I1  A kept descriptor is in no entry (file.h). When the library next needs a duplicate of
 *       the same open file, it uses the kept one. So if a program registers a locked file
 *       again and again, only one descriptor is kept for it.
 *   I2  At most UAIO_KEPT_MAX descriptors are kept. Any further descriptor is closed, and the
 *       program's locks on its file are lost.
 *
 * Accepted race: while the library is closing its descriptor of a file, another thread
 * may lock the same file. Then the new lock is lost.
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
	 * atomic: a kept descriptor + 1, or 0 for an empty slot. All accesses are relaxed:
	 * a slot publishes no other memory. The thread that empties a slot owns its
	 * descriptor.
	 */
	uint32_t slots[UAIO_KEPT_MAX];
	uint32_t nr; /* atomic: how many slots are not empty */
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

/*
 * Store fd in an empty slot.
 * Return: false if no slot is empty.
 */
static bool put(int fd)
{
	for (unsigned i = 0; i < UAIO_KEPT_MAX; i++)
		if (change(&kept.slots[i], 0, (uint32_t)fd + 1)) {
			add_relaxed(&kept.nr, 1);
			return true;
		}
	return false;
}

/* Empty a slot. Return: its descriptor, now owned by the caller; -1 if the slot was empty. */
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
 * Return: who has a record lock on the file of fd. F_OFD_GETLK looks for locks that
 * conflict with a lock of the open file, not of the process. So it also reports locks of
 * this process. F_OFD_GETLK reports only one lock: even if another process has that lock,
 * this process may have a lock, too.
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

/*
 * Return: whether /proc/thread-self/fdinfo lists a record lock of this process on fd; true
 * if the text is too long or cannot be read.
 */
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

/* Return: whether fd must be kept, as closing it may drop a lock of the program. */
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
