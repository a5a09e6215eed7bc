/* SPDX-License-Identifier: MIT */
/*
 * Case: a thread has submitted AIO with an eventfd, and passes a bad address to poll(),
 * ppoll() or epoll_pwait2(). The memory at the address becomes inaccessible before the
 * call, or while the thread sleeps. The calls must fail with EFAULT.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "host.h"
#include "older.h"

enum { SHORT_MS = 30, PAGE = 4096 };

static void *protect_asleep(void *arg)
{
	host_await_step(1);
	host_await_sleep(getpid());
	REQUIRE(mprotect(arg, PAGE, PROT_NONE) == 0);
	return NULL;
}

static void *new_page(void)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(page != MAP_FAILED);
	return page;
}

/*
 * ppoll() gets a valid timeout: glibc's ppoll() itself reads the timeout, and would
 * crash at a bad address.
 */
static void sleep_without_memory(int event, int epoll)
{
	const struct timespec soon = { .tv_nsec = SHORT_MS * 1000000l };
	struct pollfd *slots = new_page();
	struct epoll_event ready;
	pthread_t thread;

	slots[0] = (struct pollfd){ .fd = event, .events = POLLIN };
	REQUIRE(pthread_create(&thread, NULL, protect_asleep, slots) == 0);
	host_step(1);
	/*
	 * The thread protect_asleep() may make the array inaccessible before, during or
	 * after this poll(). So this poll() fails or times out.
	 */
	REQUIRE(poll(slots, 1, SHORT_MS) <= 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
	REQUIRE(poll(slots, 1, SHORT_MS) == -1 && errno == EFAULT);
	REQUIRE(ppoll(slots, 1, &soon, NULL) == -1 && errno == EFAULT);
	REQUIRE(epoll_pwait2(epoll, &ready, 1, (void *)slots, NULL) == -1 &&
		errno == EFAULT);
	REQUIRE(munmap(slots, PAGE) == 0);
}

void sleeps_without_memory(void)
{
	int event = eventfd(0, EFD_CLOEXEC), ends[2];
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	aio_context_t ctx = host_context(1);
	struct io_event got;
	struct iocb iocb;

	REQUIRE(event >= 0 && epoll >= 0 && pipe(ends) == 0);
	iocb = host_poll(ends[0]);
	iocb.aio_flags |= IOCB_FLAG_RESFD;
	iocb.aio_resfd = (uint32_t)event;
	REQUIRE(host_submit(ctx, &iocb) == 1);
	sleep_without_memory(event, epoll);
	REQUIRE(write(ends[1], "x", 1) == 1);
	REQUIRE(host_reap(ctx, 1, &got) == 1 && host_destroy(ctx) == 0);
	REQUIRE(close(ends[0]) == 0 && close(ends[1]) == 0);
	REQUIRE(close(event) == 0 && close(epoll) == 0);
}
