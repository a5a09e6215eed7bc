/* SPDX-License-Identifier: MIT */
/*
 * The descriptor on which the library makes system calls for an open file (file.h). At
 * first this is the client's descriptor. If the client closes it while requests wait, the
 * library replaces it by a private duplicate, or by -1 if no duplicate can be made. For a
 * terminal the library may have a second descriptor, for calls that must not block
 * (terminal.h).
 *
 * Tested by src/ready/test-ready-file.c.
 */
#include "file/duplicate.h"

#include <errno.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/ownfd.h"
#include "file/file.h"
#include "file/inspect.h"

/*
 * All files for which the library has its own descriptor: a duplicate, or a reopened
 * terminal.
 */
static struct {
	struct uaio_lock lock; /* rank FILES */
	struct list files;     /* under lock */
} private;

static const struct uaio_file_ops *ops; /* borrows */

void uaio_file_duplicates_init(const struct uaio_file_ops *file_ops)
{
	ops = file_ops;
	private.lock = (struct uaio_lock){ 0 };
	list_init(&private.files);
}

/*
 * Return: whether nr_using counts the system calls on the file. While a regular file uses
 * the client's descriptor, nr_using instead counts cold reads (of pages that are not in
 * the page cache) that threads are trying (page.h, I4). The meaning changes when the file
 * gets a duplicate; no cold read is left then.
 */
static bool counts_calls(const struct uaio_file *file)
{
	/*
	 * relaxed: a regular file's owns_fd changes only while no call on the file is
	 * in progress
	 */
	return file->kind >= UAIO_KIND_STREAM || load_relaxed(&file->owns_fd);
}

int uaio_file_use(struct uaio_file *file)
{
	int fd;

	if (!counts_calls(file))
		return load_relaxed(&file->fd);
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	add_relaxed(&file->nr_using, 1);
	fd = load_relaxed(&file->fd);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	return fd;
}

void uaio_file_unuse(struct uaio_file *file)
{
	if (!counts_calls(file))
		return;
	/*
	 * [MB:file-use] seq_cst: this thread ends its call before it reads is_awaited. Pairs
	 * with await_calls().
	 */
	if (sub_seq_cst(&file->nr_using, 1) == 1 &&
	    unlikely(load_seq_cst(&file->is_awaited)))
		uaio_wake(&file->nr_using, UINT32_MAX);
}

void uaio_eventfd_add(int fd, uint64_t count)
{
	static const struct timespec zero;
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };

	/*
	 * A full counter stays as it is: a write would block. If ppoll() fails, the counter is
	 * assumed to have room.
	 */
	if (sys_ppoll(&pfd, 1, &zero, NULL, 0) != 0)
		(void)sys_write(fd, &count, sizeof(count));
}

void uaio_file_signal(struct uaio_file *file, uint64_t count)
{
	int fd = uaio_file_use(file);

	if (load_relaxed(&file->is_nonblock))
		(void)sys_write(fd, &count, sizeof(count));
	else
		uaio_eventfd_add(fd, count);
	uaio_file_unuse(file);
}

int uaio_file_begin_try_locked(struct uaio_file *file)
{
	/*
	 * relaxed: await_tries() reads nr_tries under the file's lock, which the caller
	 * holds
	 */
	store_relaxed(&file->nr_tries, load_relaxed(&file->nr_tries) + 1);
	return load_relaxed(&file->fd);
}

void uaio_file_end_try_locked(struct uaio_file *file)
{
	uint32_t nr = load_relaxed(&file->nr_tries) - 1;

	store_relaxed(&file->nr_tries, nr);
	/*
	 * relaxed: the caller holds the file's lock. await_tries() reads nr_tries under
	 * this lock, after is_awaited was set. So either that thread reads 0, or this
	 * thread sees is_awaited
	 */
	if (!nr && unlikely(load_relaxed(&file->is_awaited)))
		uaio_wake(&file->nr_tries, UINT32_MAX);
}

/*
 * Wait until nr_tries is 0: no thread is trying a request on the file. The caller has
 * set is_awaited.
 */
static void await_tries(struct uaio_file *file)
{
	uint32_t nr;

	for (;;) {
		uaio_lock(&file->lock, UAIO_RANK_FILE);
		nr = load_relaxed(&file->nr_tries);
		uaio_unlock(&file->lock, UAIO_RANK_FILE);
		if (!nr)
			return;
		(void)uaio_sleep(&file->nr_tries, nr, UAIO_FOREVER);
	}
}

/*
 * Wait until no call on the client's descriptor is in progress. Such calls do not
 * block, so the wait is short. Meanwhile no signal handler may run (entry.h): a handler
 * could leave by longjmp() while this thread is in the middle of trying parked
 * requests.
 */
static void await_calls(struct uaio_file *file)
{
	uint32_t nr;

	/*
	 * [MB:file-use] seq_cst: this thread sets is_awaited before it reads nr_using. Pairs
	 * with uaio_file_unuse().
	 */
	store_seq_cst(&file->is_awaited, 1);
	while ((nr = load_seq_cst(&file->nr_using)))
		(void)uaio_sleep(&file->nr_using, nr, UAIO_FOREVER);
	await_tries(file);
}

