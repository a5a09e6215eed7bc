/* SPDX-License-Identifier: MIT */
/*
 * library WHAT: a program that is linked with liburing and prints the result of each
 * function
 *
 * old      functions of liburing 2.3. The output must be the same with the real
 *          liburing and with uaio.
 * newer    functions of later versions, which only uaio has here. The program ends at
 *          the first wrong result.
 * init     creates a ring, and executes one NOP
 * peeks    prints how many completions are found without waiting
 * limited  rings of the kernel and of the library in one process (library-limited.c)
 * sent     sends a ring's descriptor by a socket, to this process and others
 * got      the unrelated program of `sent`: uses a ring of which it only has the
 *          descriptor
 * whose    prints the name of the file that defines liburing's functions
 */
#undef NDEBUG
#include "library.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

static char memory[BYTES] __attribute__((aligned(BYTES)));

void say(const char *what, long result)
{
	if (result < 0 && result > -4096)
		printf("%s: %s\n", what, strerrorname_np((int)-result));
	else
		printf("%s: %ld\n", what, result);
}

void prepare_nops(struct io_uring *ring, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

		assert(sqe);
		io_uring_prep_nop(sqe);
		sqe->user_data = i;
	}
}

void set_up(struct io_uring *ring, unsigned nr, unsigned flags)
{
	int ret = io_uring_queue_init(nr, ring, flags);

	if (ret < 0) {
		say("queue_init", ret);
		exit(ret == -EPERM || ret == -ENOSYS ? 77 : 1);
	}
}

void read_at(struct io_uring *ring, int fd, int flags, void *buf)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;

	io_uring_prep_read_fixed(sqe, fd, buf, 8, 0, 0);
	sqe->flags |= (__u8)flags;
	say("submit", io_uring_submit(ring));
	say("wait_cqe", io_uring_wait_cqe(ring, &cqe));
	say("read", cqe->res);
	io_uring_cqe_seen(ring, cqe);
}

void *find(const char *name)
{
	void *function = dlsym(RTLD_DEFAULT, name);

	if (!function) {
		printf("%s is missing\n", name);
		exit(1);
	}
	return function;
}

/* Print the completions in the ring, and consume them. */
static void reap(struct io_uring *ring, const char *what)
{
	struct io_uring_cqe *cqe;

	printf("%s:", what);
	while (io_uring_peek_cqe(ring, &cqe) == 0) {
		printf(" %llu=%d", cqe->user_data, cqe->res);
		io_uring_cqe_seen(ring, cqe);
	}
	printf("\n");
}

static void show_ring(const struct io_uring *ring)
{
	printf("sq: %u %u %u %zu, cq: %u %u %u %zu, flags %x, one map %d\n",
	       ring->sq.ring_entries, ring->sq.ring_mask, *ring->sq.kring_mask,
	       ring->sq.ring_sz, ring->cq.ring_entries, ring->cq.ring_mask,
	       *ring->cq.kring_entries, ring->cq.ring_sz, ring->flags,
	       ring->sq.ring_ptr == ring->cq.ring_ptr);
	printf("fds %d\n", ring->ring_fd == ring->enter_ring_fd);
}

static void use_setup(void)
{
	static const struct {
		unsigned nr, flags, nr_cq;
	} rows[] = {
		{ 0, 0, 0 },
		{ 1, 0, 0 },
		{ 5, 0, 0 },
		{ 64, IORING_SETUP_CQSIZE, 0 },
		{ 64, IORING_SETUP_CQSIZE, 32 },
		{ 64, IORING_SETUP_CQSIZE, 500 },
		{ 40000, 0, 0 },
		{ 8, IORING_SETUP_SQE128, 0 },
		{ 8, IORING_SETUP_CQE32, 0 },
		{ 8, 1u << 31, 0 },
		{ 8, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		  0 },
		{ 8, IORING_SETUP_DEFER_TASKRUN, 0 },
	};

	for (size_t i = 0; i < NR_ELEMENTS(rows); i++) {
		struct io_uring_params p = { .flags = rows[i].flags,
					     .cq_entries = rows[i].nr_cq };
		struct io_uring ring;
		int ret = io_uring_queue_init_params(rows[i].nr, &ring, &p);

		say("queue_init_params", ret);
		if (ret < 0)
			continue;
		show_ring(&ring);
		prepare_nops(&ring, 1);
		say("submit_and_wait", io_uring_submit_and_wait(&ring, 1));
		reap(&ring, "reaped");
		say("ring_dontfork", io_uring_ring_dontfork(&ring));
		io_uring_queue_exit(&ring);
	}
	say("mlock_size", io_uring_mlock_size(8, 0));
}

