/* SPDX-License-Identifier: MIT */
/* Tries each interface of the library. Tested by test/run/doctor.py and musl.py. */
#include "tool/doctor/machine.h"

#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io_uring.h"
#include "options/options.h"
#include "tool/common/children.h"
#include "tool/common/library.h"
#include "tool/common/trapped.h"

enum {
	PATIENCE_S = 30,
	NOT_EXECUTED =
		/*
		 * Exit status of a process that could not try its request. Any other
		 * status is 0 or an errno.
		 */
	255,
};

struct memory {
	struct uaio_served served;
	char dir[]; /* the library's directory */
};

/*
 * What runs in the new process: this command, executed again with the library
 * preloaded. It makes one request.
 */

/*
 * Store the address of a function. dlsym() returns a data pointer, which POSIX permits
 * copying into a function pointer.
 */
static void find(const char *name, void *ret_function)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	memcpy(ret_function, &found, sizeof(found));
}

/* Read one byte of a file by kernel AIO. */
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

int uaio_served_try_main(char *const *argv)
{
	int fd;

	/*
	 * No other library has this function: if it is missing, the library was not
	 * loaded.
	 */
	if (!dlsym(RTLD_DEFAULT, "uaio_cancel_all"))
		return ENOEXEC;
	switch (*argv[1] - '0') {
	case UAIO_SERVED_LOADED: return 0;
	case UAIO_SERVED_URING: return try_uring();
	case UAIO_SERVED_TRAP: return uaio_trapped_try();
	default: break;
	}
	fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	return *argv[1] - '0' == UAIO_SERVED_AIO ? try_aio(fd) : try_posix(fd);
}

/* Starting the new process that makes a request */

/*
 * Remove the uaio options, such as faults and statistics, from the environment. Hide
 * the counts of the new process from other processes.
 */
static void set_options(void)
{
	for (int id = 0; id < UAIO_NR_OPTIONS; id++)
		(void)unsetenv(uaio_options[id].variable);
	/* The library must serve all rings, even if the kernel has io_uring. */
	(void)setenv(uaio_options[UAIO_OPTION_URING].variable, "always", 1);
	(void)setenv(uaio_options[UAIO_OPTION_LIVE].variable, "off", 1);
}

/*
 * Called in the forked process: execute this command again, with the library preloaded.
 * err: descriptor to which the loader writes its messages.
 */
static _Noreturn void execute(const struct memory *memory, unsigned id, int err)
{
	char digit[] = { (char)('0' + id), '\0' }, file[PATH_MAX];
	char *argv[] = { UAIO_SERVED_TRY, digit, file, NULL };

	(void)dup2(err, STDERR_FILENO);
	/* the alarm, which limits the new process's time, remains set across execv() */
	(void)alarm(PATIENCE_S);
	set_options();
	if (!uaio_dynamic_own(file))
		dprintf(STDERR_FILENO,
			"no loader of glibc or musl is here, as programs need "
			"that load a library");
	else if (uaio_preload_set(memory->dir) < 0 || execv(file, argv) < 0)
		dprintf(STDERR_FILENO, "%s: %s", file, strerror(errno));
	_exit(NOT_EXECUTED);
}

/* Read the first line of the loader's messages. */
static void read_why(int from, char why[UAIO_SERVED_WHY_MAX])
{
	FILE *file = fdopen(from, "r");

	if (!file) {
		(void)close(from);
		return;
	}
	if (fgets(why, UAIO_SERVED_WHY_MAX, file))
		why[strcspn(why, "\n")] = '\0';
	else
		strcpy(why, "the loader ignores it, and does not say why");
	(void)fclose(file);
}

/*
 * Start the new process, which makes a request, and wait for its end.
 * Return: its status, as from waitpid(); -errno if it cannot be started.
 */
static int make_try(struct memory *memory, unsigned id)
{
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		execute(memory, id, ends[1]);
	(void)close(ends[1]);
	read_why(ends[0], memory->served.doors[id].why);
	if (pid < 0)
		return -EAGAIN;
	return waitpid(pid, &status, 0) < 0 ? -errno : status;
}

/* Runs in a child process (children.h), whose children leave no core file. */
static void try_one(void *memory, unsigned i)
{
	struct uaio_served *served = &((struct memory *)memory)->served;
	int status;

	if (i && !served->doors[UAIO_SERVED_LOADED].is_served)
		return;
	status = make_try(memory, i);
	if (status < 0)
		served->doors[i].error = -status;
	else if (WIFSIGNALED(status))
		served->doors[i].signal = WTERMSIG(status);
	else
		served->doors[i].error = WEXITSTATUS(status);
	served->doors[i].is_served = !status;
}

static void note_death(void *memory, unsigned i, int signal)
{
	((struct memory *)memory)->served.doors[i].signal = signal;
}

int uaio_served_read(const char *dir, struct uaio_served *ret_served)
{
	static const struct uaio_tries tries = {
		.nr = UAIO_NR_SERVED,
		.make = try_one,
		.died = note_death,
	};
	size_t bytes = sizeof(struct memory) + strlen(dir) + 1;
	struct memory *memory = uaio_shared_new(bytes);
	int ret = -ENOMEM;

	if (memory) {
		strcpy(memory->dir, dir);
		ret = uaio_tries_make(&tries, memory);
		*ret_served = memory->served;
		ret_served->is_tried = !ret;
	}
	uaio_shared_free(memory, bytes);
	return ret;
}
