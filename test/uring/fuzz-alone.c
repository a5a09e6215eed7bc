/* SPDX-License-Identifier: MIT */
/*
 * Isolated scenarios (is_alone). Their results do not depend on time or addresses.
 *
 * A scenario (see fuzz.h) has one ring here. In each step it submits one request, or a
 * chain of a few, and waits for the completions. It prints a line for each step: what
 * was submitted, the completions, and a hash of the memory into which requests read. At
 * the end of the scenario, it prints what its files, pipes and sockets contain.
 *
 * If a step takes longer than the PATIENCE of the command line, its line contains
 * `waits`. Then the program cancels the request and ends the scenario. How the request
 * completes depends on time, so that is not printed.
 */
#undef NDEBUG
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "older.h"
#include "clock.h"

enum {
	STEPS = 40,
	CHAIN_MAX = 3,
	CHAIN_LONG =
		6, /* longest chain with KIND_SKIP (IOSQE_CQE_SKIP_SUCCESS) */
	NOTED_MAX = 64,
	/*
	 * how many bytes of a buffer ring are hashed; fuzz-register.c fills in no
	 * entries after these
	 */
	ARRAY_HASHED = 256,
};

static struct {
	unsigned nr;
	char texts[NOTED_MAX][48];
} noted;

/*
 * A hash. It has NR partial values; word i goes into partial value i % NR. The processor
 * computes them in parallel. With a single value, hashing would take half of a
 * scenario's time.
 */
static uint64_t hash(uint64_t start, const void *bytes, size_t nr)
{
	enum { NR = 8 };
	const uint64_t factor = UINT64_C(1099511628211);
	const unsigned char *from = bytes;
	uint64_t value = start ^ UINT64_C(14695981039346656037);
	uint64_t values[NR], parts[NR];

	for (unsigned i = 0; i < NR; i++)
		values[i] = value + i;
	for (; nr >= sizeof(parts);
	     nr -= sizeof(parts), from += sizeof(parts)) {
		memcpy(parts, from, sizeof(parts));
		for (unsigned i = 0; i < NR; i++)
			values[i] = (values[i] ^ parts[i]) * factor;
	}
	for (unsigned i = 0; i < NR; i++) {
		value = (value ^ values[i]) * factor;
		value ^= value >> 29;
	}
	for (; nr; nr--)
		value = (value ^ *from++) * factor;
	return value;
}

/*
 * Completions: record and print them
 */

static void print_result(char *to, size_t size, bool is_fd, int32_t res)
{
	const char *name = NULL;

	if (res < 0 && res > -4096)
		name = strerrorname_np(-res);
	if (is_fd)
		snprintf(to, size, "fd");
	else if (name)
		snprintf(to, size, "%s", name);
	else
		snprintf(to, size, "%d", res);
}

/*
 * Record a completion as a text. Later the texts are sorted by request; the completions
 * of one request keep their order.
 */
void note_alone(const struct request *request, const struct io_uring_cqe *cqe)
{
	unsigned place = noted.nr;
	char result[24];

	if (place == NOTED_MAX)
		return;
	print_result(result, sizeof(result), request->makes_fd && cqe->res >= 0,
		     cqe->res);
	snprintf(noted.texts[place], sizeof(noted.texts[0]), "%04x.%02u %s:%#x",
		 (unsigned)(cqe->user_data & 0xffff), place, result,
		 cqe->flags);
	noted.nr++;
}

/*
 * Record that a request has ended without a completion (IOSQE_CQE_SKIP_SUCCESS). place:
 * the request's index in world.requests.
 */
