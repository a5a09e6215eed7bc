/* SPDX-License-Identifier: MIT */
#include "flow/closing.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/ownfd.h"
#include "file/file.h"
#include "req/req.h"
#include "req/waits.h"
#include "native/native.h"
#include "ready/ready.h"
#include "split/whole.h"
#include "flow/flow.h"

enum {
	/*
	 * The closer is the thread that closes the descriptor. The closer first sleeps
	 * for this time, in which a healthy device completes the requests. The closer
	 * reads /proc only after that.
	 */
	FIRST_PAUSE_NS = 100000,
	MAX_PAUSE_NS = 10000000,
	NATIVE_PAUSE_NS = 1000000,
	/*
	 * How long the closer waits for a worker, if no more workers may be created,
	 * before it executes requests itself.
	 */
	PATIENCE_NS = 20000000,
	/*
	 * How long the closer waits for a worker, if more workers may be created, before
	 * it executes requests itself. The closer does not wait for ever, as the system
	 * may refuse further threads.
	 */
	HOPE_MS = 5000,
	/*
	 * While workers make more system calls on the file than this, the closer does not
	 * examine the calls, and waits.
	 */
	MAX_CALLS = 512,
	/*
	 * given to is_in_call() instead of a descriptor: any io_submit call matches
	 */
	SUBMITTED = -2,
};

/* Finding out from /proc what a thread of this process is doing */

static char *put_text(char *at, const char *text)
{
	size_t len = strlen(text);

	memcpy(at, text, len);
	return at + len;
}

static char *put_number(char *at, uint32_t nr)
{
	char digits[10];
	int n = 0;

	do
		digits[n++] = (char)('0' + nr % 10);
	while (nr /= 10);
	while (n)
		*at++ = digits[--n];
	return at;
}

/*
 * Read a file of the thread from /proc/self/task.
 * Return: whether any text was read.
 */
static bool read_of_thread(uint32_t tid, const char *name, char *ret_text,
			   size_t size)
{
	char path[64], *at = put_text(path, "/proc/self/task/");
	int64_t got;
	int fd;

	at = put_number(at, tid);
	at = put_text(at, name);
	*at = '\0';
	fd = uaio_ownfd_open_file(path, O_RDONLY);
	if (fd < 0)
		return false;
	got = sys_read(fd, ret_text, size - 1);
	uaio_ownfd_close(fd);
	ret_text[got > 0 ? got : 0] = '\0';
	return got > 0;
}

/*
 * Return: the next number in `text`, decimal or hexadecimal. ret_text: what follows that
 * number in `text`.
 */
static uint64_t next_number(const char *text, const char **ret_text)
{
	uint64_t nr = 0;
	unsigned base = 10;

	while (*text == ' ')
		text++;
	if (text[0] == '0' && text[1] == 'x') {
		base = 16;
		text += 2;
	}
	for (;; text++) {
		unsigned digit = *text >= '0' && *text <= '9'
					 ? (unsigned)(*text - '0')
				 : *text >= 'a' && *text <= 'f'
					 ? (unsigned)(*text - 'a') + 10
					 : 16;

		if (digit >= base)
			break;
		nr = nr * base + digit;
	}
	*ret_text = text;
	return nr;
}

/*
 * Return: whether the thread sleeps in a system call on fd, after the call has looked up
 * the descriptor. If fd is SUBMITTED: whether it sleeps in io_submit.
 */
static bool is_in_call(uint32_t tid, int fd)
{
	char text[256];
	const char *at = text;
	uint64_t nr, arg;

	/*
	 * Outside a system call, /proc/self/task/TID/syscall says "running", or "-1" and
	 * two addresses.
	 */
	if (!read_of_thread(tid, "/syscall", text, sizeof(text)) ||
	    *text < '0' || *text > '9')
		return false;
	nr = next_number(at, &at);
	arg = next_number(at, &at);
	if (fd == SUBMITTED ? !sys_is_io_submit(nr)
			    : !sys_is_on_file(nr) || arg != (uint64_t)fd)
		return false;
	/*
	 * The thread is in the call, or has just left it. A tracer or seccomp may have
	 * stopped the thread before the look-up; then wchan names a function of ptrace or
	 * seccomp.
	 */
	return read_of_thread(tid, "/wchan", text, sizeof(text)) &&
	       *text != '0' && !strstr(text, "ptrace") &&
	       !strstr(text, "seccomp");
}

/*
 * Return: whether /proc shows this process's threads by the ids that gettid() returns. If
 * /proc belongs to another pid namespace, such an id may be of another thread, or of none.
 * So this thread reads its own file in /proc, which must show the read() call that reads
 * it.
 */
static bool has_our_thread_ids(void)
{
	char text[256];
	const char *at = text;

	return read_of_thread((uint32_t)sys_gettid(), "/syscall", text,
			      sizeof(text)) &&
	       sys_is_read(next_number(at, &at)) &&
	       next_number(at, &at) < INT_MAX &&
	       next_number(at, &at) == (uintptr_t)text;
}

/* The closer */

/*
 * The kernel's own AIO has nr_native requests on `file`. A worker may still be in
 * io_submit with some of these requests. That call may not have looked up the descriptor
 * yet, or may still refuse the request.
 * Return: whether all these calls have looked up the descriptor, and refused no request.
 */
