/* SPDX-License-Identifier: MIT */
/*
 * Submits random requests of io_uring
 *
 * The requests come in random scenarios with rings, files, pipes and sockets
 * (fuzz.h). SEED is the seed of the random numbers. The program has two usages.
 *
 * `fuzz SEED COUNT` runs one scenario after another until COUNT requests were accepted.
 * The last completion of a request lacks IORING_CQE_F_MORE. The program fails if an
 * accepted request has no last completion, or two; if a completion belongs to no
 * request; if descriptors are left open; or if the process dies.
 *
 * `fuzz SEED PATIENCE FIRST-LAST...` runs the scenarios number FIRST to number LAST of
 * the seed. In each step, such a scenario submits a few requests, and waits for their
 * completions, at most PATIENCE microseconds. These scenarios are isolated: their
 * results do not depend on time, and are printed (fuzz-alone.c). fuzz.py compares the
 * results of the kernel with those of the library. A kind of scenarios (fuzz-kind.c)
 * may precede the seed, as in skip:1.
 */
#undef NDEBUG
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef FUZZ_LINKED
#include "unit.h"
#endif

enum { PATIENCE_S = 600, SLACK = 40, ROUNDS = 240, NR_DESCRIPTORS = 1024 };

struct world world;
bool is_alone;

static uint64_t seed, state;
static char folder_name[16];
static uint64_t nr_taken, nr_completions;

