/* SPDX-License-Identifier: MIT */
/*
 * The functions that submit: aio_read, aio_write, aio_fsync and lio_listio. Tested by
 * test-posix.c.
 */
#include "posix/posix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "options/config.h"
#include "proc/entry.h"
#include "file/file.h"
#include "check/check.h"
#include "ready/waiter.h"
#include "issue/submit.h"
#include "posix/door.h"
#include "posix/note.h"
#include "posix/wait.h"

enum { PRIORITY_MAX = 20 }; /* AIO_PRIO_DELTA_MAX */

/* State of one call of aio_read, aio_write, aio_fsync or lio_listio. */
struct call {
	struct uaio_batch batch;
	/* the calling thread must execute its requests itself */
	bool executes;
	/* at least one member of the list was submitted */
	bool has_submitted;
	struct uaio_posix_list *list; /* borrows; or NULL */
};

static int refuse(struct aiocb *aiocb, int error)
{
	if (unlikely(uaio_config.is_examined))
		uaio_check_aiocb_refused((uintptr_t)aiocb);
	aiocb->UAIO_AIOCB_RESULT = -1;
	/*
	 * [MB:aiocb] release: the result is written. Pairs with uaio_posix_error().
	 */
	store_release(&aiocb->UAIO_AIOCB_ERROR, -error);
	return error;
}

/*
 * Execute a request of 0 bytes by pread() or pwrite(), or by read() or write() if it is at
 * the file's own position. These check the file even if there is nothing to transfer;
 * preadv() and pwritev() would not check it.
 * Return: the result.
 */
static int try_nothing(const struct uaio_sqe *sqe)
{
	if (unlikely(sqe->off == UAIO_OFF_POSITION))
		return (int)(sqe->op == UAIO_OP_READ
				     ? sys_read(sqe->fd, sqe->buf, 0)
				     : sys_write(sqe->fd, sqe->buf, 0));
	return (int)(sqe->op == UAIO_OP_READ
			     ? sys_pread(sqe->fd, sqe->buf, 0, sqe->off)
			     : sys_pwrite(sqe->fd, sqe->buf, 0, sqe->off));
}

static bool is_of_bytes(const struct uaio_sqe *sqe)
{
	return sqe->op == UAIO_OP_READ || sqe->op == UAIO_OP_WRITE;
}

/*
 * Shorten a request to the greatest length that one system call transfers. Before that,
 * check that the whole buffer is in user memory, as the kernel does.
 */
static void cut_bytes(struct uaio_sqe *sqe)
{
	if (likely(sqe->len <= UAIO_RW_BYTES_MAX))
		return;
	if (!uaio_is_user_range((uintptr_t)sqe->buf, sqe->len))
		sqe->buf = (void *)UINTPTR_MAX; /* fails with EFAULT */
	sqe->len = UAIO_RW_BYTES_MAX;
}

/*
 * Return: whether the file refuses the request's offset (ESPIPE). glibc then calls read()
 * or write(), which ignore the offset.
 */
static bool is_at_position(uint32_t file_flags, const struct uaio_sqe *sqe)
{
	return unlikely(file_flags &
			(UAIO_FILE_F_NO_PREAD | UAIO_FILE_F_NO_PWRITE)) &&
	       is_of_bytes(sqe) &&
	       file_flags & (sqe->op == UAIO_OP_READ ? UAIO_FILE_F_NO_PREAD
						     : UAIO_FILE_F_NO_PWRITE);
}

/*
 * Submit a request for a file.
 * Return: IS_SUBMITTED; -EAGAIN: resources are lacking, so the request is refused; any
 * other value: the request is complete with this result.
 */
enum { IS_SUBMITTED = 1 };

typedef int add_fn(struct uaio_batch *batch, struct uaio_file *file,
		   const struct uaio_sqe *sqe);

static inline __attribute__((always_inline)) int
add_to(struct uaio_batch *batch, struct uaio_file *file, uint32_t file_flags,
       struct uaio_sqe *sqe, add_fn *add)
{
	int ret;