static bool submitters_are_in_calls(const struct uaio_file *file,
				    uint32_t nr_native)
{
	uint32_t tids[MAX_CALLS], nr_now;
	unsigned nr =
		uaio_wq_callers(uaio_native_called_on(file), tids, MAX_CALLS);

	if (nr > MAX_CALLS || (nr && !has_our_thread_ids()))
		return false;
	for (unsigned i = 0; i < nr; i++)
		if (!is_in_call(tids[i], SUBMITTED))
			return false;
	/*
	 * Because file->is_closing is set, workers submit no more requests to the kernel.
	 * So if the count of requests is unchanged, the kernel refused none.
	 */
	return uaio_natives_hold(file, &nr_now) && nr_now == nr_native;
}

/*
 * Return: whether the descriptor may be closed: each reference to `file`, except the
 * closing thread's, belongs to a request whose only system call is in progress. Each such
 * request has one reference. There are no new references, as the closer has removed the
 * file from the table. The references are counted before the calls in progress. So if
 * both counts are equal, no request was missed.
 */
static bool all_are_in_calls(struct uaio_file *file, int64_t waited_ns)
{
	uint32_t tids[MAX_CALLS], refs, nr, nr_native;

	/*
	 * [MB:closing-left] seq_cst: set closer_goes before reading which threads are in
	 * calls. Pairs with uaio_req_execute_part().
	 */
	store_seq_cst(&file->closer_goes, 1);
	refs = load_seq_cst(&file->refs);
	nr = uaio_wq_callers(file, tids, MAX_CALLS);
	if (!uaio_natives_hold(file, &nr_native) ||
	    nr + nr_native != refs - 1 || nr > MAX_CALLS ||
	    (nr && !has_our_thread_ids()))
		return false;
	/*
	 * The kernel may return a request to the library without executing it. A worker
	 * then has to execute the request on the descriptor, so the descriptor must stay
	 * open.
	 */
	if (nr_native &&
	    ((waited_ns < HOPE_MS * 1000000ll && !uaio_native_is_final(file)) ||
	     !submitters_are_in_calls(file, nr_native)))
		return false;
	for (uint32_t i = 0; i < nr; i++)
		if (!is_in_call(tids[i], load_relaxed(&file->fd)))
			return false;
	return true;
}

/*
 * Return: whether the thread that closes `file` may have to wait for req. It may if req
 * is a request of `file`, or if a request of `file` may wait for req in the order of
 * their inode.
 */
static bool holds_up(const struct uaio_req *req, const void *arg)
{
	const struct uaio_file *file = arg;

	return uaio_req_inode(req) == file->inode &&
	       (req->file == file || uaio_waits_may_await(req));
}

/*
 * Execute one request for which the closing thread waits, and which no worker has dequeued.
 * Return: whether there was such a request.
 */
static bool execute_one(struct uaio_file *file)
{
	struct uaio_req *req = uaio_waits_take(holds_up, file);

	if (req)
		uaio_req_complete(req, uaio_req_execute(req));
	return req;
}

/*
 * Return: whether the closing thread has waited long enough for workers, and so executes
 * requests itself.
 */
static bool has_waited_enough(int64_t waited_ns)
{
	return waited_ns >= HOPE_MS * 1000000ll ||
	       (waited_ns >= PATIENCE_NS && uaio_wq_is_full(UAIO_BOUNDED));
}

/*
 * Some requests of `file` wait until a thread tries them on the descriptor (cold reads:
 * page.h). Send these requests to workers.
 */
static void start_what_is_tried(struct uaio_file *file)
{
	struct list startable;

	list_init(&startable);
	uaio_waits_give_up(file, &startable);
	if (!list_is_empty(&startable))
		uaio_req_start_all(&startable);
}

static void take_native_of(struct uaio_group *group)
{
	(void)uaio_ready_take_native(group);
}

/*
 * Complete the requests that the kernel's own AIO has executed (native.h).
 * Return: whether the kernel may still be executing requests of `file`.
 */
static bool take_native(const struct uaio_file *file)
{
	/*
	 * relaxed: an old value does no harm, because the caller repeats this call until
	 * no reference to `file` is left
	 */
	if (likely(!load_relaxed(&file->nr_native)))
		return false;
	(void)uaio_natives_each(take_native_of);
	return true;
}

void uaio_closing_see_through(struct uaio_file *file)
{
	int64_t now = uaio_now_ns(), since = now, pause = FIRST_PAUSE_NS;
	uint32_t refs;

	/*
	 * [MB:file-ref] seq_cst: set is_closing before reading refs. Pairs with uaio_file_put().
	 * [MB:native-closing] seq_cst: set is_closing before looking which workers submit to
	 * kernel AIO. Pairs with uaio_native_submit_blocking().
	 */
	store_seq_cst(&file->is_closing, 1);
	start_what_is_tried(file);
	while ((refs = load_seq_cst(&file->refs)) > 1) {
		if (uaio_file_part_polls(file))
			return;
		if (has_waited_enough(now - since) && execute_one(file))
			continue;
		if (now > since && all_are_in_calls(file, now - since))
			break;
		now = uaio_now_ns();
		/*
		 * Perhaps no other thread reaps the completions of kernel AIO, so this
		 * thread soon tries again to reap them.
		 */
		if (take_native(file) && pause > NATIVE_PAUSE_NS)
			pause = NATIVE_PAUSE_NS;
		(void)uaio_sleep_outside(&file->refs, refs, now + pause);
		if (pause < MAX_PAUSE_NS)
			pause *= 2;
		now = uaio_now_ns();
	}
	/*
	 * relaxed: a thread that reads fd as -1 fails its request with EBADF, as it
	 * would on the closed descriptor
	 */
	store_relaxed(&file->fd, -1);
}
