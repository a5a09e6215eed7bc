/* SPDX-License-Identifier: MIT */
/*
 * Signals that arrive during io_getevents, and the mask of io_pgetevents.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conform.h"

static volatile sig_atomic_t handled;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

static void handle(int sig, int flags)
{
	struct sigaction action = { .sa_handler = on_signal,
				    .sa_flags = flags };

	REQUIRE(sigaction(sig, &action, NULL) == 0);
}

/*
 * Starts a process that sends SIGUSR1 to this process whenever this process sleeps.
 * Return: the process ID of the sender.
 */
static pid_t signal_in_sleep(void)
{
	pid_t parent = getpid(), sender = fork_helper();

	if (sender == 0) {
		for (;;) {
			wait_asleep(parent);
			kill(parent, SIGUSR1);
		}
	}
	return sender;
}

/*
 * Makes a context with a poll. While this process sleeps in a wait, a helper sends one
 * SIGUSR1, after which the wait goes on. Then the helper completes the poll, which ends
 * the wait.
 */
static aio_context_t context_with_poll_after_signal(void)
{
	static struct iocb cb;
	aio_context_t ctx = new_context(8);
	pid_t parent = getpid();
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(ctx, &cb) == 1);
	if (fork_helper() == 0) {
		wait_asleep(parent);
		kill(parent, SIGUSR1);
		wait_asleep(parent);
		_exit(write(fds[1], "x", 1) != 1);
	}
	return ctx;
}

static aio_context_t context_with_event(bool has_event)
{
	static char buf[16];
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);

	if (has_event)
		REQUIRE(submit_one(ctx, &cb) == 1);
	return ctx;
}

static void interrupt(bool has_event, int flags)
{
	aio_context_t ctx = context_with_event(has_event);
	struct timespec timeout = { .tv_sec = PATIENCE_MS / 1000 };
	struct io_event ev[2];

	handle(SIGUSR1, flags);
	signal_in_sleep();
	note_result("timed", call_getevents(ctx, 2, 2, ev, &timeout));
	note("handled", handled > 0);
	handled = 0;
	note_result("forever", call_getevents(ctx, 2, 2, ev, NULL));
	note("handled_forever", handled > 0);
}

static void interrupted_empty(void)
{
	interrupt(false, 0);
}

static void interrupted_empty_restart(void)
{
	interrupt(false, SA_RESTART);
}

static void interrupted_event(void)
{
	interrupt(true, 0);
}

static void interrupted_event_restart(void)
{
	interrupt(true, SA_RESTART);
}

static void interrupted_poll(void)
{
	aio_context_t ctx = new_context(8);
	struct timespec timeout = { .tv_sec = PATIENCE_MS / 1000 };
	struct io_event ev;
	pid_t sender;
	int fds[2];
	struct iocb cb;

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	REQUIRE(submit_one(ctx, &cb) == 1);
	handle(SIGUSR1, SA_RESTART);
	sender = signal_in_sleep();
	note_result("timed", call_getevents(ctx, 1, 1, &ev, &timeout));
	note("handled", handled > 0);
	/*
	 * End the sender first: the next wait may sleep for a moment and would get a
	 * signal.
	 */
	REQUIRE(kill(sender, SIGKILL) == 0);
	REQUIRE(waitpid(sender, NULL, 0) == sender || errno == EINTR);
	REQUIRE(write(fds[1], "x", 1) == 1);
	note_result("then", call_getevents(ctx, 1, 1, &ev, &timeout));
}

static void ignored_signal(void)
{
	aio_context_t ctx;
	struct io_event ev;

	signal(SIGUSR1, SIG_IGN);
	ctx = context_with_poll_after_signal();
	note_result("ret", reap(ctx, 1, &ev));
}

