/* SPDX-License-Identifier: MIT */
/*
 * Functions of liburing versions after 2.3. uaio has them, but the liburing that this
 * program is built with does not.
 */
#undef NDEBUG
#include "library.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static char memory[BYTES] __attribute__((aligned(BYTES)));

#define FIND(type, name, ...) \
	type (*name##_)(__VA_ARGS__) = (type(*)(__VA_ARGS__))find(#name)

/*
 * If the kernel lacks the feature, ret must be -EINVAL or -EOPNOTSUPP.
 * Return: whether the kernel has it.
 */
static int knows(const char *what, int ret)
{
	say(what, ret);
	assert(ret >= 0 || ret == -EINVAL || ret == -EOPNOTSUPP);
	return ret >= 0;
}

static void expect_nops(struct io_uring *ring, unsigned nr)
{
	struct io_uring_cqe *cqe;

	prepare_nops(ring, nr);
	assert(io_uring_submit_and_wait(ring, nr) == (int)nr);
	for (unsigned i = 0; i < nr; i++) {
		assert(io_uring_peek_cqe(ring, &cqe) == 0);
		assert(cqe->user_data == i && cqe->res == 0);
		io_uring_cqe_seen(ring, cqe);
	}
	assert(io_uring_peek_cqe(ring, &cqe) == -EAGAIN);
}

static void use_newer_buffers(void)
{
	FIND(void *, io_uring_setup_buf_ring, struct io_uring *, unsigned, int,
	     unsigned, int *);
	FIND(int, io_uring_free_buf_ring, struct io_uring *, void *, unsigned,
	     int);
	FIND(int, io_uring_buf_ring_head, struct io_uring *, int, uint16_t *);
	FIND(int, io_uring_clone_buffers, struct io_uring *, struct io_uring *);
	FIND(int, io_uring_clone_buffers_offset, struct io_uring *,
	     struct io_uring *, unsigned, unsigned, unsigned, unsigned);
	const struct iovec iov[2] = { { memory, 100 }, { memory, BYTES } };
	struct io_uring ring, other;
	uint16_t head = 9;
	int error;
	void *bufs;

	set_up(&ring, 8, 0);
	set_up(&other, 8, 0);
	bufs = io_uring_setup_buf_ring_(&ring, 8, 3, 0, &error);
	assert(bufs && error == 0);
	assert(!io_uring_setup_buf_ring_(&ring, 8, 3, 0, &error) &&
	       error == -EEXIST);
	assert(!io_uring_setup_buf_ring_(&ring, 7, 4, 0, &error) &&
	       error == -EINVAL);
	if (knows("buf_ring_head", io_uring_buf_ring_head_(&ring, 3, &head)))
		assert(head == 0);
	assert(io_uring_free_buf_ring_(&ring, bufs, 8, 3) == 0);
	assert(io_uring_register_buffers(&ring, iov, 2) == 0);
	if (knows("clone_buffers", io_uring_clone_buffers_(&other, &ring))) {
		int zero = open("/dev/zero", O_RDONLY);

		read_at(&other, zero, 0, memory);
		assert(io_uring_unregister_buffers(&other) == 0);
		close(zero);
	}
	/*
	 * `ring` now has a registered index. Clone its second buffer as the first one
	 * of `other`.
	 */
	assert(io_uring_register_ring_fd(&ring) == 1);
	if (knows("clone_buffers_offset",
		  io_uring_clone_buffers_offset_(&other, &ring, 0, 1, 1, 0))) {
		int zero = open("/dev/zero", O_RDONLY);

		read_at(&other, zero, 0, memory + 1000);
		close(zero);
	}
	io_uring_queue_exit(&ring);
	io_uring_queue_exit(&other);
}

static void use_newer_waits(void)
{
	FIND(int, io_uring_wait_cqes_min_timeout, struct io_uring *,
	     struct io_uring_cqe **, unsigned, struct __kernel_timespec *,
	     unsigned, sigset_t *);
	FIND(int, io_uring_submit_and_wait_min_timeout, struct io_uring *,
	     struct io_uring_cqe **, unsigned, struct __kernel_timespec *,
	     unsigned, sigset_t *);
	FIND(int, io_uring_submit_and_wait_reg, struct io_uring *,
	     struct io_uring_cqe **, unsigned, int);
	FIND(int, io_uring_set_iowait, struct io_uring *, bool);
	struct __kernel_timespec late = { .tv_sec = 60 };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ret;

	set_up(&ring, 8, 0);
	prepare_nops(&ring, 1);
	/*
	 * The call waits for four completions. When the minimum time is over, there is
	 * one completion, so the wait ends.
	 */
	ret = io_uring_submit_and_wait_min_timeout_(&ring, &cqe, 4, &late, 1000,
						    NULL);
	if (knows("min_timeout", ret)) {
		assert(ret == 1 && cqe);
		assert(io_uring_wait_cqes_min_timeout_(&ring, &cqe, 4, &late,
						       1000, NULL) == 0);
		assert(cqe && cqe->user_data == 0);
		io_uring_cqe_seen(&ring, cqe);
	} else {
		assert(io_uring_submit_and_wait(&ring, 1) == 1);
		io_uring_cq_advance(&ring, 1);
	}
	ret = io_uring_submit_and_wait_reg_(&ring, &cqe, 1, 0);
	assert(ret == -EINVAL || ret == -EFAULT);
	if (knows("set_iowait", io_uring_set_iowait_(&ring, false))) {
		expect_nops(&ring, 3);
		assert(io_uring_set_iowait_(&ring, true) == 0);
	}
	expect_nops(&ring, 3);
	io_uring_queue_exit(&ring);
}

static void prepare_wide(struct io_uring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_nop(sqe);
	sqe->rw_flags = 1 << 5; /* IORING_NOP_CQE32 */
	sqe->user_data = 77;
}

/* Return: how many slots of the completion queue these CQEs occupy. */
static unsigned count_slots(struct io_uring_cqe **cqes, unsigned nr)
{
	unsigned nr_slots = 0;

	for (unsigned i = 0; i < nr; i++)
		nr_slots += cqes[i]->flags & 1 << 15 ? 2 : 1;
	return nr_slots;
}

/*
 * A ring may contain CQEs of one and of two slots. If a CQE of two slots does not fit at
 * the end of the queue, another CQE fills the last slot.
 */
static void use_newer_mixed(void)
{
	struct io_uring_cqe *cqes[8], *cqe;
	struct io_uring_params p = { .flags = 1 << 18 }; /* CQE_MIXED */
	struct io_uring ring;
	unsigned nr;

	if (!knows("mixed", io_uring_queue_init_params(4, &ring, &p)))
		return;
	assert(ring.cq.ring_entries == 8);
	prepare_nops(&ring, 1);
	prepare_wide(&ring);
	prepare_nops(&ring, 1);
	prepare_wide(&ring);
	assert(io_uring_submit_and_wait(&ring, 6) == 4);
	assert(io_uring_peek_batch_cqe(&ring, cqes, 2) == 2);
	nr = io_uring_peek_batch_cqe(&ring, cqes, 8);
	assert(nr == 4 && count_slots(cqes, nr) == 6);
	for (unsigned i = 0; i < nr; i++)
		assert(cqes[i]->user_data == (i % 2 ? 77 : 0));
	io_uring_cq_advance(&ring, 6);
	prepare_nops(&ring, 1);
	prepare_wide(&ring);
	/*
	 * The second CQE does not fit into the last slot of the queue. So the ring posts
	 * a CQE without a request, which fills that slot.
	 */
	assert(io_uring_submit_and_wait(&ring, 2) == 2);
	assert(io_uring_wait_cqe(&ring, &cqe) == 0 && cqe->user_data == 0);
	assert(io_uring_peek_batch_cqe(&ring, cqes, 8) == 3);
	assert(cqes[0] == cqe && cqes[1]->flags & 1 << 5);
	assert(cqes[2]->user_data == 77 && cqes[2]->flags & 1 << 15);
	io_uring_cq_advance(&ring, 1);
	assert(io_uring_wait_cqes(&ring, &cqe, 1, NULL, NULL) == 0);
	assert(cqe->user_data == 77);
	io_uring_cq_advance(&ring, 2);
	assert(io_uring_wait_cqes(&ring, &cqe, 0, NULL, NULL) == -EAGAIN);
	io_uring_queue_exit(&ring);
}

/*
 * io_uring_queue_mmap() must take the sizes of the queues from the parameters. The
 * ring's memory holds the sizes, too, but any program that has mapped the ring can
 * overwrite them. This test overwrites them first.
 */
static void use_newer_sizes(void)
{
	struct io_uring_params p = { 0 };
	struct io_uring ring, again;
	int fd;

	assert(io_uring_queue_init_params(8, &ring, &p) == 0);
	*ring.sq.kring_entries = *ring.cq.kring_entries = 1 << 30;
	*ring.sq.kring_mask = *ring.cq.kring_mask = (1 << 30) - 1;
	fd = dup(ring.ring_fd);
	assert(fd >= 0 && io_uring_queue_mmap(fd, &p, &again) == 0);
	assert(again.sq.ring_entries == 8 && again.sq.ring_mask == 7);
	assert(again.cq.ring_entries == 16 && again.cq.ring_mask == 15);
	io_uring_queue_exit(&again);
	io_uring_queue_exit(&ring);
}

static void use_newer_rings(void)
{
	FIND(int, io_uring_close_ring_fd, struct io_uring *);
	FIND(int, io_uring_enable_rings, struct io_uring *);
	FIND(int, io_uring_register_restrictions, struct io_uring *,
	     struct io_uring_restriction *, unsigned);
	FIND(int, io_uring_resize_rings, struct io_uring *,
	     struct io_uring_params *);
	FIND(int, io_uring_register_clock, struct io_uring *, void *);
	struct io_uring_restriction only_nops = {
		.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_NOP
	};
	struct io_uring_params larger = { 0 };
	uint32_t clock[4] = { CLOCK_MONOTONIC };
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	set_up(&ring, 8, 0);
	assert(io_uring_close_ring_fd_(&ring) == -EINVAL ||
	       io_uring_close_ring_fd_(&ring) == -EOPNOTSUPP);
	assert(io_uring_register_ring_fd(&ring) == 1);
	if (knows("close_ring_fd", io_uring_close_ring_fd_(&ring))) {
		assert(io_uring_close_ring_fd_(&ring) == -EBADF);
		expect_nops(&ring, 5);
		assert(io_uring_register_files_sparse(&ring, 4) == 0);
	}
	io_uring_queue_exit(&ring);

	set_up(&ring, 8, IORING_SETUP_R_DISABLED);
	prepare_nops(&ring, 1);
	assert(io_uring_submit(&ring) == -EBADFD);
	assert(io_uring_register_restrictions_(&ring, &only_nops, 1) == 0);
	assert(io_uring_enable_rings_(&ring) == 0);
	assert(io_uring_submit_and_wait(&ring, 1) == 1);
	assert(io_uring_wait_cqe(&ring, &cqe) == 0 && cqe->res == 0);
	io_uring_queue_exit(&ring);

	set_up(&ring, 8,
	       IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
	knows("register_clock", io_uring_register_clock_(&ring, clock));
	expect_nops(&ring, 5);
	prepare_nops(&ring, 2);
	assert(io_uring_submit_and_wait(&ring, 2) == 2);
	prepare_nops(&ring, 1);
	larger.sq_entries = 32;
	larger.cq_entries = 64;
	larger.flags = IORING_SETUP_CQSIZE;
	if (knows("resize_rings", io_uring_resize_rings_(&ring, &larger))) {
		assert(ring.sq.ring_entries == 32);
		assert(io_uring_cq_ready(&ring) == 2);
		assert(io_uring_submit_and_wait(&ring, 3) == 1);
		io_uring_cq_advance(&ring, 3);
		expect_nops(&ring, 32);
	}
	io_uring_queue_exit(&ring);
}

static void use_newer_memory(void)
{
	FIND(int, io_uring_queue_init_mem, unsigned, struct io_uring *,
	     struct io_uring_params *, void *, size_t);
	const unsigned no_mmap = 1 << 14, fd_only = 1 << 15;
	struct io_uring_params p = { 0 };
	struct io_uring ring;
	void *buf = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int ret;

	assert(buf != MAP_FAILED);
	assert(io_uring_queue_init_mem_(8, &ring, &p, buf, BYTES) == -ENOMEM);
	memset(&p, 0, sizeof(p));
	p.flags = no_mmap;
	ret = io_uring_queue_init_params(8, &ring, &p);
	say("no_mmap", ret);
	/*
	 * The machine may have no huge pages, or too few for the SQEs and the rings.
	 */
	assert(ret == 0 || ret == -EINVAL || ret == -ENOMEM);
	if (ret == 0) {
		expect_nops(&ring, 8);
		io_uring_queue_exit(&ring);
	}
	memset(&p, 0, sizeof(p));
	p.flags = no_mmap | fd_only;
	ret = io_uring_queue_init_params(8, &ring, &p);
	say("fd_only", ret);
	assert(ret == 0 || ret == -EINVAL || ret == -ENOMEM);
	if (ret == 0) {
		assert(ring.ring_fd == -1);
		expect_nops(&ring, 8);
		io_uring_queue_exit(&ring);
	}
	munmap(buf, BYTES);
}

void use_newer(void)
{
	use_newer_buffers();
	use_newer_waits();
	use_newer_mixed();
	use_newer_sizes();
	use_newer_rings();
	use_newer_memory();
}