	if (is_at_position(file_flags, sqe))
		sqe->off = UAIO_OFF_POSITION;
	/* A stream (socket or pipe) has no offset: ignore the client's offset. */
	if (file_flags & UAIO_FILE_F_STREAM)
		sqe->off = 0;
	else if (unlikely(!sqe->len) && is_of_bytes(sqe))
		return try_nothing(sqe);
	else if (sqe->op == UAIO_OP_WRITE)
		/*
		 * If RLIMIT_FSIZE is set, a worker makes the call: workers block
		 * SIGXFSZ, like glibc's threads.
		 */
		sqe->is_async = unlikely(uaio_posix_has_size_limit());
	cut_bytes(sqe);
	ret = add(batch, file, sqe);
	return ret < 0 ? ret : IS_SUBMITTED;
}

/*
 * Look up the file and submit the request.
 * Return: like add_to().
 */
static int look_up_and_add(struct uaio_batch *batch, struct uaio_sqe *sqe)
{
	struct uaio_file *file;
	uint32_t flags;
	int ret;

	do {
		ret = uaio_look_up(sqe->fd, &file);
		if (ret < 0)
			return ret;
	} while (unlikely(!uaio_file_read_flags(file, sqe->fd, &flags)));
	return add_to(batch, file, flags, sqe, uaio_batch_add);
}

/*
 * For a thread with its own descriptor table (table.h): open the file, and execute the
 * request in this thread.
 * Return: like add_to().
 */
static __attribute__((noinline)) int execute(struct uaio_batch *batch,
					     struct uaio_sqe *sqe)
{
	struct uaio_file *file;
	int ret = uaio_file_open_parted(sqe->fd, &file);

	if (ret < 0)
		return ret;
	ret = add_to(batch, file, load_relaxed(&file->flags), sqe,
		     uaio_batch_add_parted);
	uaio_file_put(file);
	return ret;
}

/* Check a request, and submit or execute it. Return: as add_to(). */
static int add(struct call *call, struct uaio_sqe *sqe)
{
	int ret;

	/* Like the kernel, check the offset before the descriptor. */
	if (unlikely(sqe->op == UAIO_NR_OPS || sqe->off < 0))
		return -EINVAL;
	ret = unlikely(call->executes) ? execute(&call->batch, sqe)
				       : look_up_and_add(&call->batch, sqe);
	return ret == -ENOMEM ? -EAGAIN : ret;
}

/*
 * Decrement nr_left (note.h): for a member that was refused, or for the call itself.
 */
static void leave_list(struct uaio_posix_list *list)
{
	uaio_queue_lock(&uaio_posix_queue);
	uaio_posix_list_leave_locked(list);
	uaio_queue_unlock(&uaio_posix_queue);
}

static bool has_bad_priority(const struct aiocb *aiocb,
			     const struct uaio_sqe *sqe)
{
	return unlikely(aiocb->aio_reqprio < 0 ||
			aiocb->aio_reqprio > PRIORITY_MAX) &&
	       is_of_bytes(sqe);
}

/*
 * Submit one request. Its error code becomes EINPROGRESS before other threads can see
 * the aiocb. *ret_note: the note that the caller must end (uaio_posix_note_end()) after
 * it has left the library; or NULL.
 * Return: 0. If the request is refused: -EAGAIN: resources are lacking; -EINVAL: the
 * priority is invalid.
 */
static int submit(struct call *call, struct aiocb *aiocb, struct uaio_sqe *sqe,
		  struct uaio_posix_note **ret_note)
{
	uint64_t word = 0;
	int ret = 0;

	*ret_note = NULL;
	if (unlikely(uaio_config.is_examined))
		uaio_check_aiocb((uintptr_t)aiocb);
	if (has_bad_priority(aiocb, sqe))
		return refuse(aiocb, -EINVAL);
	if (call->list || aiocb->aio_sigevent.sigev_notify != SIGEV_NONE)
		ret = uaio_posix_word_new(&aiocb->aio_sigevent, call->list,
					  &word, ret_note);
	if (unlikely(ret < 0))
		return refuse(aiocb, ret);
	sqe->data = sqe->key = (uintptr_t)aiocb;
	sqe->word = word;
	/*
	 * relaxed: the store of the final error code comes later, ordered by a lock of
	 * the front-end or of a worker
	 */
	store_relaxed(&aiocb->UAIO_AIOCB_ERROR, EINPROGRESS);
	ret = add(call, sqe);
	if (likely(ret == IS_SUBMITTED))
		return 0;
	if (ret != -EAGAIN) {
		uaio_batch_post(&call->batch);
		uaio_posix_answer(aiocb, word, ret, call->executes);
		return 0;
	}
	if (word)
		uaio_posix_word_drop(word);
	*ret_note = NULL;
	return refuse(aiocb, ret);
}

