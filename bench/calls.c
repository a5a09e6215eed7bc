/* SPDX-License-Identifier: MIT */
/*
 * calls - measures how much time C library functions take in addition to their system
 * calls. The library's wrappers interpose these functions, so run the program twice:
 * without the library, and with the library loaded. The program itself uses no AIO and
 * no io_uring.
 *
 * For each function, the program measures slices: a slice is many calls of the
 * function, then as many bare system call instructions. The difference is the
 * function's own time, without the kernel's part. The program prints one JSON object,
 * with the medians of all slices in ns: "call" is the time of a whole call, "beyond"
 * the difference. "libraries" is above 0 if the library is loaded.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "handles.h"

enum { NR_SLICES = 401, CALLS = 256, PAGE = 4096 };

static struct {
	int event, epoll;
	int copies[CALLS]; /* duplicates of the descriptor `event` */
	char *page;
} has;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void make_copies(void)
{
	for (unsigned i = 0; i < CALLS; i++) {
		has.copies[i] = (int)uaio_sys6(SYS_fcntl, has.event,
					       F_DUPFD_CLOEXEC, 0, 0, 0, 0);
		if (has.copies[i] < 0)
			die("fcntl");
	}
}

static void prepare_nothing(void)
{
}

static long call_epoll_wait(unsigned i)
{
	struct epoll_event event;

	(void)i;
	return epoll_wait(has.epoll, &event, 1, 0);
}

static long make_epoll_wait(unsigned i)
{
	struct epoll_event event;

	(void)i;
#ifdef SYS_epoll_wait
	return uaio_sys6(SYS_epoll_wait, has.epoll, (long)&event, 1, 0, 0, 0);
#else
	return uaio_sys6(SYS_epoll_pwait, has.epoll, (long)&event, 1, 0, 0, 0);
#endif
}

static long call_poll(unsigned i)
{
	struct pollfd polled = { .fd = has.event, .events = POLLIN };

	(void)i;
	return poll(&polled, 1, 0);
}

static long make_poll(unsigned i)
{
	struct pollfd polled = { .fd = has.event, .events = POLLIN };

	(void)i;
#ifdef SYS_poll
	return uaio_sys6(SYS_poll, (long)&polled, 1, 0, 0, 0, 0);
#else
	struct timespec none = { 0 };

	return uaio_sys6(SYS_ppoll, (long)&polled, 1, (long)&none, 0, 0, 0);
#endif
}

/*
 * Each mmap() replaces the mapping of has.page. Otherwise each mmap() would leave one
 * more mapping behind.
 */
static long call_mmap(unsigned i)
{
	(void)i;
	return (long)mmap(has.page, PAGE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static long make_mmap(unsigned i)
{
	(void)i;
	return uaio_sys6(SYS_mmap, (long)has.page, PAGE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static long call_close(unsigned i)
{
	return close(has.copies[i]);
}

static long make_close(unsigned i)
{
	return uaio_sys6(SYS_close, has.copies[i], 0, 0, 0, 0, 0);
}

static const struct function {
	const char *name;
	void (*prepare)(void);
	long (*call)(unsigned i);
	/* makes the same system call as call(), by an inline instruction */
	long (*make)(unsigned i);
} functions[] = {
	{ "epoll_wait", prepare_nothing, call_epoll_wait, make_epoll_wait },
	{ "poll", prepare_nothing, call_poll, make_poll },
	{ "mmap", prepare_nothing, call_mmap, make_mmap },
	{ "close", make_copies, call_close, make_close },
};
enum { NR_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

/* Return: nanoseconds per call. */
static double time_calls(const struct function *function,
			 long (*call)(unsigned i))
{
	uint64_t start;

	function->prepare();
	start = now_ns();
	for (unsigned i = 0; i < CALLS; i++)
		if (call(i) < 0)
			die(function->name);
	return (double)(now_ns() - start) / CALLS;
}

static double median(double *values)
{
	qsort(values, NR_SLICES, sizeof(*values), compare_doubles);
	return values[NR_SLICES / 2];
}

static void measure(const struct function *function)
{
	static double calls[NR_SLICES], beyond[NR_SLICES];

	for (unsigned i = 0; i < NR_SLICES; i++) {
		calls[i] = time_calls(function, function->call);
		beyond[i] = calls[i] - time_calls(function, function->make);
	}
	printf("\"%s\": {\"call\": %.2f, \"beyond\": %.2f}, ", function->name,
	       median(calls), median(beyond));
}

int main(void)
{
	struct epoll_event event = { .events = EPOLLIN };

	has.event = eventfd(0, EFD_CLOEXEC);
	has.epoll = epoll_create1(EPOLL_CLOEXEC);
	has.page =
		mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (has.event < 0 || has.epoll < 0 || has.page == MAP_FAILED ||
	    epoll_ctl(has.epoll, EPOLL_CTL_ADD, has.event, &event) < 0)
		die("calls");
	printf("{");
	for (unsigned i = 0; i < NR_FUNCTIONS; i++)
		measure(&functions[i]);
	printf("\"libraries\": %zu}\n", nr_mapped("/libuaio.so"));
	return 0;
}