void note_silent(unsigned place)
{
	if (noted.nr == NOTED_MAX)
		return;
	snprintf(noted.texts[noted.nr], sizeof(noted.texts[0]),
		 "%04x.%02u silent", place + 1, noted.nr);
	noted.nr++;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/*
 * The steps of a scenario
 */

bool await(struct ring *ring, uint64_t patience_us)
{
	int64_t until = now_ns() / 1000 + (int64_t)patience_us, left;

	take_all(ring);
	while (ring->nr_pending && (left = until - now_ns() / 1000) > 0) {
		const struct __kernel_timespec time = { left / 1000000,
							left % 1000000 * 1000 };
		const struct uaio_uring_wait_arg arg = {
			.timeout = (uintptr_t)&time
		};

		uring_enter(ring->uring.fd, 0, 1,
			    IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg,
			    sizeof(arg));
		take_all(ring);
	}
	return !ring->nr_pending;
}

/*
 * Return: the index of the descriptor in world.fds. Print the index and not the
 * descriptor: the index shows the kind of file, and is equal in every run.
 */
static int place_of(int fd)
{
	for (unsigned i = 0; i < world.nr_fds; i++)
		if (world.fds[i] == fd)
			return (int)i;
	return fd < 0 || fd > 3000 ? fd : -1000;
}

/*
 * Print a number, or an offset in the arena, the memory that requests use. Print no
 * other addresses, because they differ from run to run.
 */
static void print_value(const char *name, uint64_t value)
{
	const uint64_t small = UINT64_C(1) << 22, big = UINT64_C(1) << 47;
	uint64_t inside = value - (uintptr_t)arena;

	if (inside < ARENA + GAP + 2 * GAP)
		printf(" %s arena+%#llx", name, (unsigned long long)inside);
	else if (value < small || value >= big - GAP)
		printf(" %s %#llx", name, (unsigned long long)value);
	else
		printf(" %s other", name);
}

static void print_sqe(const struct io_uring_sqe *sqe)
{
	printf(" | op %u flags %#x fd %d ioprio %#x len %#x rw %#x buf %u "
	       "other %d",
	       sqe->opcode, sqe->flags, place_of(sqe->fd), sqe->ioprio,
	       sqe->len, (unsigned)sqe->rw_flags, sqe->buf_index,
	       place_of(sqe->splice_fd_in));
	print_value("off", sqe->off);
	print_value("addr", sqe->addr);
}

/*
 * Return: whether the request writes values that the system chooses, such as times.
 */
static bool is_of_system(const struct io_uring_sqe *sqe)
{
	return sqe->opcode == IORING_OP_STATX;
}

static uint64_t hash_memory(unsigned from)
{
	uint64_t value;

	/*
	 * In a scenario that is traced, do not hash the memory: most of the
	 * trace would consist of the reads for the hash.
	 */
	if (kind == KIND_TRACED)
		return 0;
	for (unsigned i = from; i < world.nr_requests; i++)
		if (is_of_system(&world.requests[i].sqe))
			memset(arena, 0, ARENA);
	value = hash(0, arena, ARENA);
	for (unsigned i = 0; i < world.nr_arrays; i++)
		value = hash(value, arrays + (size_t)i * ARRAY, ARRAY_HASHED);
	return value;
}

/* Print a completion. The completions of one request are joined by '+'. */
static void print_noted(unsigned place)
{
	const char *text = noted.texts[place];
	size_t request = strcspn(text, ".") + 1;
	bool is_next = place && !strncmp(text, noted.texts[place - 1], request);

	printf("%c%s", is_next ? '+' : ' ', strchr(text, ' ') + 1);
}

/*
 * Do one step of the scenario.
 * Return: whether the scenario may make a further step: not if this step's requests
 * wait.
 */
static bool step(struct ring *ring, unsigned number, uint64_t patience_us)
{
	const uint32_t nr_max = kind == KIND_SKIP ? CHAIN_LONG : CHAIN_MAX;
	unsigned from = world.nr_requests;
	bool has_ended;

	noted.nr = 0;
	submit(ring, any(3) || kind == KIND_TRACED ? 1 : 1 + any(nr_max));
	has_ended = await(ring, patience_us);
	if (kind == KIND_TRACED)
		finish(ring);
	make_mark(MARK_END);
	if (has_ended && kind == KIND_SKIP)
		has_ended = await_silent(ring, from, patience_us);
	printf("%llu.%u", (unsigned long long)world.number, number);
	if (has_ended) {
		qsort(noted.texts, noted.nr, sizeof(noted.texts[0]), by_text);
		for (unsigned i = 0; i < noted.nr; i++)
			print_noted(i);
		printf(" mem %016llx", (unsigned long long)hash_memory(from));
	} else {
		printf(" waits");
	}
	for (unsigned i = from; i < world.nr_requests; i++)
		print_sqe(&world.requests[i].sqe);
	putchar('\n');
	return has_ended || kind == KIND_TRACED;
}

/* The end of a scenario: print the contents of its files, pipes and sockets */

static void print_file(const char *folder, const char *name)
{
	static char bytes[ARENA];
	char path[300];
	struct stat st;
	ssize_t nr = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (lstat(path, &st) < 0)
		return;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && S_ISREG(st.st_mode))
		nr = pread(fd, bytes, sizeof(bytes), 0);
	if (fd >= 0)
		close_fd(fd);
	printf("%llu.end path %s mode %o size %lld data %016llx\n",
	       (unsigned long long)world.number, path, st.st_mode,
	       S_ISREG(st.st_mode) ? (long long)st.st_size : -1,
	       (unsigned long long)hash(0, bytes, nr > 0 ? (size_t)nr : 0));
}

