/* SPDX-License-Identifier: MIT */
/*
 * elsewhere LIBAIO: with uaio preloaded, opens the system's libaio, at the path LIBAIO.
 * uaio must handle that libaio's system calls, because uaio interposes syscall(2).
 */
#undef NDEBUG
#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uaio.h"

typedef int setup_fn(int nr, aio_context_t *ctx);
typedef int submit_fn(aio_context_t ctx, long nr, struct iocb **iocbs);
typedef int getevents_fn(aio_context_t ctx, long min_nr, long nr,
			 struct io_event *events, void *timeout);
typedef int destroy_fn(aio_context_t ctx);

/*
 * Look up the function `name`, and check that it is defined in the library at `path`.
 */
static void *find(void *handle, const char *name, const char *path)
{
	char wanted[PATH_MAX], actual[PATH_MAX];
	void *function = dlsym(handle, name);
	Dl_info info;

	assert(function && dladdr(function, &info));
	assert(realpath(path, wanted) && realpath(info.dli_fname, actual));
	assert(!strcmp(wanted, actual));
	return function;
}

static void counters(struct uaio_counters *ret_counters)
{
	int (*get)(struct uaio_counters *) =
		dlsym(RTLD_DEFAULT, "uaio_get_counters");

	assert(get && get(ret_counters) == 0);
}

int main(int argc, char **argv)
{
	char out[] = "elsewhere", in[sizeof(out)] = "";
	struct uaio_counters before, after;
	aio_context_t ctx = 0;
	struct io_event event;
	struct iocb iocb = { 0 }, *iocbs[] = { &iocb };
	void *handle;
	int fds[2];

	assert(argc == 2);
	handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	assert(handle);

	counters(&before);
	setup_fn *setup = find(handle, "io_setup", argv[1]);
	submit_fn *submit = find(handle, "io_submit", argv[1]);
	getevents_fn *getevents = find(handle, "io_getevents", argv[1]);
	destroy_fn *destroy = find(handle, "io_destroy", argv[1]);

	assert(setup(8, &ctx) == 0);
	assert(pipe(fds) == 0);
	assert(write(fds[1], out, sizeof(out)) == sizeof(out));
	iocb.aio_fildes = (unsigned)fds[0];
	iocb.aio_lio_opcode = IOCB_CMD_PREAD;
	iocb.aio_buf = (unsigned long)in;
	iocb.aio_nbytes = sizeof(in);
	assert(submit(ctx, 1, iocbs) == 1);
	assert(getevents(ctx, 1, 1, &event, NULL) == 1);
	assert(event.res == sizeof(in) && !memcmp(in, out, sizeof(in)));
	counters(&after);
	assert(after.nr_setups == before.nr_setups + 1);
	assert(after.nr_contexts == before.nr_contexts + 1);
	assert(after.nr_requests == before.nr_requests + 1);

	assert(destroy(ctx) == 0);
	counters(&after);
	assert(after.nr_contexts == before.nr_contexts);
	printf("%s: %llu contexts were made by uaio\n", argv[1],
	       (unsigned long long)after.nr_setups);
	return 0;
}