/*
 * Call the functions of liburing that only make a system call. Set up a ring by
 * io_uring_setup() and io_uring_queue_mmap() instead of io_uring_queue_init().
 */
static void use_calls(void)
{
	struct io_uring_params p = { 0 };
	struct io_uring ring;
	int fd = io_uring_setup(8, &p);

	assert(fd >= 0);
	say("queue_mmap", io_uring_queue_mmap(fd, &p, &ring));
	show_ring(&ring);
	io_uring_queue_exit(&ring);
	say("closed", io_uring_enter((unsigned)fd, 0, 0, 0, NULL));
	say("queue_mmap", io_uring_queue_mmap(fd, &p, &ring));
	say("setup", io_uring_setup(8, (struct io_uring_params *)8));
	say("enter2", io_uring_enter2((unsigned)-1, 1, 0, 0, NULL, 8));
	say("register", io_uring_register((unsigned)-2, 8, NULL, 0));
}

static void use_queue(void)
{
	struct io_uring_cqe *cqe, *cqes[16];
	struct __kernel_timespec soon = { .tv_nsec = 1000000 };
	struct io_uring ring;

	set_up(&ring, 8, 0);
	say("submit", io_uring_submit(&ring));
	say("peek", io_uring_peek_cqe(&ring, &cqe));
	say("peek_batch", io_uring_peek_batch_cqe(&ring, cqes, 16));
	say("wait_cqe_timeout", io_uring_wait_cqe_timeout(&ring, &cqe, &soon));
	say("cqe", cqe != NULL);
	/* Let the rings wrap around at many positions. */
	for (unsigned i = 0; i < 40; i++) {
		prepare_nops(&ring, 1 + i % 8);
		say("submit", io_uring_submit(&ring));
		assert(io_uring_wait_cqe_nr(&ring, &cqe, 1 + i % 8) == 0);
		reap(&ring, "reaped");
	}
	prepare_nops(&ring, 8);
	say("full", io_uring_get_sqe(&ring) == NULL);
	say("submit_and_wait", io_uring_submit_and_wait(&ring, 8));
	say("peek_batch", io_uring_peek_batch_cqe(&ring, cqes, 5));
	for (unsigned i = 0; i < 5; i++)
		say("cqe", (long)cqes[i]->user_data);
	io_uring_cq_advance(&ring, 5);
	say("peek_batch", io_uring_peek_batch_cqe(&ring, cqes, 16));
	io_uring_cq_advance(&ring, 3);

	prepare_nops(&ring, 2);
	say("submit_and_get_events", io_uring_submit_and_get_events(&ring));
	say("get_events", io_uring_get_events(&ring));
	reap(&ring, "reaped");
	say("sqring_wait", io_uring_sqring_wait(&ring));

	prepare_nops(&ring, 2);
	say("submit_and_wait_timeout",
	    io_uring_submit_and_wait_timeout(&ring, &cqe, 2, &soon, NULL));
	reap(&ring, "reaped");
	prepare_nops(&ring, 1);
	say("submit_and_wait_timeout, too many",
	    io_uring_submit_and_wait_timeout(&ring, &cqe, 2, &soon, NULL));
	say("cqe", cqe != NULL);
	say("submit_and_wait_timeout, again",
	    io_uring_submit_and_wait_timeout(&ring, &cqe, 2, &soon, NULL));
	reap(&ring, "reaped");
	say("submit_and_wait_timeout, none",
	    io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &soon, NULL));
	say("cqe", cqe != NULL);
	prepare_nops(&ring, 3);
	say("submit_and_wait_timeout, for ever",
	    io_uring_submit_and_wait_timeout(&ring, &cqe, 3, NULL, NULL));
	reap(&ring, "reaped");
	prepare_nops(&ring, 3);
	say("get_cqe", __io_uring_get_cqe(&ring, &cqe, 0, 0, NULL));
	say("submit", io_uring_submit(&ring));
	say("wait_cqes", io_uring_wait_cqes(&ring, &cqe, 2, NULL, NULL));
	say("wait_cqes", io_uring_wait_cqes(&ring, &cqe, 3, &soon, NULL));
	say("wait_cqes, too many",
	    io_uring_wait_cqes(&ring, &cqe, 4, &soon, NULL));
	say("cqe", cqe != NULL);
	reap(&ring, "reaped");
	io_uring_queue_exit(&ring);
}

