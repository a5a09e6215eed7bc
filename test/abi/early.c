/* SPDX-License-Identifier: MIT */
/*
 * early: makes AIO calls before the constructor of any library has run
 *
 * The program makes its calls from .preinit_array. The functions in this array run
 * before the constructors of all libraries, even of preloaded ones. Some allocators and
 * sanitizers run code of their own from this array, so real programs do so, too.
 */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "older.h"

static int was_early;
static aio_context_t early_ctx;

/*
 * Read a pipe that already has data, so that io_submit executes the read at once. Then
 * reap the event.
 */
static void round_trip(aio_context_t ctx)
{
	char out[] = "early", in[sizeof(out)] = "";
	struct iocb iocb = { 0 }, *iocbs[] = { &iocb };
	struct io_event event;
	int fds[2];

	assert(pipe(fds) == 0);
	assert(write(fds[1], out, sizeof(out)) == sizeof(out));
	iocb.aio_fildes = (unsigned)fds[0];
	iocb.aio_lio_opcode = IOCB_CMD_PREAD;
	iocb.aio_buf = (unsigned long)in;
	iocb.aio_nbytes = sizeof(in);
	assert(syscall(SYS_io_submit, ctx, 1l, iocbs) == 1);
	assert(syscall(SYS_io_getevents, ctx, 1l, 1l, &event, NULL) == 1);
	assert(event.res == sizeof(in) && !memcmp(in, out, sizeof(in)));
	assert(close(fds[0]) == 0 && close(fds[1]) == 0);
}

static void early(void)
{
	const struct timespec zero = { 0 };
	char *const args[] = { NULL };
	struct epoll_event event;
	pid_t child;
	FILE *file;
	void *page;
	int fd;

	assert(syscall(SYS_getpid) == getpid());
	assert(syscall(SYS_read, -1, NULL, 0l) == -1 && errno == EBADF);
	assert(syscall(100000) == -1 && errno == ENOSYS);

	assert(close(-1) == -1 && errno == EBADF);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert(fd >= 0 && dup2(fd, fd + 1) == fd + 1);
	assert(dup3(fd, fd + 1, O_CLOEXEC) == fd + 1);
	assert(close(fd + 1) == 0 && close(fd) == 0);
	assert(close_range(1000, 1001, 0) == 0);
	fd = open64("/dev/null", O_RDWR | O_CLOEXEC);
	assert(fd >= 0 && close(fd) == 0);
	fd = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
	assert(fd >= 0 && close(fd) == 0);
	file = fopen("/dev/null", "re");
	assert(file && (file = freopen("/dev/zero", "re", file)));
	assert(fclose(file) == 0);
	page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert(page ==
	       (void *)syscall(SYS_mmap, page, 8192l, (long)PROT_READ,
			       (long)(MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED),
			       -1l, 0l));
	assert(mmap(NULL, 4096, PROT_READ, MAP_SHARED, -1, 0x8000000) ==
		       MAP_FAILED &&
	       errno == EBADF);
	assert(syscall(SYS_io_uring_setup, 1l, NULL) == -1);
	assert(syscall(SYS_io_uring_enter, -2l, 0l, 0l, 0l, NULL, 0l) == -1);
	assert(syscall(SYS_io_uring_register, -2l, 8l, NULL, 0l) == -1);
	assert(poll(NULL, 0, 0) == 0 && ppoll(NULL, 0, &zero, NULL) == 0);
	fd = epoll_create1(EPOLL_CLOEXEC);
	assert(fd >= 0 && epoll_wait(fd, &event, 1, 0) == 0);
	assert(epoll_pwait(fd, &event, 1, 0, NULL) == 0);
	assert(epoll_pwait2(fd, &event, 1, &zero, NULL) == 0 ||
	       errno == ENOSYS);
	assert(close(fd) == 0);
	assert(page != MAP_FAILED && mremap(page, 8192, 4096, 0) == page);

	assert(posix_spawn(&child, "/no-such", NULL, NULL, args, args) ==
	       ENOENT);
	assert(posix_spawnp(&child, "/no-such", NULL, NULL, args, args) ==
	       ENOENT);
	assert(system(":") == 0);
	file = popen(":", "w");
	assert(file && pclose(file) == 0);

	assert(syscall(SYS_io_destroy, 0l) == -1 && errno == EINVAL);
	assert(syscall(SYS_io_setup, 4l, &early_ctx) == 0);
	round_trip(early_ctx);
	was_early = 1;
}

__attribute__((section(".preinit_array"),
	       used)) static void (*const first)(void) = early;

int main(void)
{
	assert(was_early);
	round_trip(early_ctx);
	assert(syscall(SYS_io_destroy, early_ctx) == 0);
	return 0;
}
