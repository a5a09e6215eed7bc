/* SPDX-License-Identifier: MIT */
#include "tool/served.h"

#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io_uring.h"
#include "options/options.h"
#include "tool/children.h"
#include "tool/trapped.h"

enum { PATIENCE_S = 30 };

struct memory {
	struct uaio_served served;
	char path[]; /* of the library */
};

/* The library, loaded into a child. */
static void *library;

/* dlsym() gives a pointer to data; POSIX has it hold a function's. */
static void find(const char *name, void *ret_function)
{
	void *found = dlsym(library, name);

	memcpy(ret_function, &found, sizeof(found));
}

/* What the library says when it is loaded is not the doctor's. */
static void be_silent(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null >= 0)
		(void)dup2(null, STDERR_FILENO);
}

/*
 * What can be served is asked, whatever the environment asks for: no faults, no
 * statistics. No counts either, which would stay: this child does not end in order.
 */
static void set_options(void)
{
	for (int id = 0; id < UAIO_NR_OPTIONS; id++)
		(void)unsetenv(uaio_options[id].variable);
	/* Rings are the library's even where the kernel has some. */
	(void)setenv(uaio_options[UAIO_OPTION_URING].variable, "always", 1);
	(void)setenv(uaio_options[UAIO_OPTION_LIVE].variable, "off", 1);
}

/* Return: 0 or an errno. */
static int load(struct memory *memory)
{
	be_silent();
	set_options();
	library = dlopen(memory->path, RTLD_NOW | RTLD_LOCAL);
	if (library)
		return 0;
	(void)snprintf(memory->served.doors[UAIO_SERVED_LOADED].why,
		       UAIO_SERVED_WHY_MAX, "%s", dlerror());
	return ENOEXEC;
}

/* A read of one byte of ourselves. */
static int try_aio(int fd)
{
	int (*setup)(int, aio_context_t *);
	int (*submit)(aio_context_t, long, struct iocb **);
	int (*get)(aio_context_t, long, long, struct io_event *, void *);
	int (*destroy)(aio_context_t);
	aio_context_t context = 0;
	struct io_event event = { 0 };
	char byte = 0;
	struct iocb iocb = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = (uint32_t)fd,
		.aio_buf = (uintptr_t)&byte,
		.aio_nbytes = 1,
	}, *iocbs[] = { &iocb };
	int ret;

	find("io_setup", &setup);
	find("io_submit", &submit);
	find("io_getevents", &get);
	find("io_destroy", &destroy);
	ret = setup(1, &context);
	if (ret < 0)
		return -ret;
	ret = submit(context, 1, iocbs);
	if (ret == 1)
		ret = get(context, 1, 1, &event, NULL);
	(void)destroy(context);
	return ret < 0 ? -ret : event.res == 1 ? 0 : EIO;
}

static int try_uring(void)
{
	long (*call)(long, ...);
	struct io_uring_params params;
	long fd;

	find("syscall", &call);
	memset(&params, 0, sizeof(params));
	fd = call(SYS_io_uring_setup, 1, &params);
	if (fd < 0)
		return errno;
	(void)close((int)fd);
	return 0;
}

static int try_posix(int fd)
{
	int (*start)(struct aiocb *);
	int (*wait)(const struct aiocb *const *, int, const struct timespec *);
	int (*error)(const struct aiocb *);
	ssize_t (*take)(struct aiocb *);
	char byte;
	struct aiocb request = {
		.aio_fildes = fd,
		.aio_buf = &byte,
		.aio_nbytes = 1,
		.aio_sigevent.sigev_notify = SIGEV_NONE,
	};
	const struct aiocb *list[] = { &request };

	find("aio_read", &start);
	find("aio_suspend", &wait);
	find("aio_error", &error);
	find("aio_return", &take);
	if (start(&request) < 0 || wait(list, 1, NULL) < 0)
		return errno;
	return error(&request)       ? error(&request)
	       : take(&request) == 1 ? 0
				     : EIO;
}

/* Context: a child that is made anew behind each one that was ended. */
static int try_door(struct memory *memory, enum uaio_served_id id)
{
	int fd, ret;

	if (!library) {
		ret = load(memory);
		if (ret || id == UAIO_SERVED_LOADED)
			return ret;
	}
	fd = open(memory->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	switch (id) {
	case UAIO_SERVED_AIO: ret = try_aio(fd); break;
	case UAIO_SERVED_URING: ret = try_uring(); break;
	case UAIO_SERVED_TRAP: ret = uaio_trapped_try(); break;
	default: ret = try_posix(fd); break;
	}
	(void)close(fd);
	return ret;
}

static void try_one(void *memory, unsigned i)
{
	struct uaio_served *served = &((struct memory *)memory)->served;

	served->doors[i].error = try_door(memory, i);
	served->doors[i].is_served = !served->doors[i].error;
}

static void note_death(void *memory, unsigned i, int signal)
{
	((struct memory *)memory)->served.doors[i].signal = signal;
}

int uaio_served_read(const char *path, struct uaio_served *ret_served)
{
	static const struct uaio_tries tries = {
		.nr = UAIO_NR_SERVED,
		.make = try_one,
		.died = note_death,
		.seconds = PATIENCE_S,
	};
	size_t bytes = sizeof(struct memory) + strlen(path) + 1;
	struct memory *memory = uaio_shared_new(bytes);
	int ret = -ENOMEM;

	if (memory) {
		strcpy(memory->path, path);
		ret = uaio_tries_make(&tries, memory);
		*ret_served = memory->served;
		ret_served->is_tried = !ret;
	}
	uaio_shared_free(memory, bytes);
	return ret;
}
