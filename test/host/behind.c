/* SPDX-License-Identifier: MIT */
/*
 * behind: a file system does not answer reads. Requests on other files, submitted later,
 * must still complete.
 *
 * One device may not occupy all workers, so requests on other files must complete as
 * long as one worker is free or can be created. The program links the library
 * statically, so that it can fix the number of workers and make pthread_create() fail.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <linux/aio_abi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "options/config.h"
#include "slowfs.h"
#include "items.h"
#include "threads.h"

enum {
	SIZE = UNIT_KEY_BYTES,
	FILES = 4,
	EACH = 48,
	WORKERS = 32,
	SHARE = WORKERS * 7 / 8, /* how many workers one device may occupy */
	MOST_BLOCKED = 4 * WORKERS,
	SKIPPED = 77
};

static struct slowfs *fs;
static unsigned nr_fixed;
static unsigned nr_blocked;

static char slow_buffers[MOST_BLOCKED][SIZE];

/*
 * Submit reads that the file system answers only in unblock(). All other requests must
 * complete before that.
 */
static void block(uint64_t handle)
{
	int fd = open("slow/file", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	slowfs_hold(fs, SLOWFS_READ);
	for (unsigned i = 0; i < nr_blocked; i++) {
		struct iocb iocb =
			unit_iocb(IOCB_CMD_PREAD, fd, slow_buffers[i], SIZE, 0);

		assert_int_equal(unit_submit(handle, &iocb), 1);
	}
	slowfs_await(fs, SLOWFS_READ, nr_blocked < SHARE ? nr_blocked : SHARE);
}

static void unblock(uint64_t handle)
{
	static struct io_event events[MOST_BLOCKED];

	slowfs_release(fs, SLOWFS_READ);
	assert_int_equal(unit_reap(handle, nr_blocked, events), nr_blocked);
	for (unsigned i = 0; i < nr_blocked; i++) {
		assert_int_equal(events[i].res, SIZE);
		assert_int_equal(slow_buffers[i][0], 's');
	}
}

/*
 * Write each block of all files, and read it again. All these requests must complete.
 */
static void run_others(void)
{
	static char in[FILES][EACH][SIZE], out[FILES][EACH][SIZE];
	static struct io_event events[2 * FILES * EACH];
	uint64_t handle = unit_context(2 * FILES * EACH);
	int fds[FILES];

	for (unsigned i = 0; i < FILES; i++)
		fds[i] = unit_numbered_file(true, 1);
	for (unsigned j = 0; j < EACH; j++)
		for (unsigned i = 0; i < FILES; i++) {
			struct iocb write =
				unit_iocb(IOCB_CMD_PWRITE, fds[i], out[i][j],
					  SIZE, j * SIZE);
			struct iocb read = unit_iocb(IOCB_CMD_PREAD, fds[i],
						     in[i][j], SIZE, j * SIZE);

			memset(out[i][j], (int)(1 + i + j), SIZE);
			memset(in[i][j], 0, SIZE);
			assert_int_equal(unit_submit(handle, &write), 1);
			assert_int_equal(unit_submit(handle, &read), 1);
		}
	assert_int_equal(unit_reap(handle, 2 * FILES * EACH, events),
			 2 * FILES * EACH);
	for (unsigned i = 0; i < 2 * FILES * EACH; i++)
		assert_int_equal(events[i].res, SIZE);
	assert_memory_equal(in, out, sizeof(in));
	unit_destroy(handle);
	for (unsigned i = 0; i < FILES; i++)
		unit_close(fds[i]);
}

static int run_behind(void)
{
	uint64_t handle;

	assert_int_equal(unit_engine(NULL), 0);
	uaio_wq_limit_workers(UAIO_BOUNDED, WORKERS);
	uaio_config.force_worker = true;
	if (nr_fixed)
		items_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 16);
	handle = unit_context(MOST_BLOCKED);
	block(handle);
	run_others();
	run_others();
	unblock(handle);
	unit_destroy(handle);
	return 0;
}

static void all_else_ends_behind_reads_that_do_not(void **state)
{
	static const unsigned numbers[] = { 24, MOST_BLOCKED };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(numbers); i++)
		for (nr_fixed = 0; nr_fixed < 4; nr_fixed += 3) {
			nr_blocked = numbers[i];
			assert_int_equal(unit_in_child(run_behind), 0);
		}
}

