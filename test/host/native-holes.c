/* SPDX-License-Identifier: MIT */
/*
 * Cases: direct writes into holes of a file, for which the kernel must allocate blocks.
 * The kernel's own AIO executes requests for the library (UAIO_BACKEND=aio). Several
 * threads write, while descriptors are closed and processes fork and end.
 */
#include "host.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	BYTES = 4096, /* bytes in a block of the file system */
	NR_WORDS = BYTES / sizeof(uint32_t),
	NR_THREADS = 4,
	DEPTH = 32,
	NR_OF_THREAD = 8 * DEPTH,
	NR = NR_THREADS * NR_OF_THREAD,
	STATUS = 42,
};

struct writer {
	pthread_t thread;
	unsigned nr; /* index of this thread */
	uint32_t stamp;
	uint32_t blocks[DEPTH][NR_WORDS] __attribute__((aligned(BYTES)));
};

static int open_sparse(const char *path)
{
	int fd = open(path, O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0644);

	REQUIRE(fd >= 0);
	return fd;
}

/* Empty the file and extend it to nr blocks, which are one hole. */
static void make_hole(const char *path, unsigned nr)
{
	int fd = open_sparse(path);

	REQUIRE(ftruncate(fd, 0) == 0);
	REQUIRE(ftruncate(fd, (off_t)nr * BYTES) == 0);
	REQUIRE(close(fd) == 0);
}

static void check(const char *path, unsigned nr, uint32_t stamp)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint32_t seen[NR_WORDS];

	REQUIRE(fd >= 0);
	REQUIRE(lseek(fd, 0, SEEK_END) == (off_t)nr * BYTES);
	for (unsigned i = 0; i < nr; i++) {
		REQUIRE(pread(fd, seen, BYTES, (off_t)i * BYTES) == BYTES);
		for (unsigned j = 0; j < NR_WORDS; j++)
			REQUIRE(seen[j] == (i ^ stamp));
	}
	REQUIRE(close(fd) == 0);
}

/* Submit DEPTH writes: every stride-th block, starting with block `first`. */
static void write_some(struct writer *writer, aio_context_t ctx, int fd,
		       unsigned first, unsigned stride)
{
	struct iocb iocbs[DEPTH], *list[DEPTH];

	for (unsigned i = 0; i < DEPTH; i++) {
		unsigned nr = first + i * stride;

		for (unsigned j = 0; j < NR_WORDS; j++)
			writer->blocks[i][j] = nr ^ writer->stamp;
		iocbs[i] = host_iocb(IOCB_CMD_PWRITE, fd, writer->blocks[i],
				     BYTES, (long long)nr * BYTES);
		list[i] = &iocbs[i];
	}
	host_submit_all(ctx, DEPTH, list);
}

static void reap_some(aio_context_t ctx)
{
	struct io_event event;

	for (unsigned i = 0; i < DEPTH; i++) {
		REQUIRE(host_reap(ctx, 1, &event) == 1);
		REQUIRE(event.res == BYTES);
	}
}

/* In each round, close the descriptor while the writes are in flight. */
static void *write_part(void *arg)
{
	aio_context_t ctx = host_context(DEPTH);
	struct writer *writer = arg;

	for (unsigned i = 0; i < NR_OF_THREAD; i += DEPTH) {
		int fd = open_sparse("holes");

		write_some(writer, ctx, fd, i * NR_THREADS + writer->nr,
			   NR_THREADS);
		if (i & DEPTH)
			reap_some(ctx);
		REQUIRE(close(fd) == 0);
		if (!(i & DEPTH))
			reap_some(ctx);
	}
	REQUIRE(host_destroy(ctx) == 0);
	return NULL;
}

static struct writer writers[NR_THREADS + 1];

static void write_in_hole_of(const char *path, bool waits)
{
	struct writer *writer = &writers[NR_THREADS];
	aio_context_t ctx = host_context(DEPTH);
	int fd;

	make_hole(path, DEPTH);
	fd = open_sparse(path);
	write_some(writer, ctx, fd, 0, 1);
	if (!waits)
		return;
	reap_some(ctx);
	REQUIRE(close(fd) == 0 && host_destroy(ctx) == 0);
}

static int live_as_child(void *arg)
{
	(void)arg;
	write_in_hole_of("childs", true);
	check("childs", DEPTH, 0);
	return STATUS;
}

static int leave(void *arg)
{
	(void)arg;
	write_in_hole_of("left", false);
	exit(STATUS);
}

static int leave_at_once(void *arg)
{
	(void)arg;
	write_in_hole_of("left", false);
	_exit(STATUS);
}