static void print_folder(const char *folder)
{
	struct dirent **names;
	int nr = scandir(folder, &names, NULL, alphasort);

	for (int i = 0; i < nr; i++) {
		if (names[i]->d_name[0] != '.')
			print_file(folder, names[i]->d_name);
		free(names[i]);
	}
	if (nr >= 0)
		free(names);
}

/*
 * Print what a pipe or a socket contains. For a file, print the position of the next
 * read instead.
 */
static void print_stream(unsigned place)
{
	static char bytes[4096];
	struct pollfd pfd = { .fd = world.fds[place], .events = POLLIN };
	uint64_t value = 0, total = 0;
	struct stat st;

	if (fstat(pfd.fd, &st) < 0)
		return;
	/*
	 * Make the read non-blocking: after requests have changed options of a socket,
	 * a read may block although poll() reports data.
	 */
	fcntl(pfd.fd, F_SETFL, fcntl(pfd.fd, F_GETFL) | O_NONBLOCK);
	for (unsigned i = 0; i < 4096 && !S_ISREG(st.st_mode); i++) {
		ssize_t nr;

		if (poll(&pfd, 1, 0) != 1 || !(pfd.revents & POLLIN))
			break;
		nr = read(pfd.fd, bytes, sizeof(bytes));
		if (nr <= 0)
			break;
		value = hash(value, bytes, (size_t)nr);
		total += (uint64_t)nr;
	}
	printf("%llu.end fd %u at %lld has %llu %016llx\n",
	       (unsigned long long)world.number, place,
	       S_ISREG(st.st_mode) ? (long long)lseek(pfd.fd, 0, SEEK_CUR) : 0,
	       (unsigned long long)total, (unsigned long long)value);
}

static void print_end(void)
{
	for (unsigned i = 0; i < world.nr_fds; i++)
		print_stream(i);
	print_folder(".");
	print_folder("./d");
}

void live_alone(uint64_t patience_us)
{
	struct ring *ring = &world.rings[0];
	bool goes_on = true;
	uint32_t opcode;

	if (!open_ring(ring))
		failed("no ring", ring->uring.fd);
	if (kind == KIND_DISABLED)
		live_disabled(ring);
	if (kind == KIND_TRACED)
		print_traced(ring);
	make_mark(MARK_WORLD);
	for (unsigned i = 0; i < STEPS && goes_on; i++) {
		if (any(8) == 0)
			make_arguments();
		if (any(4) == 0) {
			long ret = make_register(ring, &opcode);

			printf("%llu.%ur %ld | register %u\n",
			       (unsigned long long)world.number, i, ret,
			       opcode);
		}
		goes_on = step(ring, i, patience_us);
	}
	if (goes_on)
		print_end();
	finish(ring);
	fflush(stdout);
}
