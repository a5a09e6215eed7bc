/* SPDX-License-Identifier: MIT */
/* libaio's convenience functions and older symbols, by name and version. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conform.h"

static char buf[64];

static void *symbol(const char *name, const char *version)
{
	void *address = dlvsym(RTLD_DEFAULT, name, version);

	if (!address)
		note_text(name, "missing");
	return address;
}

static const struct {
	const char *name, *version;
} symbols[] = {
	{ "io_queue_init", "LIBAIO_0.1" }, { "io_queue_run", "LIBAIO_0.1" },
	{ "io_queue_wait", "LIBAIO_0.1" }, { "io_queue_release", "LIBAIO_0.1" },
	{ "io_cancel", "LIBAIO_0.1" },     { "io_submit", "LIBAIO_0.1" },
	{ "io_getevents", "LIBAIO_0.1" },  { "io_setup", "LIBAIO_0.4" },
	{ "io_destroy", "LIBAIO_0.4" },    { "io_cancel", "LIBAIO_0.4" },
	{ "io_getevents", "LIBAIO_0.4" },  { "io_queue_wait", "LIBAIO_0.4" },
	{ "io_pgetevents", "LIBAIO_0.5" }, { "io_setup", "LIBAIO_0.1" },
	{ "io_submit", "LIBAIO_0.4" },     { "io_pgetevents", "LIBAIO_0.4" },
};

static void symbol_versions(void)
{
	char key[64];
	size_t i;

	for (i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		snprintf(key, sizeof(key), "%s@%s", symbols[i].name,
			 symbols[i].version);
		note(key, !!dlvsym(RTLD_DEFAULT, symbols[i].name,
				   symbols[i].version));
	}
}

typedef int init_fn(int nr, aio_context_t *ctx);
typedef int release_fn(aio_context_t ctx);
typedef int run_fn(aio_context_t ctx);
typedef int wait_fn(aio_context_t ctx, struct timespec *timeout);
typedef int old_cancel_fn(aio_context_t ctx, struct iocb *cb);
typedef int old_getevents_fn(aio_context_t ctx, long nr,
			     struct io_event *events,
			     const struct timespec *timeout);
typedef void callback_fn(aio_context_t ctx, struct iocb *cb, long res,
			 long res2);

static void queue_init(void)
{
	init_fn *init = symbol("io_queue_init", "LIBAIO_0.1");
	release_fn *release = symbol("io_queue_release", "LIBAIO_0.1");
	aio_context_t ctx = 12345;

	errno = 12345;
	note_result("nr_0", init(0, &ctx));
	note("untouched", ctx == 12345);
	note_result("nr_-1", init(-1, &ctx));
	note("untouched", ctx == 12345);
	note_result("nr_huge", init(0x7fffffff, &ctx));
	note("cleared", ctx == 0);
	ctx = 12345;
	note_result("nr_8", init(8, &ctx));
	note("set", ctx != 12345 && ctx != 0);
	note_result("release", release(ctx));
	note_result("again", release(ctx));
	note("errno_kept", errno == 12345);
}

static long calls, last_res, last_res2;
static struct iocb *last_cb;

static void on_complete(aio_context_t ctx, struct iocb *cb, long res, long res2)
{
	(void)ctx;
	calls++;
	last_cb = cb;
	last_res = res;
	last_res2 = res2;
}

static void queue_run(void)
{
	run_fn *run = symbol("io_queue_run", "LIBAIO_0.1");
	aio_context_t ctx = new_context(8);
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);

	cb.aio_data = (uintptr_t)on_complete;
	note_result("empty", run(ctx));
	submit_one(ctx, &cb);
	submit_one(ctx, &cb);
	submit_one(ctx, &cb);
	note_result("three", run(ctx));
	note("calls", calls);
	note("cb", last_cb == &cb);
	note("res", last_res);
	note("res2", last_res2);
	note_result("bad", run(0));
}

static void note_wait(const char *version)
{
	wait_fn *wait = symbol("io_queue_wait", version);
	aio_context_t ctx = new_context(8);
	struct timespec now = { 0 }, some = { .tv_nsec = 30 * MS };
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);

	note_text("version", version);
	note_result("empty_now", wait(ctx, &now));
	note_result("empty_some", wait(ctx, &some));
	note_result("empty_forever", wait(ctx, NULL));
	submit_one(ctx, &cb);
	note_result("one_now", wait(ctx, &now));
	note_result("one_forever", wait(ctx, NULL));
	note_pending("left", ctx);
	note_result("bad", wait(0, &some));
}

static void queue_wait(void)
{
	note_wait("LIBAIO_0.1");
	note_wait("LIBAIO_0.4");
}

static void old_getevents(void)
{
	old_getevents_fn *getevents = symbol("io_getevents", "LIBAIO_0.1");
	aio_context_t ctx = new_context(8);
	struct timespec some = { .tv_nsec = 30 * MS };
	struct iocb cb = PREAD_OF(file_of("f", 16, O_RDONLY), buf, 16, 0);
	struct io_event ev[4];

	note_result("empty", getevents(ctx, 4, ev, &some));
	submit_one(ctx, &cb);
	submit_one(ctx, &cb);
	note_result("two", getevents(ctx, 4, ev, &some));
	note_event("second", &ev[1], &cb);
	submit_one(ctx, &cb);
	note_result("forever", getevents(ctx, 4, ev, NULL));
	note_result("nr_0", getevents(ctx, 0, ev, NULL));
	note("timeout_kept", some.tv_nsec == 30 * MS);
	note_result("bad", getevents(0, 1, ev, &some));
}

static void old_cancel(void)
{
	old_cancel_fn *cancel = symbol("io_cancel", "LIBAIO_0.1");
	aio_context_t ctx = new_context(8);
	struct io_event ev;
	struct iocb cb;
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	cb = POLL_OF(fds[0], POLLIN);
	note_result("unknown", cancel(ctx, &cb));
	REQUIRE(submit_one(ctx, &cb) == 1);
	note_result("poll", cancel(ctx, &cb));
	note_result("reap", reap(ctx, 1, &ev));
	note_result("null", cancel(ctx, NULL));
	note_result("bad", cancel(0, &cb));
}

const struct row rows_compat[] = {
	ROW("libaio's symbols and their versions", symbol_versions),
	ROW("io_queue_init and io_queue_release", queue_init),
	ROW("io_queue_run calls back", queue_run),
	ROW("io_queue_wait, old and new", queue_wait),
	ROW("io_getevents@LIBAIO_0.1 has other arguments", old_getevents),
	ROW("io_cancel@LIBAIO_0.1 has no event", old_cancel),
	NO_ROW,
};