void native_holes(void)
{
	/*
	 * Each block is written once, into a hole. The kernel's io_submit blocks on
	 * such writes, so the library lets workers call it.
	 */
	for (unsigned round = 0; round < 4; round++) {
		make_hole("holes", NR);
		for (unsigned i = 0; i < NR_THREADS; i++) {
			writers[i].nr = i;
			writers[i].stamp = (round + 1) << 16;
			REQUIRE(!pthread_create(&writers[i].thread, NULL,
						write_part, &writers[i]));
		}
		REQUIRE(host_in_child(live_as_child, NULL) == STATUS);
		for (unsigned i = 0; i < NR_THREADS; i++)
			REQUIRE(!pthread_join(writers[i].thread, NULL));
		check("holes", NR, (round + 1) << 16);
	}
	for (unsigned round = 0; round < 4; round++) {
		REQUIRE(host_in_child(round & 1 ? leave : leave_at_once,
				      NULL) == STATUS);
		check("left", DEPTH, 0);
	}
}

/*
 * Closing a descriptor while a write to it waits, inside the kernel, for its memory
 */

enum { NR_HELD = 4 };

/*
 * Memory with a userfaultfd: a thread that reads this memory sleeps until
 * release_memory(). Here a worker sleeps, because the kernel reads the memory in the
 * worker's write.
 */
static struct {
	char *blocks;
	int fd; /* owns: a userfaultfd */
} held;

static void hold_memory(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area;

	held.blocks = mmap(NULL, NR_HELD * BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(held.blocks != MAP_FAILED);
	held.fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	REQUIRE(held.fd >= 0 && ioctl(held.fd, UFFDIO_API, &api) == 0);
	area = (struct uffdio_register){
		.range = { (uintptr_t)held.blocks, NR_HELD * BYTES },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	REQUIRE(ioctl(held.fd, UFFDIO_REGISTER, &area) == 0);
}

static void await_fault(void)
{
	struct uffd_msg msg;

	REQUIRE(read(held.fd, &msg, sizeof(msg)) == sizeof(msg));
	REQUIRE(msg.event == UFFD_EVENT_PAGEFAULT);
}

/* Return: whether thread `tid` is in io_submit or a system call that writes. */
static bool is_writing(const char *tid)
{
	char path[64], text[32] = "";
	long nr;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/syscall", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	(void)!read(fd, text, sizeof(text) - 1);
	REQUIRE(close(fd) == 0);
	nr = strtol(text, NULL, 10);
	return nr == SYS_io_submit || nr == SYS_pwrite64 || nr == SYS_pwritev2;
}

static unsigned nr_writing(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned nr = 0;

	REQUIRE(tasks);
	while ((entry = readdir(tasks)))
		nr += is_writing(entry->d_name);
	REQUIRE(closedir(tasks) == 0);
	return nr;
}

/*
 * Fill held.blocks with zeros, which wakes the threads that sleep in reading them.
 */
static void release_memory(void)
{
	struct uffdio_zeropage zero = {
		.range = { (uintptr_t)held.blocks, NR_HELD * BYTES },
	};

	REQUIRE(ioctl(held.fd, UFFDIO_ZEROPAGE, &zero) == 0);
	REQUIRE(close(held.fd) == 0);
}

/*
 * Workers wait in the kernel for memory that the program fills only after it has closed
 * the descriptor. So neither io_submit nor close() may wait for these writes. With the
 * kernel alone, io_submit would wait.
 */
void native_closing(void)
{
	aio_context_t ctx = host_context(DEPTH);
	struct iocb iocbs[NR_HELD], *list[NR_HELD];
	int fd, other;

	make_hole("holes", 3 * DEPTH);
	fd = open_sparse("holes");
	/*
	 * The kernel's io_submit blocks on these writes. From then on the library hands
	 * requests on this file to workers.
	 */
	for (unsigned i = 0; i < 2; i++) {
		write_some(&writers[0], ctx, fd, i * DEPTH, 1);
		reap_some(ctx);
	}
	hold_memory();
	for (unsigned i = 0; i < NR_HELD; i++) {
		iocbs[i] = host_iocb(IOCB_CMD_PWRITE, fd,
				     held.blocks + (size_t)i * BYTES, BYTES,
				     (2ll * DEPTH + i) * BYTES);
		list[i] = &iocbs[i];
	}
	host_submit_all(ctx, NR_HELD, list);
	await_fault();
	/*
	 * Wait until no write is queued: close() would execute queued writes itself,
	 * and would block.
	 */
	while (nr_writing() < NR_HELD)
		sched_yield();
	REQUIRE(close(fd) == 0);
	other = open("other", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	REQUIRE(other == fd);
	release_memory();
	for (unsigned i = 0; i < NR_HELD; i++) {
		struct io_event event;

		REQUIRE(host_reap(ctx, 1, &event) == 1);
		REQUIRE(event.res == BYTES);
	}
	REQUIRE(lseek(other, 0, SEEK_END) == 0);
	REQUIRE(close(other) == 0 && host_destroy(ctx) == 0);
}
