/* SPDX-License-Identifier: MIT */
/*
 * io_uring_register: registering resources with a ring, and queries
 *
 * Each function checks its arguments in the kernel's order, and reads them from the
 * client's memory one by one, as the kernel does.
 *
 * Tested by test-uring-register.c.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/sys.h"
#include "base/uaddr.h"
#include "options/config.h"
#include "options/options.h"
#include "proc/entry.h"
#include "proc/thread.h"
#include "file/file.h"
#include "check/hint.h"
#include "life/life.h"
#include "wq/wq.h"
#include "uring/abi.h"
#include "uring/calls.h"
#include "uring/kbuf.h"
#include "uring/opdef.h"
#include "uring/ring.h"
#include "uring/rsrc.h"
#include "uring/sq.h"

int uaio_uring_read_one(uint64_t array, uint32_t i, void *ret, size_t bytes)
{
	return array ? uaio_uring_copy_in(ret, array + i * bytes, bytes) : 0;
}

int uaio_uring_check_places(uint32_t size, uint32_t first, uint32_t nr)
{
	uint32_t end;

	if (__builtin_add_overflow(first, nr, &end))
		return -EOVERFLOW;
	if (!size)
		return -ENXIO;
	return end > size ? -EINVAL : 0;
}

/*
 * Buffers
 */

/* Check a vector without touching its memory. */
static int check_vector(const struct iovec *iov)
{
	const uint64_t max = 1ull << 30;

	if (iov->iov_len > SSIZE_MAX)
		return -EINVAL;
	if (!iov->iov_base)
		return iov->iov_len ? -EFAULT : 0;
	if (!iov->iov_len || iov->iov_len > max)
		return -EFAULT;
	return uaio_is_user_range((uintptr_t)iov->iov_base, iov->iov_len)
		       ? 0
		       : -EFAULT;
}

/*
 * Check that the memory is mapped. Called before the library allocates memory for the
 * registration, because that memory might be mapped at the buffer's address.
 */
static int check_buffer(const struct iovec *iov)
{
	int ret = check_vector(iov);

	return ret < 0 || !iov->iov_base ||
			       uaio_can_write((uintptr_t)iov->iov_base,
					      iov->iov_len)
		       ? ret
		       : -EFAULT;
}

/*
 * Put a buffer into a slot. Check the vector again: the client may have changed it
 * since the first check.
 */
static int put_buffer(struct uaio_uring *ring, uint32_t place,
		      const struct iovec *iov, uint64_t tag)
{
	int ret = check_vector(iov);

	if (ret < 0)
		return ret;
	if (!iov->iov_base)
		return tag ? -EINVAL : 0;
	return uaio_uring_table_put_buffer(
		ring, place, (uintptr_t)iov->iov_base, iov->iov_len, tag);
}

/* A buffer to register, as the client describes it. */
struct described {
	struct iovec iov;
	uint64_t tag;
};

static int read_described(uint64_t iovs, uint64_t tags, uint32_t i,
			  struct described *ret)
{
	int err;

	*ret = (struct described){ .tag = 0 };
	err = uaio_uring_read_one(iovs, i, &ret->iov, sizeof(ret->iov));
	return err < 0 ? err
		       : uaio_uring_read_one(tags, i, &ret->tag,
					     sizeof(ret->tag));
}

/* Check all buffers of a table before the table is allocated. */
static int check_buffers(uint64_t iovs, uint32_t nr, uint64_t tags)
{
	struct described buffer;
	int ret = 0;

	for (uint32_t i = 0; iovs && i < nr && ret == 0; i++) {
		ret = read_described(iovs, tags, i, &buffer);
		if (ret == 0)
			ret = check_buffer(&buffer.iov);
		if (ret == 0 && !buffer.iov.iov_base && buffer.tag)
			ret = -EINVAL;
	}
	return ret;
}

/*
 * Register a table of buffers. `iovs` and `tags` are addresses of the client. If `tags`
 * is 0, the entries have no tags; if `iovs` is 0, all slots are empty.
 * Return: the result of io_uring_register().
 */