/*
 * Let liburing work as on a kernel whose io_uring_enter() has no timeout argument
 * (IORING_FEAT_EXT_ARG).
 */
static void use_old_timeouts(void)
{
	struct __kernel_timespec soon = { .tv_nsec = 1000000 },
				 late = { .tv_sec = 60 };
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	set_up(&ring, 4, 0);
	ring.features &= ~(unsigned)IORING_FEAT_EXT_ARG;
	/*
	 * The results are not checked exactly: liburing 2.3 counts its own timeout as a
	 * completion.
	 */
	assert(io_uring_wait_cqe_timeout(&ring, &cqe, &soon) != 0);
	say("cqe", cqe != NULL);
	prepare_nops(&ring, 2);
	assert(io_uring_wait_cqes(&ring, &cqe, 2, &late, NULL) >= 0);
	reap(&ring, "reaped");
	prepare_nops(&ring, 4);
	assert(io_uring_wait_cqes(&ring, &cqe, 4, &late, NULL) >= 0);
	reap(&ring, "reaped");
	prepare_nops(&ring, 1);
	assert(io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &late, NULL) >=
	       0);
	reap(&ring, "reaped");
	io_uring_queue_exit(&ring);
}

/*
 * A poll waits for a pipe. Twice, the program makes the pipe ready, then peeks.
 * Return: how many completions the peeks find at once.
 */
static int peek_at_once(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int fds[2], nr = 0;

	assert(io_uring_queue_init(8, &ring, 0) == 0);
	assert(pipe(fds) == 0);
	io_uring_prep_poll_multishot(io_uring_get_sqe(&ring), fds[0], POLLIN);
	assert(io_uring_submit(&ring) == 1);
	assert(write(fds[1], "1", 1) == 1);
	if (io_uring_peek_cqe(&ring, &cqe) == 0) {
		io_uring_cqe_seen(&ring, cqe);
		nr++;
	}
	assert(write(fds[1], "2", 1) == 1);
	nr += (int)io_uring_peek_batch_cqe(&ring, &cqe, 1);
	io_uring_queue_exit(&ring);
	close(fds[0]);
	close(fds[1]);
	return nr;
}

static void use_peeks(void)
{
	int nr = 0;

	for (int i = 0; i < 50; i++)
		nr += peek_at_once();
	printf("%d\n", nr);
}

static void use_overflow(void)
{
	struct io_uring_cqe *cqes[16];
	struct io_uring ring;

	set_up(&ring, 4, 0);
	for (unsigned i = 0; i < 4; i++) {
		prepare_nops(&ring, 4);
		say("submit", io_uring_submit(&ring));
	}
	say("ready", io_uring_cq_ready(&ring));
	say("has_overflow", io_uring_cq_has_overflow(&ring));
	reap(&ring, "first");
	say("peek_batch", io_uring_peek_batch_cqe(&ring, cqes, 16));
	reap(&ring, "rest");
	say("has_overflow", io_uring_cq_has_overflow(&ring));
	io_uring_queue_exit(&ring);
}

static void nothing(int signal)
{
	(void)signal;
}

static void use_signals(void)
{
	const struct sigaction action = { .sa_handler = nothing };
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never;
	struct __kernel_timespec soon = { .tv_nsec = 50000000 };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	sigset_t mask;

	set_up(&ring, 4, 0);
	sigaction(SIGALRM, &action, NULL);
	sigfillset(&mask);
	setitimer(ITIMER_REAL, &often, NULL);
	say("wait_cqe", io_uring_wait_cqe(&ring, &cqe));
	say("submit_and_wait", io_uring_submit_and_wait(&ring, 1));
	say("masked", io_uring_wait_cqes(&ring, &cqe, 1, &soon, &mask));
	memset((void *)&never, 0, sizeof(never));
	setitimer(ITIMER_REAL, &never, NULL);
	io_uring_queue_exit(&ring);
}

