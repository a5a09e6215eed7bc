/* SPDX-License-Identifier: MIT */
/*
 * Creates and removes the descriptors, the memory and the rings of a scenario.
 */
#undef NDEBUG
#include "fuzz.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef FUZZ_LINKED
#include "unit.h"

void close_fd(int fd)
{
	unit_close(fd);
}

#else

void close_fd(int fd)
{
	close(fd);
}

#endif

char *arena, *arrays;

/*
 * Map the arena, which is memory for requests, and so much inaccessible memory around
 * it that no request can reach anything else.
 */
void make_memory(void)
{
	const size_t guard = (size_t)5 << 30;
	/*
	 * Use a fixed address: registered arrays contain addresses of the arena, and the
	 * printed hash of these arrays must be equal in every run.
	 */
	void *place = (void *)UINT64_C(0x100000000000);
	char *all = mmap(place, guard + ARENA, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				 MAP_FIXED_NOREPLACE,
			 -1, 0);

	assert(all == place);
	arena = all + (1 << 20);
	assert(mprotect(arena, ARENA, PROT_READ | PROT_WRITE) == 0);
	assert(mprotect(arena + ARENA + GAP, 2 * GAP, PROT_READ) == 0);
	arrays = mmap(NULL, (size_t)NR_ARRAYS * ARRAY, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert(arrays != MAP_FAILED);
}

static void add(int fd)
{
	if (fd < 0)
		failed("a descriptor", errno);
	assert(world.nr_fds < NR_FDS_MAX);
	world.fds[world.nr_fds++] = fd;
}

static void add_file(const char *name, int flags)
{
	add(open(name, flags | O_CLOEXEC, 0600));
}

static void add_pair(int type)
{
	int pair[2];

	assert(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) == 0);
	add(pair[0]);
	add(pair[1]);
}

static void add_pipe(int flags)
{
	int pair[2];

	assert(pipe2(pair, flags | O_CLOEXEC) == 0);
	add(pair[0]);
	add(pair[1]);
}

static void add_sockets(void)
{
	struct sockaddr_un local = { .sun_family = AF_UNIX, .sun_path = "s" };
	struct sockaddr_in loop = { .sin_family = AF_INET };
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	loop.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	unlink("s");
	assert(bind(listener, (void *)&local, sizeof(local)) == 0);
	assert(listen(listener, 4) == 0);
	assert(bind(tcp, (void *)&loop, sizeof(loop)) == 0);
	assert(listen(tcp, 4) == 0);
	assert(bind(udp, (void *)&loop, sizeof(loop)) == 0);
	add(listener);
	add(tcp);
	add(udp);
	add(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	add(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

void make_world(void)
{
	char block[4096];

	world.number++;
	world.nr_fds = 0;
	world.nr_requests = 0;
	world.nr_arrays = 0;
	memset(block, 'a', sizeof(block));
	add_file("a", O_RDWR | O_CREAT);
	assert(ftruncate(world.fds[0], 0) == 0);
	assert(write(world.fds[0], block, sizeof(block)) == sizeof(block));
	add_file("a", O_RDONLY);
	add_file("b", O_RDWR | O_CREAT | O_APPEND | O_TRUNC);
	add_file("a", O_RDWR | O_DIRECT);
	add_file("a", O_PATH);
	add_file(".", O_RDONLY | O_DIRECTORY);
	add_pipe(0);
	add_pipe(O_NONBLOCK);
	add_pair(SOCK_STREAM);
	add_pair(SOCK_STREAM | SOCK_NONBLOCK);
	add_pair(SOCK_DGRAM);
	add_pair(SOCK_SEQPACKET);
	add_sockets();
	add(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
	add(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
	add(epoll_create1(EPOLL_CLOEXEC));
	add(epoll_create1(EPOLL_CLOEXEC));
	add(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	memset(arena, 0, ARENA);
	make_arguments();
	for (unsigned i = 0; i < NR_RINGS; i++)
		world.rings[i].uring.fd = -1;
}

void end_world(void)
{
	for (unsigned i = 0; i < NR_RINGS; i++)
		if (world.rings[i].uring.fd >= 0)
			close_ring(&world.rings[i]);
	for (unsigned i = 0; i < world.nr_fds; i++)
		close_fd(world.fds[i]);
	madvise(arrays, (size_t)world.nr_arrays * ARRAY, MADV_DONTNEED);
}

/* Return: an allowed combination of setup flags, chosen at random. */
static uint32_t some_flags(void)
{
	static const uint32_t single = IORING_SETUP_SINGLE_ISSUER;
	static const uint32_t modes[] = {
		0,
		0,
		IORING_SETUP_COOP_TASKRUN,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_SQPOLL,
		IORING_SETUP_IOPOLL,
	};
	uint32_t flags = modes[any(NR_ELEMENTS(modes))];

	flags |= any(2) ? IORING_SETUP_SUBMIT_ALL : 0;
	flags |= any(4) ? 0 : IORING_SETUP_SQE128;
	flags |= any(4) ? 0 : IORING_SETUP_CQE32;
	flags |= any(4) ? 0 : IORING_SETUP_NO_SQARRAY;
	flags |= any(4) ? 0 : single;
	flags |= any(8) ? 0 : IORING_SETUP_R_DISABLED;
	return flags;
}

bool open_ring(struct ring *ring)
{
	struct io_uring_params params = { .flags = some_flags() };
	const uint32_t odd = IORING_SETUP_SQPOLL | IORING_SETUP_IOPOLL |
			     IORING_SETUP_R_DISABLED;
	long ret;

	memset(ring, 0, sizeof(*ring));
	ring->uring.fd = -1;
	if (is_alone)
		params.flags &= ~odd;
	if (kind == KIND_DISABLED)
		params.flags |= IORING_SETUP_R_DISABLED;
	params.sq_thread_idle = 1;
	if (any(2)) {
		params.flags |= IORING_SETUP_CQSIZE;
		params.cq_entries = 64u << any(3);
	}
	ret = uring_setup(is_alone ? 8 : 1u << any(7), &params);
	/*
	 * A kernel may lack a flag, or its settings may forbid it. Then there is no
	 * ring.
	 */
	if (ret < 0)
		return false;
	ret = uring_map(&ring->uring, (int)ret, &params);
	if (ret < 0)
		failed("a map", ret);
	return true;
}

void close_ring(struct ring *ring)
{
	uring_unmap(&ring->uring);
	close_fd(ring->uring.fd);
	ring->uring.fd = -1;
}