static long register_buffers(struct uaio_uring *ring, uint64_t iovs,
			     uint32_t nr, uint64_t tags)
{
	struct described buffer;
	int ret;

	if (ring->buffers.nr)
		return -EBUSY;
	if (!nr || nr > UAIO_URING_BUFFERS_MAX)
		return -EINVAL;
	ret = check_buffers(iovs, nr, tags);
	if (ret < 0)
		return ret;
	ret = uaio_uring_table_new(ring, &ring->buffers, nr);
	for (uint32_t i = 0; i < nr && ret == 0; i++) {
		ret = read_described(iovs, tags, i, &buffer);
		if (ret == 0)
			ret = put_buffer(ring, i, &buffer.iov, buffer.tag);
	}
	if (ret < 0)
		uaio_uring_table_abandon(ring, &ring->buffers);
	return ret;
}

static long update_buffers(struct uaio_uring *ring,
			   const struct io_uring_rsrc_update2 *update,
			   uint32_t nr)
{
	int ret = uaio_uring_check_places(ring->buffers.nr, update->offset, nr);
	uint32_t done = 0;

	while (ret == 0 && done < nr) {
		uint32_t place = update->offset + done;
		struct iovec iov;
		uint64_t tag = 0;

		ret = uaio_uring_copy_in(
			&iov, update->data + done * sizeof(iov), sizeof(iov));
		if (ret == 0)
			ret = uaio_uring_read_one(update->tags, done, &tag,
						  sizeof(tag));
		if (ret == 0)
			ret = check_buffer(&iov);
		if (ret == 0 && !iov.iov_base && tag)
			ret = -EINVAL;
		if (ret < 0)
			break;
		(void)uaio_uring_table_empty(ring, &ring->buffers, place);
		ret = put_buffer(ring, place, &iov, tag);
		done += ret == 0;
	}
	return done ? (long)done : ret;
}

static long unregister(struct uaio_uring *ring, struct uaio_uring_table *table,
		       const void *arg, uint32_t nr_args)
{
	if (arg || nr_args)
		return -EINVAL;
	if (!table->nr)
		return -ENXIO;
	if (unlikely(uaio_config.is_examined) && table == &ring->buffers)
		for (uint32_t i = 0; i < table->nr; i++)
			if (table->entries[i])
				uaio_hint_unregistered(
					table->entries[i]->base,
					table->entries[i]->bytes);
	uaio_uring_table_free(ring, table);
	return 0;
}

/* Other opcodes of io_uring_register() */

static long register_rsrc(struct uaio_uring *ring, const void *arg,
			  uint32_t bytes, bool is_file)
{
	struct io_uring_rsrc_register what;
	bool is_sparse;

	if (bytes != sizeof(what))
		return -EINVAL;
	if (uaio_uring_copy_in(&what, (uintptr_t)arg, sizeof(what)) < 0)
		return -EFAULT;
	is_sparse = what.flags & IORING_RSRC_REGISTER_SPARSE;
	if (!what.nr || what.resv2 ||
	    what.flags & ~IORING_RSRC_REGISTER_SPARSE ||
	    (is_sparse && what.data))
		return -EINVAL;
	return is_file ? uaio_uring_register_files(ring, what.data, what.nr,
						   what.tags)
		       : register_buffers(ring, what.data, what.nr, what.tags);
}

static long update_rsrc(struct uaio_uring *ring, const void *arg,
			uint32_t bytes, bool is_file)
{
	struct io_uring_rsrc_update2 update;

	if (bytes != sizeof(update))
		return -EINVAL;
	if (uaio_uring_copy_in(&update, (uintptr_t)arg, sizeof(update)) < 0)
		return -EFAULT;
	if (!update.nr || update.resv || update.resv2)
		return -EINVAL;
	return is_file ? uaio_uring_update_files(ring, &update, update.nr)
		       : update_buffers(ring, &update, update.nr);
}

static long update_files(struct uaio_uring *ring, const void *arg, uint32_t nr)
{
	struct io_uring_rsrc_update2 update = { 0 };
	struct io_uring_rsrc_update from;

	if (!nr)
		return -EINVAL;
	if (uaio_uring_copy_in(&from, (uintptr_t)arg, sizeof(from)) < 0)
		return -EFAULT;
	if (from.resv)
		return -EINVAL;
	update.offset = from.offset;
	update.data = from.data;
	return uaio_uring_update_files(ring, &update, nr);
}