static void use_sqpoll(void)
{
	struct io_uring_params p = { .flags = IORING_SETUP_SQPOLL,
				     .sq_thread_idle = 1 };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ret = io_uring_queue_init_params(4, &ring, &p);

	say("sqpoll", ret);
	for (unsigned i = 0; ret == 0 && i < 20; i++) {
		int nr;

		say("sqring_wait", io_uring_sqring_wait(&ring) >= 0);
		prepare_nops(&ring, 1);
		nr = io_uring_submit(&ring);
		assert(nr == 0 || nr == 1);
		say("wait_cqe", io_uring_wait_cqe(&ring, &cqe));
		io_uring_cqe_seen(&ring, cqe);
		usleep(i % 2 ? 0 : 3000);
	}
	if (ret == 0)
		io_uring_queue_exit(&ring);
}

static void use_files_and_buffers(void)
{
	const struct iovec iov = { memory, BYTES }, none = { 0 };
	const __u64 tags[2] = { 70, 71 };
	int zero = open("/dev/zero", O_RDONLY), fds[2] = { zero, -1 };
	struct io_uring ring;

	set_up(&ring, 8, 0);
	say("register_files", io_uring_register_files(&ring, fds, 2));
	say("again", io_uring_register_files(&ring, fds, 2));
	say("register_buffers", io_uring_register_buffers(&ring, &iov, 1));
	read_at(&ring, 0, IOSQE_FIXED_FILE, memory);
	read_at(&ring, 1, IOSQE_FIXED_FILE, memory);
	read_at(&ring, zero, 0, memory + BYTES - 4);
	fds[1] = zero;
	say("files_update",
	    io_uring_register_files_update(&ring, 1, fds + 1, 1));
	say("files_update, too far",
	    io_uring_register_files_update(&ring, 2, fds, 1));
	read_at(&ring, 1, IOSQE_FIXED_FILE, memory);
	say("unregister_files", io_uring_unregister_files(&ring));
	say("unregister_buffers", io_uring_unregister_buffers(&ring));
	say("unregister_buffers", io_uring_unregister_buffers(&ring));

	say("files_tags", io_uring_register_files_tags(&ring, fds, tags, 2));
	say("files_update_tag",
	    io_uring_register_files_update_tag(&ring, 0, fds, tags, 1));
	reap(&ring, "tag");
	say("unregister_files", io_uring_unregister_files(&ring));
	reap(&ring, "tags");
	say("files_sparse", io_uring_register_files_sparse(&ring, 16));
	say("file_alloc_range",
	    io_uring_register_file_alloc_range(&ring, 4, 8));
	say("file_alloc_range, too far",
	    io_uring_register_file_alloc_range(&ring, 14, 8));
	read_at(&ring, 3, IOSQE_FIXED_FILE, memory);

	say("buffers_sparse", io_uring_register_buffers_sparse(&ring, 2));
	say("buffers_update_tag",
	    io_uring_register_buffers_update_tag(&ring, 0, &iov, tags, 1));
	read_at(&ring, zero, 0, memory);
	say("buffers_update_tag",
	    io_uring_register_buffers_update_tag(&ring, 0, &none, tags + 1, 1));
	reap(&ring, "tag");
	say("unregister_buffers", io_uring_unregister_buffers(&ring));
	say("buffers_tags",
	    io_uring_register_buffers_tags(&ring, &iov, tags, 1));
	read_at(&ring, zero, 0, memory);
	io_uring_queue_exit(&ring);
	close(zero);
}