/*
 * unit_allow_threads() limits the number of the library's threads. Even a few threads
 * must complete all requests. If there is no worker, the submitting thread executes the
 * requests.
 */
static void all_else_ends_with_the_threads_there_are(void **state)
{
	(void)state;
	for (unsigned nr_threads = 0; nr_threads < 27;
	     nr_threads += nr_threads < 6 || !UNIT_IS_SANITIZED ? 1 : 10)
		for (nr_fixed = 0; nr_fixed < 4; nr_fixed += 2) {
			nr_blocked =
				nr_threads < 2 ? nr_threads : nr_threads - 2;
			unit_allow_threads(nr_threads);
			assert_int_equal(unit_in_child(run_behind), 0);
		}
	unit_allow_threads(UINT32_MAX);
}

/* Many direct requests in flight at once */

enum { DEPTH = 256, BLOCK = 4096 };

static bool fill(int fd)
{
	static _Alignas(BLOCK) char data[DEPTH * BLOCK];

	memset(data, 'd', sizeof(data));
	return pwrite(fd, data, sizeof(data), 0) == sizeof(data);
}

/*
 * The file system answers only after it has got all requests, so all must be in flight
 * at once.
 */
static void submit_and_hold_all(unsigned opcode, enum slowfs_op op, int fd,
				char *buffers)
{
	static struct io_event events[DEPTH];
	uint64_t handle = unit_context(DEPTH);

	slowfs_hold(fs, op);
	for (unsigned i = 0; i < DEPTH; i++) {
		struct iocb iocb = unit_iocb(opcode, fd, buffers + i * BLOCK,
					     BLOCK, i * BLOCK);

		assert_int_equal(unit_submit(handle, &iocb), 1);
	}
	slowfs_await(fs, op, DEPTH);
	slowfs_release(fs, op);
	assert_int_equal(unit_reap(handle, DEPTH, events), DEPTH);
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(events[i].res, BLOCK);
	unit_destroy(handle);
}

static int be_as_many_as_are_submitted(void)
{
	int fd = open("slow/deep", O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC,
		      0644);
	char *buffers = mmap(NULL, DEPTH * BLOCK, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned nr_asked;

	assert_int_equal(unit_engine(NULL), 0);
	assert_true(fd >= 0 && buffers != MAP_FAILED && fill(fd));
	submit_and_hold_all(IOCB_CMD_PREAD, SLOWFS_READ, fd, buffers);
	assert_int_equal(buffers[DEPTH * BLOCK - 1], 'd');
	nr_asked = slowfs_nr_done(fs, SLOWFS_ATTRIBUTES);
	submit_and_hold_all(IOCB_CMD_PWRITE, SLOWFS_WRITE, fd, buffers);
	/*
	 * Before each write, the library queries the file's size, to see whether the
	 * write extends the file. The kernel must answer nearly all of these queries
	 * from its cache, without the FUSE server.
	 */
	nr_asked = slowfs_nr_done(fs, SLOWFS_ATTRIBUTES) - nr_asked;
	assert_in_range(nr_asked, 0, DEPTH / 8);
	unit_close(fd);
	unlink("slow/deep");
	return 0;
}

static void
direct_requests_are_under_way_together_as_deep_as_submitted(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(be_as_many_as_are_submitted), 0);
}

/* Direct requests on FUSE that the kernel's own AIO executes */

enum {
	SERVED = 64,
	/*
	 * how many asynchronous requests FUSE accepts at once (max_background) by
	 * default
	 */
	BACKGROUND = 12,
};

static char served_buffers[SERVED * BLOCK] __attribute__((aligned(BLOCK)));

/* Return: whether this process may use the kernel's AIO. */
static bool has_kernel_aio(void)
{
	aio_context_t ctx = 0;

	return syscall(SYS_io_setup, 1, &ctx) == 0 &&
	       syscall(SYS_io_destroy, ctx) == 0;
}

static void submit_served(uint64_t handle, unsigned opcode, int fd, unsigned i)
{
	struct iocb iocb = unit_iocb(opcode, fd, served_buffers + i * BLOCK,
				     BLOCK, i * BLOCK);

	assert_int_equal(unit_submit(handle, &iocb), 1);
}

static void reap_served(uint64_t handle, unsigned nr)
{
	static struct io_event events[SERVED];

	assert_int_equal(unit_reap(handle, nr, events), nr);
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(events[i].res, BLOCK);
}