static long register_eventfd(struct uaio_uring *ring, const void *arg,
			     uint32_t nr, bool is_async)
{
	struct uaio_file *file;
	int fd, ret;

	if (nr != 1)
		return -EINVAL;
	if (ring->eventfd)
		return -EBUSY;
	if (uaio_uring_copy_in(&fd, (uintptr_t)arg, sizeof(fd)) < 0)
		return -EFAULT;
	ret = uaio_file_fix(fd, &file);
	if (ret < 0)
		return ret;
	if (!uaio_file_has(file, UAIO_FILE_F_EVENTFD)) {
		uaio_file_put(file);
		return -EINVAL;
	}
	uaio_queue_lock(&ring->queue);
	ring->eventfd = file;
	ring->is_eventfd_async = is_async;
	uaio_queue_unlock(&ring->queue);
	return 0;
}

static long unregister_eventfd(struct uaio_uring *ring, const void *arg,
			       uint32_t nr)
{
	struct uaio_file *file;

	if (arg || nr)
		return -EINVAL;
	uaio_queue_lock(&ring->queue);
	file = ring->eventfd;
	ring->eventfd = NULL;
	uaio_queue_unlock(&ring->queue);
	if (!file)
		return -ENXIO;
	uaio_file_put(file);
	return 0;
}

static long enable(struct uaio_uring *ring, const void *arg, uint32_t nr)
{
	if (arg || nr)
		return -EINVAL;
	if (!load_relaxed(&ring->is_disabled))
		return -EBADFD;
	/* relaxed, all: a client that submits in another thread orders both calls */
	if (ring->setup & IORING_SETUP_SINGLE_ISSUER)
		store_relaxed(&ring->owner, &uaio_entry);
	store_relaxed(&ring->is_restricted, ring->restrictions.is_registered);
	ring->checks_each_sqe |= ring->restrictions.is_registered;
	store_relaxed(&ring->is_disabled, 0);
	return 0;
}

/* Set the clock by which waits on the ring measure time. */
static long register_clock(struct uaio_uring *ring, const void *arg,
			   uint32_t nr)
{
	struct uaio_uring_clock clock;

	if (!arg || nr)
		return -EINVAL;
	if (uaio_uring_copy_in(&clock, (uintptr_t)arg, sizeof(clock)) < 0)
		return -EFAULT;
	if (clock.resv[0] | clock.resv[1] | clock.resv[2] ||
	    (clock.id != CLOCK_MONOTONIC && clock.id != CLOCK_BOOTTIME))
		return -EINVAL;
	/* relaxed: a client that waits in another thread orders both calls */
	store_relaxed(&ring->clock, clock.id);
	return 0;
}

/* Limits of workers */

/* IORING_REGISTER_IOWQ_MAX_WORKERS: limits of the work queue, for all rings. */
static long limit_workers(void *arg, uint32_t nr)
{
	uint32_t asked[2];
	int limits[2], ret;

	if (!arg || nr != 2)
		return -EINVAL;
	if (uaio_uring_copy_in(asked, (uintptr_t)arg, sizeof(asked)) < 0)
		return -EFAULT;
	for (unsigned i = 0; i < 2; i++) {
		if (asked[i] > INT_MAX)
			return -EINVAL;
		/* As in the kernel, 0 leaves a limit unchanged. */
		limits[i] = !asked[i] ? -1
			    : asked[i] > UAIO_WQ_WORKERS_MAX
				    ? UAIO_WQ_WORKERS_MAX
				    : (int)asked[i];
	}
	ret = uaio_limits_set_workers(limits);
	if (ret < 0)
		return ret;
	for (unsigned i = 0; i < 2; i++)
		asked[i] = (uint32_t)limits[i];
	return uaio_uring_copy_out((uintptr_t)arg, asked, sizeof(asked));
}

/*
 * IORING_REGISTER_IOWQ_AFF: choose the processors of workers, for all rings. As in the
 * kernel, bits beyond the size of the kernel's CPU masks are ignored.
 */
static long bind_workers(const void *arg, uint32_t bytes)
{
	struct uaio_cpus cpus = { { 0 } };

	if (!arg || !bytes)
		return -EINVAL;
	if (bytes > uaio_cpus_bytes())
		bytes = (uint32_t)uaio_cpus_bytes();
	if (uaio_uring_copy_in(&cpus, (uintptr_t)arg, bytes) < 0)
		return -EFAULT;
	return uaio_threads_bind(&cpus);
}

/* IORING_UNREGISTER_IOWQ_AFF. */
static long unbind_workers(const void *arg, uint32_t bytes)
{
	static const struct uaio_cpus none;

	return arg || bytes ? -EINVAL : uaio_threads_bind(&none);
}

