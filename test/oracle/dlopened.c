/* SPDX-License-Identifier: MIT */
/*
 * dlopened: a client that calls libaio, found by dlopen(), and also makes raw system
 * calls
 *
 * Databases dlopen() libaio.so.1 for io_setup and io_submit, but call io_getevents
 * through syscall(2). Calls through libaio and through syscall(2) must find the same
 * contexts, whatever the flags of dlopen(). If a library is opened twice, it must still
 * have only one state. The program is not linked with libaio, and also runs on the
 * kernel.
 */
#undef NDEBUG
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <libaio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Functions of libaio, which return a negative errno, or the same calls by syscall(2),
 * which returns -1 and sets errno.
 */
struct api {
	int (*setup)(int nr, io_context_t *ret_ctx);
	int (*submit)(io_context_t ctx, long nr, struct iocb **cbs);
	int (*getevents)(io_context_t ctx, long min_nr, long nr,
			 struct io_event *events, struct timespec *timeout);
	int (*destroy)(io_context_t ctx);
};

static int raw_setup(int nr, io_context_t *ret_ctx)
{
	return (int)syscall(__NR_io_setup, nr, ret_ctx);
}

static int raw_submit(io_context_t ctx, long nr, struct iocb **cbs)
{
	return (int)syscall(__NR_io_submit, ctx, nr, cbs);
}

static int raw_getevents(io_context_t ctx, long min_nr, long nr,
			 struct io_event *events, struct timespec *timeout)
{
	return (int)syscall(__NR_io_getevents, ctx, min_nr, nr, events,
			    timeout);
}

static int raw_destroy(io_context_t ctx)
{
	return (int)syscall(__NR_io_destroy, ctx);
}

static const struct api raw = {
	raw_setup,
	raw_submit,
	raw_getevents,
	raw_destroy,
};

static void find(void *handle, const char *name, void *ret_function)
{
	void *found = dlsym(handle, name);

	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	memcpy(ret_function, &found, sizeof(found));
}

static void open_libaio(int flags, struct api *ret_api)
{
	void *handle = dlopen("libaio.so.1", flags);

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	find(handle, "io_setup", &ret_api->setup);
	find(handle, "io_submit", &ret_api->submit);
	find(handle, "io_getevents", &ret_api->getevents);
	find(handle, "io_destroy", &ret_api->destroy);
}

/*
 * Write a file and read it back. `use` says for each call whether libaio or syscall(2)
 * makes it.
 */
static void round_trip(const struct api *use, int fd)
{
	char out[] = "the same contexts", in[sizeof(out)] = "";
	struct timespec patience = { .tv_sec = 30 };
	struct iocb cb, *cbs[] = { &cb };
	io_context_t ctx = NULL;
	struct io_event event;

	assert(use->setup(8, &ctx) == 0);
	io_prep_pwrite(&cb, fd, out, sizeof(out), 0);
	assert(use->submit(ctx, 1, cbs) == 1);
	assert(use->getevents(ctx, 1, 1, &event, &patience) == 1);
	assert(event.obj == &cb && event.res == sizeof(out));
	io_prep_pread(&cb, fd, in, sizeof(in), 0);
	assert(use->submit(ctx, 1, cbs) == 1);
	assert(use->getevents(ctx, 1, 1, &event, &patience) == 1);
	assert(event.obj == &cb && event.res == sizeof(in));
	assert(!memcmp(in, out, sizeof(in)));
	assert(use->destroy(ctx) == 0);
}

/*
 * For a destroyed context, libaio must return -EINVAL, and syscall(2) must return -1
 * with errno EINVAL.
 */
static void after_destroy(const struct api *lib)
{
	io_context_t ctx = NULL;

	assert(lib->setup(8, &ctx) == 0);
	assert(raw.destroy(ctx) == 0);
	errno = 0;
	assert(lib->destroy(ctx) == -EINVAL);
	assert(errno == 0);
	assert(raw.destroy(ctx) == -1 && errno == EINVAL);
}

int main(void)
{
	static const struct {
		const char *name;
		int flags;
	} ways[] = {
		{ "RTLD_LAZY | RTLD_LOCAL", RTLD_LAZY | RTLD_LOCAL },
		{ "RTLD_NOW | RTLD_DEEPBIND", RTLD_NOW | RTLD_DEEPBIND },
		{ "RTLD_NOW | RTLD_GLOBAL", RTLD_NOW | RTLD_GLOBAL },
	};
	char name[] = "dlopened.XXXXXX";
	int fd = mkstemp(name), mix;
	size_t i;

	assert(fd >= 0 && unlink(name) == 0);
	for (i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		struct api lib, use;

		open_libaio(ways[i].flags, &lib);
		/*
		 * If bit n of mix is set, make call n (setup, submit, getevents,
		 * destroy) by syscall(2); otherwise by libaio.
		 */
		for (mix = 0; mix < 16; mix++) {
			use.setup = mix & 1 ? raw.setup : lib.setup;
			use.submit = mix & 2 ? raw.submit : lib.submit;
			use.getevents = mix & 4 ? raw.getevents : lib.getevents;
			use.destroy = mix & 8 ? raw.destroy : lib.destroy;
			round_trip(&use, fd);
		}
		after_destroy(&lib);
		printf("%s: one engine\n", ways[i].name);
	}
	return 0;
}
