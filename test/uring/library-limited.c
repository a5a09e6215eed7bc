/* SPDX-License-Identifier: MIT */
/*
 * When RLIMIT_MEMLOCK makes the kernel refuse further rings, the library creates them.
 * The process then has rings of both kinds. Linux counts rings towards that limit since
 * 6.14, and did before 5.12.
 *
 * Without the library, the program only prints how many rings the kernel created.
 */
#undef NDEBUG
#include "library.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
	NR_RINGS = 64,
	/* Linux 6.18 counts 16 KiB of locked memory for a ring with this size */
	NR_ENTRIES = 128,
	LIMIT = 256 << 10,
	NR_SLOTS = 16,
	ANON_INODES = 0x09041934, /* ANON_INODE_FS_MAGIC */
	SKIPPED = 77,
};

static struct io_uring rings[NR_RINGS];
static bool is_kernels[NR_RINGS];

/*
 * Limit the locked memory, and become a user who has no other process, because the
 * limit is per user.
 */
static void drop_privileges(void)
{
	const struct rlimit limit = { LIMIT, LIMIT };
	uid_t uid = 50000 + (uid_t)getpid() % 10000;

	assert(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	if (geteuid() == 0 &&
	    (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
	     setresuid(uid, uid, uid) < 0)) {
		printf("another user: %s\n", strerror(errno));
		exit(SKIPPED);
	}
}

static bool is_ring_of_kernel(int fd)
{
	struct statfs fs;

	assert(fstatfs(fd, &fs) == 0);
	return fs.f_type == ANON_INODES;
}

/*
 * Create rings until one is refused. The kernel's rings come first.
 * Return: how many rings there are.
 */
static unsigned make_rings(void)
{
	unsigned nr_kernels = 0, i;
	int ret = 0;

	for (i = 0; i < NR_RINGS && ret == 0; i++) {
		ret = io_uring_queue_init(NR_ENTRIES, &rings[i], 0);
		if (ret < 0)
			break;
		is_kernels[i] = is_ring_of_kernel(rings[i].ring_fd);
		nr_kernels += is_kernels[i];
	}
	if (i == 0 && ret != -ENOMEM)
		exit(SKIPPED);
	printf("rings: %u, %u by the kernel, then %s\n", i, nr_kernels,
	       strerror(-ret));
	assert(i == NR_RINGS || ret == -ENOMEM);
	return i;
}

/*
 * Return: ring number nr of the kernel (or of the library), counted from 0; NULL if
 * there is none.
 */
static struct io_uring *nth(bool of_kernel, unsigned nr)
{
	for (unsigned i = 0; i < NR_RINGS; i++)
		if (is_kernels[i] == of_kernel && nr-- == 0)
			return &rings[i];
	return NULL;
}

/* Submit a NOP. Its completion must come in the same ring. */
static void use(struct io_uring *ring)
{
	static uint64_t number;
	struct io_uring_cqe *cqe;

	io_uring_prep_nop(io_uring_get_sqe(ring));
	ring->sq.sqes[(ring->sq.sqe_tail - 1) & *ring->sq.kring_mask]
		.user_data = ++number;
	assert(io_uring_submit_and_wait(ring, 1) == 1);
	assert(io_uring_peek_cqe(ring, &cqe) == 0);
	assert(cqe->user_data == number && cqe->res == 0);
	io_uring_cqe_seen(ring, cqe);
}

static void use_all(void)
{
	for (unsigned i = 0; i < NR_RINGS; i++)
		use(&rings[i]);
}

/*
 * Fill this thread's 16 slots for registered rings, with rings of the kernel and of the
 * library in turn.
 */
static void use_slots(void)
{
	struct io_uring *registered[NR_SLOTS];
	struct io_uring_rsrc_update update;
	unsigned nr = 0, used = 0;

	for (unsigned i = 0; nr < NR_SLOTS; i++)
		for (int of_kernel = 0; of_kernel < 2; of_kernel++) {
			struct io_uring *ring = nth(of_kernel, i);

			if (!ring || nr == NR_SLOTS)
				continue;
			assert(io_uring_register_ring_fd(ring) == 1);
			used |= 1u << ring->enter_ring_fd;
			registered[nr++] = ring;
			use(ring);
		}
	assert(used == (1u << NR_SLOTS) - 1);
	for (unsigned i = 0; i < nr; i++) {
		use(registered[i]);
		/* A slot that is in use must be refused to rings of both kinds. */
		for (int of_kernel = 0; of_kernel < 2; of_kernel++) {
			struct io_uring *ring = nth(of_kernel, NR_SLOTS - 1);

			if (!ring)
				ring = nth(of_kernel, 0);
			if (!ring)
				continue;
			update = (struct io_uring_rsrc_update){
				.offset =
					(uint32_t)registered[i]->enter_ring_fd,
				.data = (uint64_t)ring->ring_fd,
			};
			assert(syscall(SYS_io_uring_register, ring->ring_fd,
				       IORING_REGISTER_RING_FDS, &update,
				       1) == -1);
			assert(errno == EBUSY);
		}
	}
	for (unsigned i = 0; i < nr; i++)
		assert(io_uring_unregister_ring_fd(registered[i]) == 1);
}

/*
 * MSG_RING between a ring of the kernel and one of the library must fail with EBADFD.
 */
static void send_messages(void)
{
	for (int of_kernel = 0; of_kernel < 2; of_kernel++) {
		struct io_uring *from = nth(of_kernel, 0);
		struct io_uring *to = nth(!of_kernel, 0);
		struct io_uring_cqe *cqe;

		if (!from || !to)
			return;
		io_uring_prep_msg_ring(io_uring_get_sqe(from), to->ring_fd, 1,
				       2, 0);
		assert(io_uring_submit_and_wait(from, 1) == 1);
		assert(io_uring_peek_cqe(from, &cqe) == 0);
		assert(cqe->res == -EBADFD);
		io_uring_cqe_seen(from, cqe);
	}
}

/*
 * Create rings with IORING_SETUP_ATTACH_WQ, which share the workers of another ring.
 */
static void attach(void)
{
	for (int of_kernel = 0; of_kernel < 2; of_kernel++) {
		struct io_uring *other = nth(of_kernel, 0);
		struct io_uring_params params = {
			.flags = IORING_SETUP_ATTACH_WQ,
		};
		struct io_uring ring;

		if (!other)
			continue;
		params.wq_fd = (uint32_t)other->ring_fd;
		assert(io_uring_queue_init_params(NR_ENTRIES, &ring, &params) ==
		       0);
		assert(of_kernel || !is_ring_of_kernel(ring.ring_fd));
		use(&ring);
		io_uring_queue_exit(&ring);
	}
}

/*
 * The kernel counts registered buffers towards the limit, too, but not those of the
 * library's rings.
 */
static void register_buffers(void)
{
	struct iovec iov = { calloc(4, LIMIT), 4 * LIMIT };

	assert(iov.iov_base);
	assert(io_uring_register_buffers(nth(false, 0), &iov, 1) == 0);
	if (nth(true, 0))
		assert(io_uring_register_buffers(nth(true, 0), &iov, 1) ==
		       -ENOMEM);
	assert(io_uring_unregister_buffers(nth(false, 0)) == 0);
	free(iov.iov_base);
}

#if defined(__x86_64__)

/* io_uring calls by the program's own system call instructions */

static __attribute__((noinline)) long own_setup(long nr, void *params)
{
	long ret;

	__asm__ volatile("mov %1, %%eax\n\tsyscall"
			 : "=&a"(ret)
			 : "i"(SYS_io_uring_setup), "D"(nr), "S"(params)
			 : "rcx", "r11", "memory");
	return ret;
}

static __attribute__((noinline)) long own_enter(long fd, long nr)
{
	register long flags __asm__("r10") = IORING_ENTER_GETEVENTS;
	register long mask __asm__("r8") = 0;
	register long bytes __asm__("r9") = 0;
	long ret;

	__asm__ volatile("mov %1, %%eax\n\tsyscall"
			 : "=&a"(ret)
			 : "i"(SYS_io_uring_enter), "D"(fd), "S"(nr), "d"(nr),
			   "r"(flags), "r"(mask), "r"(bytes)
			 : "rcx", "r11", "memory");
	return ret;
}

static void use_own_instructions(void)
{
	struct io_uring_params params = { 0 };
	int fd = (int)own_setup(NR_ENTRIES, &params);

	assert(fd >= 0 && !is_ring_of_kernel(fd));
	assert(own_enter(fd, 0) == 0);
	assert(close(fd) == 0);
	for (int of_kernel = 0; of_kernel < 2; of_kernel++) {
		struct io_uring *ring = nth(of_kernel, 0);
		struct io_uring_cqe *cqe;

		if (!ring)
			continue;
		io_uring_prep_nop(io_uring_get_sqe(ring));
		/*
		 * Publish the SQE by hand: io_uring_submit() would also submit it, by a
		 * call of the library.
		 */
		*ring->sq.ktail += 1;
		ring->sq.sqe_head = ring->sq.sqe_tail;
		assert(own_enter(ring->ring_fd, 1) == 1);
		assert(io_uring_peek_cqe(ring, &cqe) == 0 && cqe->res == 0);
		io_uring_cqe_seen(ring, cqe);
	}
}

#else

static void use_own_instructions(void)
{
}

#endif

void use_limited(void)
{
	drop_privileges();
	if (make_rings() < NR_RINGS)
		return; /* the library is not loaded */
	if (!nth(false, 0))
		return; /* this kernel does not count rings */
	assert(io_uring_mlock_size(NR_ENTRIES, 0) == 0);
	use_all();
	use_own_instructions();
	use_slots();
	use_all();
	send_messages();
	attach();
	register_buffers();
	use_all();
}