static struct uaio_sqe translate(const struct aiocb *aiocb, enum uaio_op op)
{
	return (struct uaio_sqe){
		.op = (uint8_t)op,
		.fd = aiocb->aio_fildes,
		.door = UAIO_RULES_OF_POSIX,
		.off = aiocb->aio_offset,
		.buf = (void *)aiocb->aio_buf,
		.len = aiocb->aio_nbytes,
	};
}

static int submit_alone(struct aiocb *aiocb, struct uaio_sqe *sqe)
{
	struct uaio_posix_note *note;
	struct call call;
	int ret = uaio_posix_enter(&call.executes);

	if (unlikely(ret < 0))
		return refuse(aiocb, ret);
	call.list = NULL;
	uaio_batch_begin(&call.batch, &uaio_posix_queue);
	ret = submit(&call, aiocb, sqe, &note);
	uaio_batch_end(&call.batch);
	uaio_leave();
	if (unlikely(note))
		uaio_posix_note_end(note);
	return ret;
}

int uaio_posix_read(struct aiocb *aiocb)
{
	struct uaio_sqe sqe = translate(aiocb, UAIO_OP_READ);

	return submit_alone(aiocb, &sqe);
}

int uaio_posix_write(struct aiocb *aiocb)
{
	struct uaio_sqe sqe = translate(aiocb, UAIO_OP_WRITE);

	return submit_alone(aiocb, &sqe);
}

int uaio_posix_fsync(int op, struct aiocb *aiocb)
{
	struct uaio_sqe sqe = {
		.op = op == O_DSYNC ? UAIO_OP_FDSYNC : UAIO_OP_FSYNC,
		.fd = aiocb->aio_fildes,
		.door = UAIO_RULES_OF_POSIX,
	};

	if (op != O_SYNC && op != O_DSYNC)
		return -EINVAL;
	if (sys_fcntl(sqe.fd, F_GETFL, 0) < 0)
		return -EBADF;
	return submit_alone(aiocb, &sqe);
}

/*
 * Lists
 */

enum { NOTES_MAX = 16 };

/*
 * The notes (note.h) of requests that this call has submitted. The call must pass each
 * note to uaio_posix_note_end().
 */
struct notes {
	struct uaio_posix_note *notes[NOTES_MAX];
	unsigned nr;
};

/*
 * End the notes: notify the client of requests that have completed inside this call. The
 * caller has already posted the batch's completions. All other requests complete later,
 * in threads that notify the client themselves.
 */
static void end_notes(struct notes *notes)
{
	for (unsigned i = 0; i < notes->nr; i++)
		uaio_posix_note_end(notes->notes[i]);
	notes->nr = 0;
}

/*
 * Notify the client of requests that have completed inside this call. Handlers of the
 * client may run, so the call first leaves the library. After the notification it
 * enters the library again.
 */
static void notify_inline(struct call *call, struct notes *notes)
{
	uaio_batch_end(&call->batch);
	uaio_leave();
	end_notes(notes);
	(void)uaio_enter();
	uaio_batch_begin(&call->batch, &uaio_posix_queue);
}

static bool is_member(const struct aiocb *aiocb)
{
	return aiocb && aiocb->aio_lio_opcode != LIO_NOP;
}

/* Return: the operation for aio_lio_opcode; UAIO_NR_OPS if that is unknown. */
static enum uaio_op op_of(const struct aiocb *aiocb)
{
	return aiocb->aio_lio_opcode == LIO_READ    ? UAIO_OP_READ
	       : aiocb->aio_lio_opcode == LIO_WRITE ? UAIO_OP_WRITE
						    : UAIO_NR_OPS;
}