/* IORING_REGISTER_PROBE and IORING_REGISTER_QUERY: what the library supports */

/* Return: one more than the highest supported opcode of a submission. */
static uint32_t nr_ops(void)
{
	enum { NR_OPS = 64 }; /* greater than all supported opcodes */
	uint32_t nr = NR_OPS;

	while (nr && !uaio_uring_row_of(nr - 1))
		nr--;
	return nr;
}

/* IORING_REGISTER_PROBE: report the supported opcodes. */
static long probe(void *arg, uint32_t nr)
{
	union {
		struct io_uring_probe head;
		uint8_t bytes[sizeof(struct io_uring_probe) +
			      UAIO_URING_OPS_MAX *
				      sizeof(struct io_uring_probe_op)];
	} own;
	const uint32_t nr_there = nr_ops();
	size_t bytes;

	if (!arg || nr > UAIO_URING_OPS_MAX)
		return -EINVAL;
	bytes = sizeof(own.head) + nr * sizeof(own.head.ops[0]);
	if (uaio_uring_copy_in(&own, (uintptr_t)arg, bytes) < 0)
		return -EFAULT;
	for (size_t i = 0; i < bytes; i++)
		if (own.bytes[i])
			return -EINVAL;
	own.head.last_op = (uint8_t)(nr_there - 1);
	if (nr > nr_there)
		nr = nr_there;
	own.head.ops_len = (uint8_t)nr;
	for (unsigned i = 0; i < nr; i++) {
		own.head.ops[i].op = (uint8_t)i;
		if (uaio_uring_row_of(i))
			own.head.ops[i].flags = IO_URING_OP_SUPPORTED;
	}
	return uaio_uring_copy_out((uintptr_t)arg, &own, bytes);
}

static struct uaio_uring_query_ops what_is_served(void)
{
	return (struct uaio_uring_query_ops){
		.nr_ops = nr_ops(),
		.nr_registers = UAIO_URING_REGISTER_END,
		.features = UAIO_URING_FEATURES,
		.setup_flags = UAIO_URING_SETUP_FLAGS,
		.enter_flags = UAIO_URING_ENTER_FLAGS,
		.sqe_flags = UAIO_URING_SQE_FLAGS,
		.nr_queries = UAIO_URING_QUERY_LAST,
	};
}

/* Return: 0; -EOPNOTSUPP: there is no such query; -EINVAL: a bad member. */
static int check_query(const struct uaio_uring_query *query)
{
	if (query->about >= UAIO_URING_QUERY_LAST)
		return -EOPNOTSUPP;
	return query->resv[0] | query->resv[1] | query->resv[2] ||
			       query->result || !query->bytes
		       ? -EINVAL
		       : 0;
}

/*
 * Answer one query. If the client's struct has members that only newer kernels know,
 * set these to zero.
 * Return: 0, also if the answer is an error; -EFAULT. *ret_next: address of the next
 * query.
 */
static int answer(uint64_t at, uint64_t *ret_next)
{
	struct uaio_uring_query_ops ops = what_is_served();
	struct uaio_uring_query query;
	size_t bytes;

	if (uaio_uring_copy_in(&query, at, sizeof(query)) < 0)
		return -EFAULT;
	query.result = check_query(&query);
	bytes = query.bytes < sizeof(ops) ? query.bytes : sizeof(ops);
	/*
	 * The kernel, too, first reads the memory to which it then writes, and ignores
	 * the values that it reads.
	 */
	if (query.result == 0 && !uaio_uring_may_read(query.data, bytes))
		return -EFAULT;
	if (query.result < 0)
		bytes = 0;
	if (uaio_uring_clear(query.data + bytes, query.bytes - bytes) < 0 ||
	    (bytes && uaio_uring_copy_out(query.data, &ops, bytes) < 0))
		return -EFAULT;
	query.bytes = (uint32_t)bytes;
	*ret_next = query.next;
	return uaio_uring_copy_out(at, &query, sizeof(query));
}

long uaio_uring_query(void *arg, uint32_t nr)
{
	enum {
		QUERIES_MAX = 1000
	}; /* as in the kernel: more queries fail, because they may form a cycle */
	uint64_t at = (uintptr_t)arg;

	if (nr)
		return -EINVAL;
	for (unsigned i = 1; at; i++) {
		if (answer(at, &at) < 0)
			return -EFAULT;
		if (i >= QUERIES_MAX)
			return -ERANGE;
	}
	return 0;
}