uint32_t any(uint32_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % n;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void remove_folder(void)
{
	if (folder_name[0] && chdir("..") == 0)
		nftw(folder_name, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void make_folder(void)
{
	strcpy(folder_name, "fuzz-XXXXXX");
	if (!mkdtemp(folder_name) || chdir(folder_name) < 0)
		failed("a folder", errno);
}

void failed(const char *what, long number)
{
	fprintf(stderr, "fuzz: %s (%ld), seed %llu, world %llu\n", what, number,
		(unsigned long long)seed, (unsigned long long)world.number);
	remove_folder();
	abort();
}

static void on_alarm(int sig)
{
	static const char text[] = "fuzz: hangs, seed ";
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu\n",
			   (unsigned long long)seed);

	(void)sig;
	(void)!write(2, text, sizeof(text) - 1);
	(void)!write(2, digits, (size_t)len);
	abort();
}

static uint32_t load(const uint32_t *from)
{
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

/*
 * Completions
 */

/*
 * Close the descriptors that the request has created. If the request has failed, also
 * close the descriptor that it should have closed.
 */
static void clean_up(struct request *request, int32_t res)
{
	if (request->opcode == IORING_OP_PIPE) {
		if (request->makes_fd && res == 0 && request->pipe[0] >= 0) {
			close_fd(request->pipe[0]);
			close_fd(request->pipe[1]);
		}
	} else if (request->makes_fd && res >= 0) {
		close_fd(res);
	}
	if (request->closes >= 0 && res < 0)
		close_fd(request->closes);
}

static void complete(const struct io_uring_cqe *cqe)
{
	uint64_t place = (cqe->user_data & 0xffff) - 1;
	struct request *request;

	if (cqe->user_data & EXTRA)
		return;
	if (cqe->user_data >> 16 != world.number || place >= world.nr_requests)
		failed("a completion of nobody's", (long)cqe->user_data);
	request = &world.requests[place];
	/*
	 * In the kernel and in the library, a zero-copy send that was cancelled
	 * together with its chain may have a second completion, which is a
	 * notification.
	 */
	if (!request->is_pending && cqe->flags & IORING_CQE_F_NOTIF)
		return;
	if (!request->is_pending)
		failed("a completion too many, of an opcode", request->opcode);
	nr_completions++;
	if (is_alone)
		note_alone(request, cqe);
	clean_up(request, cqe->res);
	if (cqe->flags & IORING_CQE_F_MORE)
		return;
	request->is_pending = false;
	if (!request->is_silent)
		world.rings[request->ring].nr_pending--;
}

void take_all(struct ring *ring)
{
	struct io_uring_cqe cqe;

	while (uring_take(&ring->uring, &cqe))
		complete(&cqe);
}

/*
 * Submissions
 */

/*
 * `request` is linked to a request without a completion. If the chain fails, `request`
 * is cancelled, and has no completion either. So if `request` closes a descriptor, the
 * program could not know whether this has happened. Close such a descriptor here, and
 * make `request` a NOP.
 */
static void follow(struct request *request, struct io_uring_sqe *sqe)
{
	if (request->closes >= 0) {
		close_fd(request->closes);
		request->closes = -1;
		request->opcode = sqe->opcode = IORING_OP_NOP;
	}
	request->is_silent = true;
}

static void prepare(struct ring *ring, const struct request *before,
		    uint16_t *ret_place)
{
	struct request *request = &world.requests[world.nr_requests];
	struct io_uring_sqe sqe;

	make_sqe(ring, &sqe, request);
	if (before && before->is_silent &&
	    before->flags & (IOSQE_IO_LINK | IOSQE_IO_HARDLINK))
		follow(request, &sqe);
	request->ring = (uint8_t)(ring - world.rings);
	*ret_place = (uint16_t)world.nr_requests++;
	sqe.user_data = world.number << 16 | world.nr_requests;
	request->sqe = sqe;
	*uring_put(&ring->uring, sqe.opcode, sqe.fd, sqe.user_data) = sqe;
}

static long enter_some(struct ring *ring, uint32_t nr)
{
	uint32_t flags = any(3) ? 0 : IORING_ENTER_GETEVENTS;

	if (ring->uring.params.flags & IORING_SETUP_SQPOLL)
		flags |= IORING_ENTER_SQ_WAKEUP;
	return uring_enter(ring->uring.fd, nr, 0, flags, NULL, 0);
}

/*
 * Submit nr random requests. If the ring does not accept some of them, remove these from
 * the submission queue.
 */
void submit(struct ring *ring, uint32_t nr)
{
	const uint32_t *head = ring->uring.sq_head;
	uint32_t before = load(head), taken;
	uint16_t places[BATCH_MAX];
	long ret;

	ring->uring.prepared = before;
	for (uint32_t i = 0; i < nr; i++) {
		prepare(ring, i ? &world.requests[places[i - 1]] : NULL,
			&places[i]);
		world.requests[places[i]].is_pending = true;
		ring->nr_pending += !world.requests[places[i]].is_silent;
	}
	(void)uring_publish(&ring->uring);
	make_mark(MARK_BEGIN);
	ret = enter_some(ring, nr);
	/*
	 * With SQPOLL, a kernel thread consumes the submissions, perhaps only later.
	 */
	for (unsigned i = 0;
	     load(head) != ring->uring.prepared && i < 1000 && ret >= 0 &&
	     ring->uring.params.flags & IORING_SETUP_SQPOLL;
	     i++) {
		usleep(100);
		ret = enter_some(ring, nr);
	}
	taken = load(head) - before;
	if (taken > nr)
		failed("more taken than there was", taken);
	for (uint32_t i = taken; i < nr; i++) {
		struct request *request = &world.requests[places[i]];

		clean_up(request, -1);
		request->closes = -1;
		request->is_pending = false;
		ring->nr_pending -= !request->is_silent;
	}
	nr_taken += taken;
	ring->uring.prepared = before + taken;
	(void)uring_publish(&ring->uring);
}

/* The end of a scenario: all requests are cancelled, and must end */

static void cancel_all(struct ring *ring)
{
	struct io_uring_sync_cancel_reg what = {
		.flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL,
		.timeout = { 0, 100000 }, /* ns */
	};

	uring_register(ring->uring.fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
	uring_register(ring->uring.fd, IORING_REGISTER_SYNC_CANCEL, &what, 1);
}

static void tell_pending(const struct ring *ring)
{
	fprintf(stderr, "fuzz: what is pending, of a ring with %#x:\n",
		ring->uring.params.flags);
	for (uint32_t i = 0; i < world.nr_requests; i++)
		if (world.requests[i].is_pending &&
		    &world.rings[world.requests[i].ring] == ring)
			fprintf(stderr, "%u: opcode %u, flags %#x\n", i,
				world.requests[i].opcode,
				world.requests[i].flags);
}

/* Read from a pipe, but do not wait for bytes, whatever its descriptor's flags are. */
static void empty_pipe(int fd)
{
	static char bytes[65536];
	char path[32];
	int own;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (own < 0)
		return;
	(void)!read(own, bytes, sizeof(bytes));
	close(own);
}

/*
 * Make room in the pipes, so that writes to them end. A pipe from which a splice has
 * read does not support RWF_NOWAIT. A worker's write to such a pipe blocks until there
 * is room, and cannot be cancelled.
 */
static void empty_pipes(void)
{
	for (unsigned i = 0; i < world.nr_fds; i++) {
		struct stat st;

		if (fstat(world.fds[i], &st) == 0 && S_ISFIFO(st.st_mode))
			empty_pipe(world.fds[i]);
	}
}

/*
 * In the kernel, on a ring with DEFER_TASKRUN, a multishot timeout may expire faster
 * than the client reaps. Such a timeout always has a completion waiting, so a cancel
 * never finds it. It ends when the ring is full. So let the kernel post completions
 * until the ring is full.
 */
static void fill(const struct ring *ring)
{
	if (ring->uring.params.flags & IORING_SETUP_DEFER_TASKRUN)
		for (uint32_t i = 0; i <= ring->uring.params.cq_entries; i++)
			uring_enter(ring->uring.fd, 0, 0,
				    IORING_ENTER_GETEVENTS, NULL, 0);
}

void finish(struct ring *ring)
{
	for (unsigned i = 0; ring->nr_pending && !ring->is_lossy; i++) {
		if (i % 16 == 0)
			cancel_all(ring);
		uring_enter(ring->uring.fd, 0, 0, IORING_ENTER_GETEVENTS, NULL,
			    0);
		if (i % 64 == 32)
			fill(ring);
		take_all(ring);
		if (i > 16)
			empty_pipes();
		if (i > 16)
			usleep(i > 200 ? 10000 : 100);
		if (i > 3000) {
			tell_pending(ring);
			failed("requests without an end", ring->nr_pending);
		}
	}
}

static void finish_all(void)
{
	for (unsigned i = 0; i < NR_RINGS; i++)
		if (world.rings[i].uring.fd >= 0)
			finish(&world.rings[i]);
}

static unsigned nr_descriptors(void)
{
	DIR *all = opendir("/proc/self/fd");
	unsigned nr = 0;

	while (all && readdir(all))
		nr++;
	if (all)
		closedir(all);
	return nr;
}

static void live(void)
{
	uint32_t opcode;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ring *ring = &world.rings[any(NR_RINGS)];
		uint32_t nr = 1 + any(BATCH_MAX);

		if (ring->uring.fd < 0 && !open_ring(ring))
			continue;
		if (nr > ring->uring.params.sq_entries)
			nr = ring->uring.params.sq_entries;
		if (any(5) == 0)
			make_register(ring, &opcode);
		if (any(8) == 0)
			make_arguments();
		submit(ring, nr);
		if (any(2))
			take_all(ring);
		if (any(16) == 0)
			cancel_all(ring);
		if (any(40) == 0) {
			finish_all();
			close_ring(ring);
		}
	}
	finish_all();
}

static void run(uint64_t count)
{
	unsigned nr_before = 0, nr_after = 0;

	while (nr_taken < count) {
		alarm(PATIENCE_S);
		make_folder();
		make_world();
		live();
		end_world();
		remove_folder();
		if (world.number == 3)
			nr_before = nr_descriptors();
	}
	/*
	 * Wait a moment for requests that are still ending, because they release their
	 * files only then.
	 */
	for (unsigned i = 0; nr_before && i < 1000; i++) {
		nr_after = nr_descriptors();
		if (nr_after <= nr_before + SLACK)
			break;
		usleep(10000);
	}
	if (nr_after > nr_before + SLACK)
		failed("descriptors stay", nr_after - nr_before);
}

/*
 * Run isolated scenarios. The random numbers of each scenario depend only on the
 * seed and on the scenario's number, not on earlier scenarios.
 */
static void run_alone(uint64_t first, uint64_t last, uint64_t patience_us)
{
	for (uint64_t number = first; number <= last; number++) {
		alarm(PATIENCE_S);
		world.number = number - 1;
		state = seed * 0x9e3779b97f4a7c15u + number;
		for (unsigned i = 0; i < 4; i++)
			any(2);
		make_folder();
		make_world();
		live_alone(patience_us);
		end_world();
		remove_folder();
		printf("%llu.over\n", (unsigned long long)number);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	const struct rlimit few = { NR_DESCRIPTORS, NR_DESCRIPTORS };

	if (argc < 3)
		return 2;
	if (!parse_seed(argv[1], &seed))
		return 2;
	state = seed;
	is_alone = argc > 3;
	/*
	 * When a descriptor is closed, the library searches all descriptors for those
	 * of rings. With a low limit this is fast.
	 */
	setrlimit(RLIMIT_NOFILE, &few);
#ifdef FUZZ_LINKED
	unit_engine(NULL);
#endif
	signal(SIGALRM, on_alarm);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	make_memory();
	if (is_alone) {
		for (int i = 3; i < argc; i++) {
			unsigned long long first, last;

			if (sscanf(argv[i], "%llu-%llu", &first, &last) != 2)
				return 2;
			run_alone(first, last, strtoull(argv[2], NULL, 0));
		}
		return 0;
	}
	run(strtoull(argv[2], NULL, 0));
	printf("%llu requests, %llu completions, %llu worlds\n",
	       (unsigned long long)nr_taken, (unsigned long long)nr_completions,
	       (unsigned long long)world.number);
	return 0;
}