/*
 * Open a file, and let the kernel complete a first request on a new context. This
 * request makes the library create a kernel AIO ring for the context.
 * Return: the context.
 */
static uint64_t begin_served(const char *path, unsigned opcode, int *ret_fd)
{
	uint64_t handle;
	int fd = open(path, O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, served_buffers, sizeof(served_buffers), 0),
			 sizeof(served_buffers));
	assert_int_equal(unit_engine(NULL), 0);
	handle = unit_context(SERVED);
	submit_served(handle, opcode, fd, 0);
	reap_served(handle, 1);
	*ret_fd = fd;
	return handle;
}

/*
 * From now on, let only workers execute requests. ThreadSanitizer must not check this
 * store: workers may read `force_worker` at the same time, and may find either value.
 */
static __attribute__((noinline, no_sanitize("thread"))) void force_worker(void)
{
	uaio_config.force_worker = true;
}

/*
 * The kernel's io_submit blocks until FUSE's queue has room, or until the server
 * answers. Meanwhile reads on another file must complete.
 */
static void read_behind_served(struct slowfs *server, const char *path,
			       unsigned nr_at_once)
{
	int fd;
	uint64_t handle = begin_served(path, IOCB_CMD_PREAD, &fd);

	uaio_wq_limit_workers(UAIO_BOUNDED, WORKERS);
	slowfs_hold(server, SLOWFS_READ);
	for (unsigned i = 0; i < SERVED; i++)
		submit_served(handle, IOCB_CMD_PREAD, fd, i);
	slowfs_await(server, SLOWFS_READ, nr_at_once);
	/* From here on, only workers execute requests. */
	force_worker();
	run_others();
	slowfs_release(server, SLOWFS_READ);
	reap_served(handle, SERVED);
	unit_destroy(handle);
	unit_close(fd);
	unlink(path);
}

static struct slowfs *few;

static int read_with_few(void)
{
	read_behind_served(few, "few/served", BACKGROUND);
	return 0;
}

static int read_without_any(void)
{
	read_behind_served(fs, "slow/served", SHARE);
	return 0;
}

static void all_else_ends_behind_direct_reads_of_a_server(void **state)
{
	(void)state;
	few = slowfs_start_locking("few", BACKGROUND);
	assert_non_null(few);
	assert_int_equal(unit_in_child(read_with_few), 0);
	assert_int_equal(unit_in_child(read_without_any), 0);
	slowfs_stop(few);
}

static struct slowfs *locking;

static int write_together(void)
{
	int fd;
	uint64_t handle = begin_served("locking/served", IOCB_CMD_PWRITE, &fd);

	slowfs_hold(locking, SLOWFS_WRITE);
	for (unsigned i = 0; i < SERVED; i++)
		submit_served(handle, IOCB_CMD_PWRITE, fd, i);
	slowfs_await(locking, SLOWFS_WRITE, SERVED);
	slowfs_release(locking, SLOWFS_WRITE);
	reap_served(handle, SERVED);
	unit_destroy(handle);
	unit_close(fd);
	return 0;
}

static void direct_writes_in_place_are_with_their_server_together(void **state)
{
	(void)state;
	if (!has_kernel_aio()) {
		print_message("not tried: no kernel AIO\n");
		return;
	}
	locking = slowfs_start_locking("locking", UINT16_MAX);
	assert_non_null(locking);
	assert_int_equal(unit_in_child(write_together), 0);
	slowfs_stop(locking);
}

static int make_file(void)
{
	char block[SIZE];
	int fd = open("slow/file", O_CREAT | O_RDWR | O_CLOEXEC, 0644);

	memset(block, 's', SIZE);
	return fd >= 0 && write(fd, block, SIZE) == SIZE && close(fd) == 0 ? 0
									   : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(all_else_ends_behind_reads_that_do_not),
		UNIT_TEST(all_else_ends_with_the_threads_there_are),
		UNIT_TEST(
			direct_requests_are_under_way_together_as_deep_as_submitted),
		UNIT_TEST(all_else_ends_behind_direct_reads_of_a_server),
		UNIT_TEST(
			direct_writes_in_place_are_with_their_server_together),
	};
	int ret;

	fs = slowfs_start("slow");
	if (!fs) {
		print_message("skipped: no file system can be mounted\n");
		return SKIPPED;
	}
	ret = make_file() ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
	slowfs_stop(fs);
	return ret;
}
