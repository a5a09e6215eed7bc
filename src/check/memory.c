/* SPDX-License-Identifier: MIT */
/*
 * Lists the memory that the system call of a request reads or writes. The program must
 * keep this memory until the request is complete. The library copies other arguments
 * (vectors, paths, addresses) at submission, so the program may reuse them at once.
 *
 * Tested by test-check.c.
 */
#include <aio.h>
#include <string.h>
#include <sys/uio.h>

#include "base/uaddr.h"
#include "op/args.h"
#include "op/op.h"
#include "check/checkint.h"

enum {
	STATX_BYTES = 256
	/* size of struct statx in the kernel; musl may lack this struct */
};

struct each {
	uaio_check_memory_fn *function;
	void *arg;
	bool is_written;
};

static void add(const struct each *each, const void *at, size_t bytes)
{
	if (at && bytes && uaio_is_accessible((uintptr_t)at, bytes))
		each->function(each->arg, (uintptr_t)at, bytes,
			       each->is_written);
}

static void add_written(const struct each *each, const void *at, size_t bytes)
{
	struct each other = *each;

	other.is_written = true;
	add(&other, at, bytes);
}

/* Report several vectors as one piece if they are adjacent in memory. */
static void add_vectors(const struct each *each, const void *iovs, uint64_t nr)
{
	struct iovec sum = { .iov_len = 0 }, iov;

	for (uint64_t i = 0; i < nr && i < UAIO_CHECK_PARTS_MAX; i++) {
		memcpy(&iov, (const char *)iovs + i * sizeof(iov), sizeof(iov));
		if ((char *)sum.iov_base + sum.iov_len == iov.iov_base) {
			sum.iov_len += iov.iov_len;
			continue;
		}
		add(each, sum.iov_base, sum.iov_len);
		sum = iov;
	}
	add(each, sum.iov_base, sum.iov_len);
}

/*
 * If the kernel reads (or writes) a message's bytes, it also reads (or writes) its
 * control data.
 */
static void add_message(const struct each *each, const struct uaio_args *args)
{
	add_vectors(each, args->in, args->in_bytes / sizeof(struct iovec));
	add(each, args->control, args->control_bytes);
	add_written(each, args->sender, args->sender_bytes);
	if (each->is_written)
		add(each, args->out,
		    args->out ? sizeof(struct uaio_msghdr) : 0);
}

void uaio_check_memory_of(const struct uaio_sqe *sqe,
			  uaio_check_memory_fn *function, void *arg)
{
	struct each reads = { function, arg, .is_written = false };
	struct each writes = { function, arg, .is_written = true };

	/*
	 * The program must keep the aiocb, because the library writes the result to it.
	 */
	if (sqe->door == UAIO_RULES_OF_POSIX)
		add(&writes, (const void *)(uintptr_t)sqe->data,
		    sizeof(struct aiocb));
	/*
	 * If by_door is set, the memory is not known yet: the front-end (io_uring)
	 * chooses it when the request is executed.
	 */
	if (sqe->by_door)
		return;
	switch (sqe->op) {
	case UAIO_OP_READ:
	case UAIO_OP_RECV: add(&writes, sqe->buf, sqe->len); break;
	case UAIO_OP_WRITE:
	case UAIO_OP_SEND:
	case UAIO_OP_SEND_ZC: add(&reads, sqe->buf, sqe->len); break;
	case UAIO_OP_READV: add_vectors(&writes, sqe->iov, sqe->len); break;
	case UAIO_OP_WRITEV: add_vectors(&reads, sqe->iov, sqe->len); break;
	case UAIO_OP_RECVMSG: add_message(&writes, sqe->args); break;
	case UAIO_OP_SENDMSG:
	case UAIO_OP_SENDMSG_ZC: add_message(&reads, sqe->args); break;
	case UAIO_OP_STATX: add(&writes, sqe->args->out, STATX_BYTES); break;
	case UAIO_OP_GETXATTR:
	case UAIO_OP_FGETXATTR:
		add(&writes, sqe->args->out, sqe->args->out_bytes);
		break;
	default: break;
	}
}

bool uaio_check_is_control(const struct uaio_sqe *sqe, uintptr_t at)
{
	return sqe->door == UAIO_RULES_OF_POSIX && at == sqe->data;
}

bool uaio_check_is_header(const struct uaio_sqe *sqe, uintptr_t at)
{
	return sqe->op == UAIO_OP_RECVMSG && !sqe->by_door &&
	       at == (uintptr_t)sqe->args->out;
}

enum { LANES = 4 };

static uint64_t word_at(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

bool uaio_check_hash(uintptr_t at, size_t bytes, uint64_t *seed)
{
	const char *from = (const char *)at;
	uint64_t lanes[LANES] = { *seed, 1, 2, 3 };
	size_t done = 0;

	if (!uaio_can_read(at, bytes))
		return false;
	for (; bytes - done >= sizeof(lanes); done += sizeof(lanes))
		for (unsigned i = 0; i < LANES; i++)
			lanes[i] = mix(lanes[i], word_at(from + done + i * 8));
	for (; done < bytes; done++)
		lanes[done % LANES] =
			mix(lanes[done % LANES], (unsigned char)from[done]);
	for (unsigned i = 1; i < LANES; i++)
		lanes[0] = mix(lanes[0], lanes[i]);
	*seed = lanes[0];
	return true;
}
