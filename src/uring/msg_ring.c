/* SPDX-License-Identifier: MIT */
/*
 * Messages from one ring to another
 *
 * IORING_OP_MSG_RING posts a completion of the client's choice to another ring of the
 * process, or to the sender's own. Or it puts a registered file of the sender's ring
 * into a slot of the target ring's table.
 *
 *   I1  The sender finds the target by descriptor and uses it (ring.h, I4) without
 *       holding it. Otherwise two rings that send to each other could deadlock, and the
 *       sender would wait while the thread that holds the target sleeps. So the sender
 *       does not change nr_taken, which only the holder of the target may change. The
 *       target may end as soon as the message is posted.
 *   I2  If the target dies meanwhile, the message is posted, but nobody reads it.
 *
 * Tested by test-uring-msg.c.
 */
#include <errno.h>

#include "base/check.h"
#include "options/config.h"
#include "file/file.h"
#include "check/check.h"
#include "uring/abi.h"
#include "uring/calls.h"
#include "uring/cancel.h"
#include "uring/cq.h"
#include "uring/note.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/share.h"
#include "uring/sq.h"
#include "uring/table.h"

/*
 * Read the message's arguments from a submission.
 * Return: 0; -EINVAL: a member that must be 0 is not, or a flag is unknown.
 */
static int read_msg(const struct io_uring_sqe *raw,
		    struct uaio_uring_msg *ret_msg)
{
	if (raw->buf_index || raw->personality ||
	    raw->msg_ring_flags &
		    ~(IORING_MSG_RING_CQE_SKIP | IORING_MSG_RING_FLAGS_PASS))
		return -EINVAL;
	*ret_msg = (struct uaio_uring_msg){
		.command = (uint32_t)raw->addr,
		.user_data = raw->off,
		.res = raw->len,
		.flags = raw->msg_ring_flags,
		.cqe_flags = raw->file_index,
		.place = (uint32_t)raw->addr3,
		.fd = raw->fd,
	};
	return 0;
}

int uaio_uring_prep_msg(struct uaio_uring_entry *entry)
{
	const struct io_uring_sqe *raw = &entry->raw;
	struct uaio_uring_msg msg;
	int ret = read_msg(raw, &msg);

	if (ret < 0)
		return ret;
	if (!uaio_uring_note_for(entry))
		return -ENOMEM;
	entry->note->kind = UAIO_URING_NOTE_MSG;
	entry->note->msg = msg;
	/*
	 * Rings cannot be registered as files, so a registered file is never a target.
	 */
	if (raw->flags & IOSQE_FIXED_FILE)
		entry->late_error =
			uaio_uring_has_fixed(entry->ring, (uint32_t)raw->fd)
				? -EBADFD
				: -EBADF;
	uaio_uring_call_door(entry, UAIO_URING_MSG);
	return 0;
}

/*
 * Find the ring of fd, and use it (ring.h, I4).
 * Return: 0; -EBADF: fd is not open; -EBADFD: fd is not a ring of this process.
 */
static int use_target(int fd, struct uaio_uring **ret_ring)
{
	struct uaio_uring *ring = uaio_uring_find((uint32_t)fd);

	if (ring && unlikely(!uaio_uring_is_here(ring)))
		ring = uaio_uring_adopt((uint32_t)fd, ring);
	if (!ring)
		return uaio_uring_may_use(fd) ? -EBADFD : -EBADF;
	if (!uaio_uring_use(ring))
		return -EBADF;
	if (!uaio_uring_is_still((uint32_t)fd, ring)) {
		uaio_uring_unuse(ring);
		return -EBADF;
	}
	*ret_ring = ring;
	return 0;
}

static int send_data(struct uaio_uring *target,
		     const struct uaio_uring_msg *msg)
{
	const bool passes_flags = msg->flags & IORING_MSG_RING_FLAGS_PASS;
	const struct io_uring_cqe cqe = {
		.user_data = msg->user_data,
		.res = (int32_t)msg->res,
		.flags = passes_flags ? msg->cqe_flags : 0,
	};

	if (msg->place || msg->flags & ~IORING_MSG_RING_FLAGS_PASS ||
	    (!passes_flags && msg->cqe_flags))
		return -EINVAL;
	/*
	 * relaxed: a client that enables the target in another thread orders that call
	 * and this request
	 */
	if (load_relaxed(&target->is_disabled))
		return -EBADFD;
	return uaio_uring_post_message(target, &cqe);
}

/*
 * Put a registered file of the sender into a slot of the target.
 * Return: the result for the target's completion: as uaio_uring_table_give_file();
 * -EBADF: the sender has no such file; -EINVAL, -ENXIO: the message names no slot.
 */
static int give_file(struct uaio_uring *ring, struct uaio_uring *target,
		     const struct uaio_uring_msg *msg)
{
	struct uaio_file *file =
		uaio_uring_get_fixed(&ring->queue, (int)msg->place);
	uint32_t place = msg->cqe_flags == IORING_FILE_INDEX_ALLOC
				 ? UAIO_URING_ANY_PLACE
				 : msg->cqe_flags - 1;
	int ret = -EBADF;

	if (!file)
		return ret;
	/* cqe_flags is the target's slot plus 1; 0: the message names no slot. */
	ret = msg->cqe_flags ? uaio_uring_table_give_file(target, place, file)
	      : uaio_uring_table_size(target, &target->files) ? -EINVAL
							      : -ENXIO;
	if (ret < 0)
		uaio_file_put(file);
	return ret;
}

static int send_file(struct uaio_uring *ring, struct uaio_uring *target,
		     const struct uaio_uring_msg *msg)
{
	struct io_uring_cqe cqe = { .user_data = msg->user_data };
	int ret;

	if (msg->res || target == ring)
		return -EINVAL;
	/*
	 * relaxed: a client that enables the target in another thread orders that call
	 * and this request
	 */
	if (load_relaxed(&target->is_disabled))
		return -EBADFD;
	ret = give_file(ring, target, msg);
	if (ret < 0 || msg->flags & IORING_MSG_RING_CQE_SKIP)
		return ret;
	cqe.res = ret;
	return uaio_uring_post_message(target, &cqe) < 0 ? -EOVERFLOW : ret;
}

int uaio_uring_send(struct uaio_uring *ring, const struct uaio_uring_msg *msg)
{
	struct uaio_uring *target;
	int ret = use_target(msg->fd, &target);

	if (ret < 0)
		return ret;
	if (unlikely(uaio_config.is_examined))
		uaio_check_pass(ring ? uaio_queue_tail(&ring->queue) : 0,
				uaio_queue_tail(&target->queue));
	if (msg->command == IORING_MSG_DATA)
		ret = send_data(target, msg);
	else
		ret = msg->command == IORING_MSG_SEND_FD
			      ? send_file(ring, target, msg)
			      : -EINVAL;
	uaio_uring_unuse(target);
	return ret;
}

long uaio_uring_send_blindly(const void *arg, uint32_t nr)
{
	struct uaio_uring_msg msg;
	struct io_uring_sqe raw;

	if (!arg || nr != 1)
		return -EINVAL;
	if (uaio_uring_copy_in(&raw, (uintptr_t)arg, sizeof(raw)) < 0)
		return -EFAULT;
	if (raw.flags || raw.opcode != IORING_OP_MSG_RING ||
	    read_msg(&raw, &msg) < 0 || msg.command != IORING_MSG_DATA)
		return -EINVAL;
	return uaio_uring_send(NULL, &msg);
}
