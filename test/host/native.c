/* SPDX-License-Identifier: MIT */
/*
 * Cases: programs that end, fork, close, jump and so on, while a device holds back
 * writes that the kernel's own AIO executes for the library (UAIO_BACKEND=aio).
 */
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ways.h"

/*
 * NR: so few writes that io_submit neither blocks nor returns EAGAIN on any block
 * device
 */
enum { NR = 4 };

enum { STATUS = 42, FIRST_OF_ENGINE = 512, PATIENCE_S = 60 };

static struct host_device device;

static struct host_held hold_writes(void)
{
	return host_device_hold(&device, NR);
}

static void release(void)
{
	slowfs_release(device.fs, SLOWFS_WRITE);
}

/*
 * Check that the library still works, and that the kernel still executes requests for
 * it.
 */
static void work_again(aio_context_t ctx)
{
	int fd = host_device_direct(&device);

	host_write_blocks(ctx, fd, 0, NR);
	host_reap_blocks(ctx, NR);
	host_device_check(&device, NR);
	REQUIRE(close(fd) == 0);
}

/*
 * Ways to end the process while the device holds back its writes
 */

static void by_exit(void)
{
	exit(STATUS);
}

static void by_underscore_exit(void)
{
	_exit(STATUS);
}

static void by_exec(void)
{
	execl("/bin/sh", "sh", "-c", "exit 42", (char *)NULL);
}

static void *exec_elsewhere(void *arg)
{
	(void)arg;
	by_exec();
	return NULL;
}

static void by_exec_in_a_thread(void)
{
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, exec_elsewhere, NULL));
	for (;;)
		pause();
}

static void by_failed_exec(void)
{
	REQUIRE(execl("/nonexistent", "none", (char *)NULL) < 0);
	exit(STATUS);
}

static void by_pthread_exit(void)
{
	pthread_exit(NULL);
}

static int write_and_leave(void *arg)
{
	void (*const *leave)(void) = arg;

	(void)hold_writes();
	host_step(1);
	(*leave)();
	return 1;
}

void native_leaving(void)
{
	static void (*ways[])(void) = {
		by_exit,        by_underscore_exit,  by_exec,
		by_failed_exec, by_exec_in_a_thread, by_pthread_exit
	};

	device = host_device_open();
	for (size_t i = 0; i < NR_ELEMENTS(ways); i++) {
		pid_t pid;
		int status;

		host_step(0);
		pid = host_start(write_and_leave, &ways[i]);
		host_await_step(1);
		/*
		 * Without the library, the process may already be in execve(), and
		 * /proc then shows no state of it.
		 */
		if (host_is_uaio())
			host_await_sleep(pid);
		release();
		status = host_finish(pid);
		REQUIRE(status == (ways[i] == by_pthread_exit ? 0 : STATUS));
		host_device_check(&device, NR);
	}
	host_device_close(&device);
}

/*
 * Children that are created while the device holds back their parent's writes
 */

static int live_as_child(void *arg)
{
	const struct host_held *parents = arg;
	struct iocb iocb = host_iocb(IOCB_CMD_FSYNC, parents->fd, NULL, 0, 0);
	int fd = open("childs", O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0644);
	static char blank[NR * BLOCK] __attribute__((aligned(4096)));
	aio_context_t ctx;

	REQUIRE(host_find_fd(FIRST_OF_ENGINE, "") < 0);
	REQUIRE(host_submit(parents->ctx, &iocb) == -EINVAL);
	/* Write to a file on another device: `device` holds back all writes. */
	REQUIRE(pwrite(fd, blank, sizeof(blank), 0) == sizeof(blank));
	ctx = host_context(NR);
	host_write_blocks(ctx, fd, 0, NR);
	host_reap_blocks(ctx, NR);
	host_check_blocks("childs", NR);
	REQUIRE(host_destroy(ctx) == 0 && close(fd) == 0);
	return STATUS;
}