void uaio_file_note_private(struct uaio_file *file)
{
	uaio_lock(&private.lock, UAIO_RANK_FILES);
	if (!list_is_linked(&file->in_private))
		list_add_tail(&private.files, &file->in_private);
	uaio_unlock(&private.lock, UAIO_RANK_FILES);
}

/*
 * If the file uses the descriptor `old`, replace that by a duplicate.
 * Return: whether it was replaced.
 */
static bool replace_fd_locked(struct uaio_file *file, int old)
{
	bool is_reopened = file->reopened == old;
	int own = is_reopened || file->fd == old ? uaio_ownfd_dup(old) : -1;

	if (own < 0)
		return false;
	/*
	 * relaxed, both stores: other threads read `fd` and `reopened` under the lock, or
	 * between uaio_file_use() and uaio_file_unuse()
	 */
	if (is_reopened) {
		store_relaxed(&file->reopened, own);
		return true;
	}
	store_relaxed(&file->fd, own);
	store_relaxed(&file->owns_fd, true);
	ops->moved_locked(file, old);
	return true;
}

bool uaio_file_make_private(struct uaio_file *file)
{
	bool was_private, is_private;

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	was_private = file->owns_fd;
	is_private = was_private ||
		     (file->fd >= 0 && replace_fd_locked(file, file->fd));
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	if (was_private || !is_private)
		return is_private;
	await_calls(file);
	uaio_file_note_private(file);
	return true;
}

static struct uaio_file *find_private_locked(int fd)
{
	list_for_each (pos, &private.files) {
		struct uaio_file *file =
			container_of(pos, struct uaio_file, in_private);

		/*
		 * relaxed, both: this search is a hint. replace_fd_locked() reads `fd`
		 * and `reopened` again, under the file's lock
		 */
		if ((load_relaxed(&file->fd) == fd ||
		     load_relaxed(&file->reopened) == fd) &&
		    uaio_file_try_get(file))
			return file;
	}
	return NULL;
}

static void lose_fd_locked(struct uaio_file *file)
{
	int old = load_relaxed(&file->fd);

	store_relaxed(&file->fd, -1);
	ops->moved_locked(file, old);
}

bool uaio_file_part_polls(struct uaio_file *file)
{
	const struct uaio_waitq *waitq = &file->waitqs[UAIO_WAITQ_POLL];
	uint32_t nr = 0;
	bool parts;

	uaio_lock(&file->lock, UAIO_RANK_FILE);
	list_for_each (pos, &waitq->parked)
		nr++;
	/*
	 * relaxed: the caller has removed `file` from the table, so no new request can
	 * take a reference. nr + 1: each parked poll has one reference, and the caller
	 * has one
	 */
	parts = nr && !waitq->is_running && load_relaxed(&file->refs) == nr + 1;
	if (parts && !replace_fd_locked(file, load_relaxed(&file->fd)))
		lose_fd_locked(file);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	if (parts && load_relaxed(&file->owns_fd))
		uaio_file_note_private(file);
	return parts;
}

int uaio_file_yield(int fd)
{
	struct uaio_file *file;
	bool has_moved;

	if (uaio_kept_forget(fd))
		return 0;
	uaio_lock(&private.lock, UAIO_RANK_FILES);
	file = find_private_locked(fd);
	uaio_unlock(&private.lock, UAIO_RANK_FILES);
	if (!file)
		return -ENOENT;
	/*
	 * If a call on the duplicate is in progress, fail instead of waiting, because the
	 * call may block for ever.
	 */
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	has_moved = !load_relaxed(&file->nr_using) &&
		    !load_relaxed(&file->nr_tries) &&
		    replace_fd_locked(file, fd);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	uaio_file_put(file);
	return has_moved ? 0 : -EBUSY;
}

void uaio_file_lose_fd(struct uaio_file *file)
{
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	/*
	 * If another thread made a duplicate before this thread got the lock, the file
	 * keeps that duplicate.
	 */
	if (!file->owns_fd)
		lose_fd_locked(file);
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
	await_calls(file);
}

void uaio_file_forget_fd(struct uaio_file *file)
{
	if (file->kind < UAIO_KIND_STREAM)
		return;
	uaio_lock(&file->lock, UAIO_RANK_FILE);
	if (!file->owns_fd) {
		store_relaxed(&file->fd, -1);
		ops->moved_locked(file, -1);
	}
	uaio_unlock(&file->lock, UAIO_RANK_FILE);
}

static void close_fd(const struct uaio_file *file)
{
	bool is_socket = file->flags & UAIO_FILE_F_SOCKET;

	if (!is_socket && uaio_kept_keep(file->fd))
		return;
	if (is_socket && unlikely(uaio_socket_lingers(file->fd)))
		uaio_ownfd_close_slow(file->fd);
	else if (file->kind < UAIO_KIND_STREAM)
		uaio_ownfd_close_file(file->fd);
	else
		uaio_ownfd_close(file->fd);
}

void uaio_file_close_fds(struct uaio_file *file)
{
	if (!file->owns_fd && file->reopened < 0)
		return;
	uaio_lock(&private.lock, UAIO_RANK_FILES);
	list_remove(&file->in_private);
	uaio_unlock(&private.lock, UAIO_RANK_FILES);
	if (file->owns_fd)
		close_fd(file);
	if (file->reopened >= 0 && !uaio_kept_keep(file->reopened))
		uaio_ownfd_close(file->reopened);
}