static void blocked_signal(void)
{
	aio_context_t ctx;
	struct io_event ev;
	sigset_t set;

	handle(SIGUSR1, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	ctx = context_with_poll_after_signal();
	note_result("ret", reap(ctx, 1, &ev));
	note("handled", handled);
	sigpending(&set);
	note("pending", sigismember(&set, SIGUSR1));
}

static void no_wait_no_interrupt(void)
{
	aio_context_t ctx = context_with_event(true);
	struct io_event ev;

	handle(SIGUSR1, 0);
	raise(SIGUSR1);
	note_result("one", call_getevents(ctx, 1, 1, &ev, NULL));
}

static sigset_t *mask_of(int sig)
{
	static sigset_t set;

	sigemptyset(&set);
	if (sig)
		sigaddset(&set, sig);
	return &set;
}

static void note_mask(const char *key)
{
	sigset_t now;

	sigprocmask(SIG_SETMASK, NULL, &now);
	note(key, sigismember(&now, SIGUSR1));
}

static void mask_null(void)
{
	aio_context_t ctx = context_with_event(true);
	struct timespec now = { 0 }, some = { .tv_nsec = 20 * MS };
	struct io_event ev;

	note_result("one", call_pgetevents(ctx, 1, 1, &ev, &some, NULL));
	note_result("none", call_pgetevents(ctx, 1, 1, &ev, &some, NULL));
	note_result("at_once", call_pgetevents(ctx, 0, 1, &ev, &now, NULL));
	note_result("bad_numbers", call_pgetevents(ctx, 2, 1, &ev, &now, NULL));
	note_result("bad_ctx", call_pgetevents(0, 1, 1, &ev, &now, NULL));
}

static void mask_unblocks_pending(bool has_event, long min_nr)
{
	aio_context_t ctx = context_with_event(has_event);
	struct timespec timeout = { .tv_sec = PATIENCE_MS / 1000 };
	struct io_event ev[2];

	handle(SIGUSR1, SA_RESTART);
	sigprocmask(SIG_BLOCK, mask_of(SIGUSR1), NULL);
	raise(SIGUSR1);
	note("before", handled);
	note_result("ret",
		    call_pgetevents(ctx, min_nr, 2, ev, &timeout, mask_of(0)));
	note("handled", handled);
	note_mask("blocked_after");
}

static void unblock_empty(void)
{
	mask_unblocks_pending(false, 1);
}

static void unblock_event(void)
{
	mask_unblocks_pending(true, 2);
}

static void unblock_enough(void)
{
	mask_unblocks_pending(true, 1);
}

static void unblock_min_nr_0(void)
{
	mask_unblocks_pending(false, 0);
}

static void mask_unblocks_later(void)
{
	aio_context_t ctx = context_with_event(false);
	struct timespec timeout = { .tv_sec = PATIENCE_MS / 1000 };
	struct io_event ev;

	handle(SIGUSR1, 0);
	sigprocmask(SIG_BLOCK, mask_of(SIGUSR1), NULL);
	signal_in_sleep();
	note_result("ret",
		    call_pgetevents(ctx, 1, 1, &ev, &timeout, mask_of(0)));
	note("handled", handled);
	note_mask("blocked_after");
}

static void mask_blocks(void)
{
	struct timespec timeout = { .tv_sec = PATIENCE_MS / 1000 };
	aio_context_t ctx;
	struct io_event ev;

	handle(SIGUSR1, 0);
	ctx = context_with_poll_after_signal();
	note_result("ret", call_pgetevents(ctx, 1, 1, &ev, &timeout,
					   mask_of(SIGUSR1)));
	note("handled_on_return", handled);
	note_mask("blocked_after");
}

struct mask_argument {
	const void *mask;
	size_t bytes;
};

static long raw_pgetevents(aio_context_t ctx, const void *argument)
{
	struct timespec some = { .tv_nsec = 20 * MS };
	struct io_event ev;
	long ret = syscall(SYS_io_pgetevents, ctx, 1, 1, &ev, &some, argument);

	return ret < 0 ? -errno : ret;
}

static void mask_arguments(void)
{
	aio_context_t ctx = context_with_event(false);
	sigset_t *set = mask_of(0);
	struct mask_argument good = { set, 8 }, short_size = { set, 4 };
	struct mask_argument long_size = { set, sizeof(*set) };
	struct mask_argument no_mask = { NULL, 4 }, no_size = { set, 0 };
	struct mask_argument kernel = { KERNEL_ADDRESS, 8 };

	note_result("good", raw_pgetevents(ctx, &good));
	note_result("null", raw_pgetevents(ctx, NULL));
	note_result("size_4", raw_pgetevents(ctx, &short_size));
	note_result("size_128", raw_pgetevents(ctx, &long_size));
	note_result("size_0", raw_pgetevents(ctx, &no_size));
	note_result("null_mask_size_4", raw_pgetevents(ctx, &no_mask));
	note_result("kernel_mask", raw_pgetevents(ctx, &kernel));
	note_result("kernel", raw_pgetevents(ctx, KERNEL_ADDRESS));
	note_result("bad_ctx_size_4", raw_pgetevents(0, &short_size));
	note_result("bad_ctx_kernel", raw_pgetevents(0, KERNEL_ADDRESS));
}

const struct row rows_signal[] = {
	ROW("a signal ends the wait with EINTR", interrupted_empty),
	ROW("SA_RESTART does not restart io_getevents",
	    interrupted_empty_restart),
	ROW("a signal after some events", interrupted_event),
	ROW("a signal after some events, SA_RESTART",
	    interrupted_event_restart),
	ROW("a signal ends the wait for a poll", interrupted_poll),
	ROW("an ignored signal does not end the wait", ignored_signal),
	ROW("a blocked signal does not end the wait", blocked_signal),
	ROW("a signal handled before the call does not count",
	    no_wait_no_interrupt),
	ROW("io_pgetevents without a mask is io_getevents", mask_null),
	ROW("a mask that unblocks a pending signal gives EINTR", unblock_empty),
	ROW("a mask that unblocks a pending signal, some events",
	    unblock_event),
	ROW("a mask that unblocks a pending signal, events enough",
	    unblock_enough),
	ROW("a mask that unblocks a pending signal, min_nr 0",
	    unblock_min_nr_0),
	ROW("a mask lets a later signal in", mask_unblocks_later),
	ROW("a mask keeps a signal out until the return", mask_blocks),
	ROW("the mask's size and address are checked", mask_arguments),
	NO_ROW,
};
