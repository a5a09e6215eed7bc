/* SPDX-License-Identifier: MIT */
/* Functions that the test cases of POSIX AIO share. */
#include "posix.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "older.h"

enum { NR_REQUESTS = 4096 };

static struct aiocb requests[NR_REQUESTS];

struct aiocb *request(int fd, const void *buf, size_t nbytes, off_t offset)
{
	static unsigned nr;
	struct aiocb *cb = &requests[nr++];

	REQUIRE(nr <= NR_REQUESTS);
	cb->aio_fildes = fd;
	cb->aio_buf = (void *)buf;
	cb->aio_nbytes = nbytes;
	cb->aio_offset = offset;
	cb->aio_sigevent.sigev_notify = SIGEV_NONE;
	return cb;
}

struct aiocb *waiting_read_of(int fd)
{
	static char bytes[64];
	static unsigned nr;
	struct aiocb *cb = request(fd, &bytes[nr++ % sizeof(bytes)], 1, 0);

	REQUIRE(aio_read(cb) == 0);
	return cb;
}

struct aiocb *waiting_read(int *ret_writer)
{
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	*ret_writer = fds[1];
	return waiting_read_of(fds[0]);
}

void end_read(int writer)
{
	REQUIRE(write(writer, "x", 1) == 1);
}

void note_call(const char *key, long ret)
{
	note_result(key, ret == -1 ? -errno : ret);
}

static const char *name_of(int error)
{
	return error == 0	    ? "0"
	       : error == ECANCELED ? "ECANCELED"
				    : strerrorname_np(error) ?: "unknown";
}

void note_state(const char *key, const struct aiocb *cb)
{
	char text[64];
	int error = aio_error(cb);

	if (error == EINPROGRESS)
		snprintf(text, sizeof(text), "EINPROGRESS");
	else
		snprintf(text, sizeof(text), "%s,%zd", name_of(error),
			 aio_return((struct aiocb *)cb));
	note_text(key, text);
}

bool is_over(const struct aiocb *cb)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	while (aio_error(cb) == EINPROGRESS) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((now.tv_sec - from.tv_sec) * 1000 > PATIENCE_MS)
			return false;
		poll(NULL, 0, 1);
	}
	return true;
}

void note_end(const char *key, const struct aiocb *cb)
{
	(void)is_over(cb);
	note_state(key, cb);
}

void note_try(const char *key, int ret, const struct aiocb *cb)
{
	char text[64];

	if (ret == 0) {
		note_end(key, cb);
		return;
	}
	snprintf(text, sizeof(text), "refused,%s", name_of(errno));
	note_text(key, text);
}

void read_and_note(const char *key, struct aiocb *cb)
{
	note_try(key, aio_read(cb), cb);
}

void write_and_note(const char *key, struct aiocb *cb)
{
	note_try(key, aio_write(cb), cb);
}

void in_thread(void *(*call)(void *), void *arg)
{
	pthread_t thread;

	REQUIRE(!pthread_create(&thread, NULL, call, arg));
	REQUIRE(!pthread_detach(thread));
}

sigset_t block_signal(int signo)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	REQUIRE(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	return set;
}

/*
 * Sends the signal each time that the sleeper (struct waker) sleeps. One signal is not
 * enough, because the sleeper may first sleep on a lock, before the call under test.
 */
static void signal_sleeper(const struct waker *waker)
{
	for (;;) {
		wait_asleep(waker->sleeper);
		if (__atomic_load_n(&waker->is_over, __ATOMIC_SEQ_CST))
			return;
		pthread_kill(waker->thread, waker->signo);
	}
}

static void *wake(void *arg)
{
	const struct waker *waker = arg;

	if (waker->signo) {
		signal_sleeper(waker);
		return NULL;
	}
	wait_asleep(waker->sleeper);
	end_read(waker->writer);
	return NULL;
}

static void *signal_and_end(void *arg)
{
	const struct waker *waker = arg;

	for (int i = 0; i < 4; i++) {
		wait_asleep(waker->sleeper);
		pthread_kill(waker->thread, waker->signo);
	}
	wait_asleep(waker->sleeper);
	end_read(waker->writer);
	return NULL;
}

static void start(struct waker *waker, void *(*call)(void *))
{
	waker->sleeper = (pid_t)syscall(SYS_gettid);
	waker->thread = pthread_self();
	in_thread(call, waker);
}

void wake_this(struct waker *waker)
{
	start(waker, wake);
}

void signal_this_and_end(struct waker *waker)
{
	start(waker, signal_and_end);
}

void stop_this_and_end(int writer)
{
	pid_t sleeper = getpid();

	if (fork_helper())
		return;
	for (int i = 0; i < 4; i++)
		stop_and_continue(sleeper);
	wait_asleep(sleeper);
	end_read(writer);
	_exit(0);
}