/* Return: whether the call fails with EFAULT if its argument is NULL. */
static bool has_arg(uint32_t opcode)
{
	return opcode == IORING_REGISTER_BUFFERS ||
	       opcode == IORING_REGISTER_FILES;
}

/* Opcodes that do not concern registered buffers or files. */
static long register_other(struct uaio_uring *ring, uint32_t opcode, void *arg,
			   uint32_t nr)
{
	switch (opcode) {
	case IORING_REGISTER_EVENTFD:
		return register_eventfd(ring, arg, nr, false);
	case IORING_REGISTER_EVENTFD_ASYNC:
		return register_eventfd(ring, arg, nr, true);
	case IORING_UNREGISTER_EVENTFD:
		return unregister_eventfd(ring, arg, nr);
	case IORING_REGISTER_PROBE: return probe(arg, nr);
	case IORING_REGISTER_ENABLE_RINGS: return enable(ring, arg, nr);
	case IORING_REGISTER_RING_FDS:
		return uaio_uring_register_rings(arg, nr);
	case IORING_UNREGISTER_RING_FDS:
		return uaio_uring_unregister_rings(arg, nr);
	case IORING_REGISTER_IOWQ_MAX_WORKERS: return limit_workers(arg, nr);
	case IORING_REGISTER_IOWQ_AFF: return bind_workers(arg, nr);
	case IORING_UNREGISTER_IOWQ_AFF: return unbind_workers(arg, nr);
	case IORING_REGISTER_PBUF_RING:
		return uaio_uring_register_array(ring, arg, nr);
	case IORING_UNREGISTER_PBUF_RING:
		return uaio_uring_unregister_array(ring, arg, nr);
	case IORING_REGISTER_PBUF_STATUS:
		return uaio_uring_array_status(ring, arg, nr);
	case IORING_REGISTER_RESTRICTIONS:
		return uaio_uring_restrict(ring, arg, nr);
	case IORING_REGISTER_PERSONALITY:
		return uaio_uring_register_personality(ring, arg, nr);
	case IORING_UNREGISTER_PERSONALITY:
		return uaio_uring_unregister_personality(ring, arg, nr);
	case IORING_REGISTER_CLOCK: return register_clock(ring, arg, nr);
	case IORING_REGISTER_RESIZE_RINGS:
		return uaio_uring_resize(ring, arg, nr);
	case IORING_REGISTER_MEM_REGION:
		return uaio_uring_register_region(ring, arg, nr);
	case IORING_REGISTER_QUERY: return uaio_uring_query(arg, nr);
	default: return -EINVAL;
	}
}

long uaio_uring_do_register(struct uaio_uring *ring, uint32_t opcode, void *arg,
			    uint32_t nr)
{
	int ret = uaio_uring_check_register(ring, opcode);

	if (ret < 0)
		return ret;
	if (has_arg(opcode) && !arg)
		return -EFAULT;
	switch (opcode) {
	case IORING_REGISTER_BUFFERS:
		return register_buffers(ring, (uintptr_t)arg, nr, 0);
	case IORING_REGISTER_FILES:
		return uaio_uring_register_files(ring, (uintptr_t)arg, nr, 0);
	case IORING_UNREGISTER_BUFFERS:
		return unregister(ring, &ring->buffers, arg, nr);
	case IORING_UNREGISTER_FILES:
		return unregister(ring, &ring->files, arg, nr);
	case IORING_REGISTER_FILES_UPDATE: return update_files(ring, arg, nr);
	case IORING_REGISTER_BUFFERS2:
		return register_rsrc(ring, arg, nr, false);
	case IORING_REGISTER_FILES2: return register_rsrc(ring, arg, nr, true);
	case IORING_REGISTER_BUFFERS_UPDATE:
		return update_rsrc(ring, arg, nr, false);
	case IORING_REGISTER_FILES_UPDATE2:
		return update_rsrc(ring, arg, nr, true);
	case IORING_REGISTER_CLONE_BUFFERS:
		return uaio_uring_clone_buffers(ring, arg, nr);
	case IORING_REGISTER_FILE_ALLOC_RANGE:
		return uaio_uring_limit_places(ring, arg, nr);
	default: return register_other(ring, opcode, arg, nr);
	}
}