static int submit_member(struct call *call, struct aiocb *aiocb,
			 struct notes *notes)
{
	struct uaio_sqe sqe = translate(aiocb, op_of(aiocb));
	struct uaio_posix_note *note;
	int ret;

	ret = submit(call, aiocb, &sqe, &note);
	if (likely(ret == 0))
		call->has_submitted = true;
	else if (call->list)
		leave_list(call->list);
	if (note)
		notes->notes[notes->nr++] = note;
	if (unlikely(notes->nr == NOTES_MAX))
		notify_inline(call, notes);
	return ret;
}

/*
 * Submit all members of the list.
 * Return: 0; or the error with which the last refused member was refused.
 */
static int submit_members(struct call *call, struct aiocb *const members[],
			  int nr, struct notes *notes)
{
	int ret = 0;

	uaio_batch_begin(&call->batch, &uaio_posix_queue);
	for (int i = 0; i < nr; i++) {
		int refused = is_member(members[i])
				      ? submit_member(call, members[i], notes)
				      : 0;

		ret = refused < 0 ? refused : ret;
	}
	uaio_batch_end(&call->batch);
	return ret;
}

static uint32_t count_members(struct aiocb *const members[], int nr)
{
	uint32_t nr_members = 0;

	for (int i = 0; i < nr; i++)
		nr_members += is_member(members[i]);
	return nr_members;
}

static bool has_failed(struct aiocb *const members[], int nr)
{
	for (int i = 0; i < nr; i++)
		if (is_member(members[i]) && uaio_posix_error(members[i]))
			return true;
	return false;
}

/*
 * Wait until all members are complete, and drop the call's reference to the list.
 */
static int wait_for_list(struct uaio_posix_list *list, bool sleeps_only)
{
	const struct uaio_wait wait = {
		.deadline_ns = UAIO_FOREVER,
		.sleeps_only = sleeps_only,
		.outlasts_stops = true,
	};
	int ret;

	(void)uaio_enter();
	ret = uaio_posix_wait_need((uintptr_t)&list->is_done, &wait);
	/*
	 * The wait may have read is_done without the lock. Acquire the lock, so that
	 * this thread sees the results.
	 */
	uaio_queue_lock(&uaio_posix_queue);
	uaio_queue_unlock(&uaio_posix_queue);
	uaio_leave();
	uaio_posix_list_put(list);
	return ret;
}

/*
 * Submit all members of the list. Notify the client of those that have completed inside
 * the call.
 */
static int begin_list(struct call *call, struct aiocb *const members[], int nr)
{
	struct notes notes = { .nr = 0 };
	int ret = submit_members(call, members, nr, &notes);

	/*
	 * All members are submitted, so the call itself no longer counts in nr_left.
	 */
	if (call->list)
		leave_list(call->list);
	uaio_leave();
	end_notes(&notes);
	return ret;
}

static int list_and_wait(struct call *call, struct aiocb *const members[],
			 int nr)
{
	int refused = begin_list(call, members, nr);
	int ret = wait_for_list(call->list, call->executes);

	if (ret < 0)
		return ret;
	if (refused < 0 && !call->has_submitted)
		return refused;
	return refused < 0 || has_failed(members, nr) ? -EIO : 0;
}

static int list_and_go(struct call *call, struct aiocb *const members[], int nr)
{
	int ret = begin_list(call, members, nr);

	if (call->list)
		uaio_posix_list_put(call->list);
	return ret;
}

int uaio_posix_listio(int mode, struct aiocb *const members[], int nr,
		      const struct sigevent *event)
{
	bool waits = mode == LIO_WAIT;
	struct call call = { .list = NULL };
	int ret;

	if (mode != LIO_WAIT && mode != LIO_NOWAIT)
		return -EINVAL;
	ret = uaio_posix_enter(&call.executes);
	if (ret < 0)
		return ret;
	if (waits || uaio_posix_notice_kind(event) != UAIO_POSIX_SILENT) {
		call.list = uaio_posix_list_new(waits ? NULL : event,
						count_members(members, nr));
		if (!call.list) {
			uaio_leave();
			return -EAGAIN;
		}
	}
	return waits ? list_and_wait(&call, members, nr)
		     : list_and_go(&call, members, nr);
}
