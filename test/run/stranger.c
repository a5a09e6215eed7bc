/* SPDX-License-Identifier: MIT */
/*
 * stranger: a client of kernel AIO, io_uring and POSIX AIO, built for another C library
 * than glibc, or with a sanitizer
 *
 * First the program submits a read of an empty pipe by syscall(2). The kernel's
 * io_submit would wait for the data, which would never come here, so the library must
 * execute the read. The program does this in main(), in a thread and in a child. Then
 * it sets up a ring. Then it reads by aio_read(), at first without a notification, then
 * with a notification function that ends its thread by pthread_exit(). For each step
 * the program prints a line. At last it executes the program that its arguments name.
 */
#include <aio.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Some C libraries come without the kernel's headers, so define the numbers here.
 */
#if defined(__aarch64__)
enum { IO_SETUP, IO_DESTROY, IO_SUBMIT, IO_GETEVENTS = 4 };
#else
enum { IO_SETUP = 206, IO_DESTROY, IO_GETEVENTS, IO_SUBMIT };
#endif
enum { URING_SETUP = 425 };

struct request {
	uint64_t data;
	uint32_t key, flags;
	uint16_t operation, priority;
	int fd;
	uint64_t buf, bytes, offset, unused;
	uint32_t more_flags, event_fd;
};

struct event {
	uint64_t data, request;
	int64_t res, res2;
};

static void *use_aio(void *arg)
{
	unsigned long context = 0;
	struct event event = { 0 };
	char text[8] = "";
	int ends[2];

	if (pipe(ends) < 0)
		return NULL;
	struct request request = {
		.fd = ends[0],
		.buf = (uintptr_t)text,
		.bytes = sizeof(text),
	}, *list[] = { &request };

	if (syscall(IO_SETUP, 1, &context) == 0 &&
	    syscall(IO_SUBMIT, context, 1, list) == 1 &&
	    write(ends[1], "served", 7) == 7 &&
	    syscall(IO_GETEVENTS, context, 1, 1, &event, NULL) == 1 &&
	    event.res == 7 && syscall(IO_DESTROY, context) == 0)
		printf("%s: %s\n", (const char *)arg, text);
	fflush(stdout);
	close(ends[0]);
	close(ends[1]);
	return NULL;
}

static void use_ring(void)
{
	uint32_t params[30] = { 0 };
	long fd = syscall(URING_SETUP, 1, params);

	printf("ring: %s\n", fd < 0 ? strerror(errno) : "served");
	if (fd >= 0)
		close((int)fd);
}

static sem_t called;
static int nr_called;

static void be_called(union sigval value)
{
	__atomic_add_fetch(&nr_called, value.sival_int, __ATOMIC_RELAXED);
	sem_post(&called);
	pthread_exit(NULL);
}

/*
 * In the second round, the notification function runs on a thread with the attributes
 * `attr`.
 */
static void use_callback(void)
{
	char text[8] = "";
	struct aiocb request = {
		.aio_buf = text,
		.aio_nbytes = 7,
		.aio_sigevent.sigev_notify = SIGEV_THREAD,
		.aio_sigevent.sigev_notify_function = be_called,
		.aio_sigevent.sigev_value.sival_int = 3,
	};
	pthread_attr_t attr;
	int ends[2];

	if (pipe(ends) < 0 || sem_init(&called, 0, 0) < 0 ||
	    pthread_attr_init(&attr) ||
	    pthread_attr_setstacksize(&attr, 256 << 10))
		return;
	request.aio_fildes = ends[0];
	for (int i = 0; i < 2; i++) {
/*
 * ThreadSanitizer would report a race here: it does not see how the accesses to this
 * copy of attr are ordered.
 */
#ifndef __SANITIZE_THREAD__
		if (i)
			request.aio_sigevent.sigev_notify_attributes = &attr;
#endif
		if (aio_read(&request) == 0 && write(ends[1], "served", 7) == 7)
			(void)sem_wait(&called);
	}
	printf("callback: %s\n",
	       __atomic_load_n(&nr_called, __ATOMIC_RELAXED) == 6 ? text
								  : "not");
}

static void use_posix(void)
{
	char text[8] = "";
	struct aiocb request = {
		.aio_buf = text,
		.aio_nbytes = 7,
		.aio_sigevent.sigev_notify = SIGEV_NONE,
	};
	const struct aiocb *list[] = { &request };
	int ends[2];

	if (pipe(ends) < 0)
		return;
	request.aio_fildes = ends[0];
	if (aio_read(&request) == 0 && write(ends[1], "served", 7) == 7 &&
	    aio_suspend(list, 1, NULL) == 0 && aio_error(&request) == 0 &&
	    aio_return(&request) == 7)
		printf("aio_read: %s\n", text);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	use_aio("main");
	if (pthread_create(&thread, NULL, use_aio, "thread") == 0)
		pthread_join(thread, NULL);
	if (fork() == 0) {
		use_aio("child");
		_exit(0);
	}
	(void)wait(NULL);
	use_ring();
	use_posix();
	use_callback();
	fflush(stdout);
	return argc > 1 ? execv(argv[1], argv + 1) : 0;
}