void native_forking(void)
{
	device = host_device_open();
	for (unsigned round = 0; round < 3; round++) {
		struct host_held held = hold_writes();

		/* The child must not wait for requests of its parent. */
		REQUIRE(host_in_child(live_as_child, &held) == STATUS);
		release();
		host_reap_blocks(held.ctx, NR);
		host_device_check(&device, NR);
		host_held_drop(&held);
	}
	host_device_close(&device);
}

/*
 * Replacing descriptors of the program and of the library
 */

static void *release_soon(void *arg)
{
	(void)arg;
	release();
	return NULL;
}

void native_numbers(void)
{
	device = host_device_open();
	for (const struct host_way *way = host_ways; way->name; way++) {
		aio_context_t ctx = host_context(NR);
		int other = host_nameless();
		pthread_t helper;

		host_move(host_device_direct(&device), FAR);
		host_device_write(&device, ctx, FAR, NR);
		/*
		 * replace() may wait for the write: if the kernel's io_submit returned
		 * EAGAIN, a worker executes the write. So another thread lets the device
		 * complete the write.
		 */
		REQUIRE(!pthread_create(&helper, NULL, release_soon, NULL));
		way->replace(FAR, other);
		REQUIRE(!pthread_join(helper, NULL));
		host_reap_blocks(ctx, NR);
		host_device_check(&device, NR);
		REQUIRE(lseek(other, 0, SEEK_END) == 0);
		REQUIRE(close(FAR) == 0 && close(other) == 0);
		REQUIRE(host_destroy(ctx) == 0);
	}
	host_device_close(&device);
}

static bool is_of_engine(int fd)
{
	char path[64], link[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, link, sizeof(link)) > 0;
}

/*
 * The program replaces each descriptor of the library, one after another, by a file of
 * its own.
 */
void native_numbers_of_engine(void)
{
	unsigned nr = 0;

	device = host_device_open();
	for (int number = FIRST_OF_ENGINE; number < FIRST_OF_ENGINE + 16;
	     number++) {
		struct host_held held = hold_writes();
		int other = host_nameless();

		if (is_of_engine(number)) {
			REQUIRE(dup2(other, number) == number);
			nr++;
		}
		release();
		host_reap_blocks(held.ctx, NR);
		host_device_check(&device, NR);
		work_again(held.ctx);
		REQUIRE(lseek(other, 0, SEEK_END) == 0);
		REQUIRE(close(other) == 0);
		host_held_drop(&held);
	}
	REQUIRE(nr);
	host_device_close(&device);
}

/*
 * Ways to wait for a completion
 */

static sigjmp_buf before_sleep;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(before_sleep, 1);
}

static void *interrupt_sleep(void *arg)
{
	pthread_t *thread = arg;

	host_await_sleep(getpid());
	REQUIRE(!pthread_kill(*thread, SIGUSR1));
	return NULL;
}

/* A handler leaves io_getevents by siglongjmp. No event may be lost. */
void native_jumps(void)
{
	struct sigaction action = { .sa_handler = jump };
	pthread_t self = pthread_self();

	device = host_device_open();
	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	for (unsigned round = 0; round < 20; round++) {
		struct host_held held = hold_writes();
		pthread_t helper;

		if (!sigsetjmp(before_sleep, 1)) {
			struct io_event events[NR];

			REQUIRE(!pthread_create(&helper, NULL, interrupt_sleep,
						&self));
			(void)host_reap(held.ctx, NR, events);
			REQUIRE(!"it is left by a jump");
		}
		REQUIRE(!pthread_join(helper, NULL));
		release();
		host_reap_blocks(held.ctx, NR);
		host_device_check(&device, NR);
		host_held_drop(&held);
	}
	host_device_close(&device);
}

/* Fields of the kernel's AIO ring that a program can read without a system call. */
struct ring {
	uint32_t id, nr, head, tail;
};