/* Run in a child process, because this changes a limit of the process. */
static void use_limit(void)
{
	struct rlimit limit = { 40, 4000 };
	struct io_uring ring;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		set_up(&ring, 8, 0);
		setrlimit(RLIMIT_NOFILE, &limit);
		say("files_sparse", io_uring_register_files_sparse(&ring, 100));
		getrlimit(RLIMIT_NOFILE, &limit);
		say("limit", (long)limit.rlim_cur);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void use_rest(void)
{
	struct io_uring_sync_cancel_reg cancel = {
		.fd = -1,
		.flags = IORING_ASYNC_CANCEL_ANY,
		.timeout = { -1, -1 }
	};
	struct io_uring_buf_reg reg = { .ring_addr = (unsigned long)memory,
					.ring_entries = 16,
					.bgid = 7 };
	struct io_uring_probe *probe = io_uring_get_probe();
	unsigned values[2] = { 3, 0 };
	int event = eventfd(0, EFD_NONBLOCK), id;
	struct io_uring ring;
	uint64_t count = 0;
	cpu_set_t cpus;

	say("get_probe", probe != NULL);
	if (probe)
		printf("probe: %u %u %u\n", probe->last_op, probe->ops_len,
		       probe->ops[1].flags);
	io_uring_free_probe(probe);
	set_up(&ring, 8, 0);
	probe = io_uring_get_probe_ring(&ring);
	say("get_probe_ring", probe != NULL);
	say("register_probe", io_uring_register_probe(&ring, probe, 4));
	io_uring_free_probe(probe);
	say("register_eventfd", io_uring_register_eventfd(&ring, event));
	prepare_nops(&ring, 1);
	say("submit_and_wait", io_uring_submit_and_wait(&ring, 1));
	say("eventfd", read(event, &count, 8) == 8 ? (long)count : -errno);
	say("register_eventfd", io_uring_register_eventfd(&ring, event));
	say("unregister_eventfd", io_uring_unregister_eventfd(&ring));
	say("eventfd_async", io_uring_register_eventfd_async(&ring, event));
	say("unregister_eventfd", io_uring_unregister_eventfd(&ring));
	id = io_uring_register_personality(&ring);
	say("register_personality", id);
	say("unregister_personality",
	    io_uring_unregister_personality(&ring, id));
	say("unregister_personality",
	    io_uring_unregister_personality(&ring, id));
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	say("iowq_aff", io_uring_register_iowq_aff(&ring, sizeof(cpus), &cpus));
	say("iowq_aff", io_uring_register_iowq_aff(&ring, 1ul << 31, &cpus));
	say("unregister_iowq_aff", io_uring_unregister_iowq_aff(&ring));
	say("iowq_max_workers",
	    io_uring_register_iowq_max_workers(&ring, values));
	say("iowq_max_workers",
	    io_uring_register_iowq_max_workers(&ring, values));
	say("bounded", values[0]);
	say("sync_cancel", io_uring_register_sync_cancel(&ring, &cancel));
	say("buf_ring", io_uring_register_buf_ring(&ring, &reg, 0));
	say("buf_ring", io_uring_register_buf_ring(&ring, &reg, 0));
	say("unregister_buf_ring", io_uring_unregister_buf_ring(&ring, 7));
	say("unregister_buf_ring", io_uring_unregister_buf_ring(&ring, 7));

	say("register_ring_fd", io_uring_register_ring_fd(&ring));
	say("registered", ring.enter_ring_fd);
	prepare_nops(&ring, 2);
	say("submit_and_wait", io_uring_submit_and_wait(&ring, 2));
	reap(&ring, "reaped");
	say("unregister_ring_fd", io_uring_unregister_ring_fd(&ring));
	say("fds", ring.enter_ring_fd == ring.ring_fd);
	say("register_ring_fd", io_uring_register_ring_fd(&ring));
	io_uring_queue_exit(&ring);
	close(event);
}

static void use_errno(void)
{
	struct io_uring ring;

	errno = ENOTTY;
	io_uring_queue_init(0, &ring, 0);
	io_uring_enter((unsigned)-1, 1, 0, 0, NULL);
	io_uring_register((unsigned)-2, 8, NULL, 0);
	say("errno", errno);
}

static void print_owner(const char *name)
{
	Dl_info info;

	assert(dladdr(find(name), &info));
	printf("%s %s\n", name, info.dli_fname);
}

int main(int argc, char **argv)
{
	assert(argc == 2);
	if (!strcmp(argv[1], "whose")) {
		print_owner("io_uring_submit");
		print_owner("io_uring_queue_init_params");
		print_owner("io_uring_register_files");
	} else if (!strcmp(argv[1], "init")) {
		struct io_uring ring;

		set_up(&ring, 8, 0);
		prepare_nops(&ring, 1);
		say("submit_and_wait", io_uring_submit_and_wait(&ring, 1));
		reap(&ring, "reaped");
		io_uring_queue_exit(&ring);
	} else if (!strcmp(argv[1], "peeks")) {
		use_peeks();
	} else if (!strcmp(argv[1], "newer")) {
		use_newer();
	} else if (!strcmp(argv[1], "sent")) {
		send_rings(argv[0]);
	} else if (!strcmp(argv[1], "got")) {
		use_ring_of_stranger();
	} else if (!strcmp(argv[1], "limited")) {
		use_limited();
	} else {
		assert(!strcmp(argv[1], "old"));
		use_setup();
		use_calls();
		use_queue();
		use_old_timeouts();
		use_overflow();
		use_signals();
		use_sqpoll();
		use_files_and_buffers();
		use_limit();
		use_rest();
		use_errno();
	}
	return 0;
}