void native_ring_alone(void)
{
	device = host_device_open();
	for (unsigned round = 0; round < 10; round++) {
		struct host_held held = hold_writes();
		struct ring *ring = (struct ring *)held.ctx;
		uint32_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
		time_t deadline = time(NULL) + PATIENCE_S;

		release();
		while ((__atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) +
			ring->nr - tail) %
			       ring->nr !=
		       NR) {
			REQUIRE(time(NULL) < deadline);
			sched_yield();
		}
		host_reap_blocks(held.ctx, NR);
		host_device_check(&device, NR);
		host_held_drop(&held);
	}
	host_device_close(&device);
}

static void submit_told(const struct host_held *held, int event)
{
	static char block[BLOCK] __attribute__((aligned(4096)));

	for (unsigned i = 0; i < NR; i++) {
		struct iocb iocb = host_iocb(IOCB_CMD_PWRITE, held->fd, block,
					     BLOCK, (long long)i * BLOCK);

		iocb.aio_flags = IOCB_FLAG_RESFD;
		iocb.aio_resfd = (uint32_t)event;
		REQUIRE(host_submit(held->ctx, &iocb) == 1);
	}
}

/* Sleep only in poll() or read() on the eventfd, never in io_getevents. */
static void sleep_in(int event, bool in_read)
{
	struct pollfd pollfd = { .fd = event, .events = POLLIN };
	uint64_t nr = 0, nr_all = 0;

	while (nr_all < NR) {
		if (!in_read)
			REQUIRE(poll(&pollfd, 1, PATIENCE_S * 1000) == 1);
		REQUIRE(read(event, &nr, sizeof(nr)) == sizeof(nr));
		nr_all += nr;
	}
	REQUIRE(nr_all == NR);
}

static void *release_asleep(void *arg)
{
	(void)arg;
	host_await_sleep(getpid());
	release();
	return NULL;
}

void native_told(void)
{
	device = host_device_open();
	for (unsigned round = 0; round < 10; round++) {
		struct host_held held = { host_context(NR),
					  host_device_direct(&device) };
		int event = eventfd(0, EFD_CLOEXEC);
		pthread_t helper;

		slowfs_hold(device.fs, SLOWFS_WRITE);
		submit_told(&held, event);
		REQUIRE(!pthread_create(&helper, NULL, release_asleep, NULL));
		sleep_in(event, round & 1);
		REQUIRE(!pthread_join(helper, NULL));
		host_reap_blocks(held.ctx, NR);
		REQUIRE(close(event) == 0);
		host_held_drop(&held);
	}
	host_device_close(&device);
}

/*
 * Destroying a context, and cancelling requests
 */

void native_destroying(void)
{
	device = host_device_open();
	for (unsigned round = 0; round < 10; round++) {
		struct host_held held = hold_writes();
		pthread_t helper;

		REQUIRE(!pthread_create(&helper, NULL, release_asleep, NULL));
		REQUIRE(host_destroy(held.ctx) == 0);
		REQUIRE(!pthread_join(helper, NULL));
		/* When io_destroy returns, the writes must be on the device. */
		host_device_check(&device, NR);
		REQUIRE(close(held.fd) == 0);
	}
	host_device_close(&device);
}

/*
 * io_cancel() must refuse a request that has started, and the request must still have
 * its event.
 */
void native_cancelling(void)
{
	static char block[BLOCK] __attribute__((aligned(4096)));
	struct io_event event;
	struct host_held held;
	struct iocb iocb;

	device = host_device_open();
	held = (struct host_held){ host_context(1),
				   host_device_direct(&device) };
	iocb = host_iocb(IOCB_CMD_PWRITE, held.fd, block, BLOCK, 0);
	slowfs_hold(device.fs, SLOWFS_WRITE);
	REQUIRE(host_submit(held.ctx, &iocb) == 1);
	slowfs_await(device.fs, SLOWFS_WRITE, 1);
	REQUIRE(syscall(SYS_io_cancel, held.ctx, &iocb, &event) == -1);
	REQUIRE(errno == EINVAL || errno == EAGAIN);
	release();
	host_reap_blocks(held.ctx, 1);
	host_held_drop(&held);
	host_device_close(&device);
}
