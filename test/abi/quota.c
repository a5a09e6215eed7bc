/* SPDX-License-Identifier: MIT */
/*
 * quota none|NUMBER: checks what a preloaded program reads from the files of the
 * kernel's AIO quota in /proc/sys/fs. The program must read NUMBER (or INT_MAX, if the
 * argument is "none") from aio-max-nr, and the number of its own events from aio-nr. It
 * must not matter which function opens the files. Other files must open as usual.
 */
#undef NDEBUG
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_NR "/proc/sys/fs/aio-max-nr"
#define NR "/proc/sys/fs/aio-nr"

enum { SKIPPED = 77, PROC = 0x9fa0 /* PROC_SUPER_MAGIC */ };

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

/* The functions that can open a file for reading */

enum way {
	OPEN,
	OPEN64,
	OPENAT,
	OPENAT64,
	OPEN_2,
	OPEN64_2,
	OPENAT_2,
	OPENAT64_2,
	FOPEN,
	FOPEN64,
	NR_WAYS,
};

static int stream_fd(FILE *file)
{
	int fd;

	if (!file)
		return -1;
	fd = dup(fileno(file));
	assert(fd >= 0 && fclose(file) == 0);
	return fd;
}

static int open_by(enum way way, const char *path)
{
	const int flags = O_RDONLY | O_CLOEXEC;

	switch (way) {
	case OPEN: return open(path, flags);
	case OPEN64: return open64(path, flags);
	case OPENAT: return openat(-1, path, flags);
	case OPENAT64: return openat64(AT_FDCWD, path, flags);
	case OPEN_2: return __open_2(path, flags);
	case OPEN64_2: return __open64_2(path, flags);
	case OPENAT_2: return __openat_2(-1, path, flags);
	case OPENAT64_2: return __openat64_2(AT_FDCWD, path, flags);
	case FOPEN: return stream_fd(fopen(path, "r"));
	default: return stream_fd(fopen64(path, "re"));
	}
}

/*
 * Read a number from the file, and close the descriptor.
 * Return: the number.
 */
static unsigned long long number_in(int fd)
{
	char text[32] = "", *end;
	unsigned long long number;
	ssize_t len = read(fd, text, sizeof(text) - 1);

	assert(len > 1 && read(fd, text + len, 1) == 0);
	number = strtoull(text, &end, 10);
	assert(!strcmp(end, "\n"));
	assert(lseek(fd, 0, SEEK_SET) == 0);
	assert(pread(fd, text + 16, 1, 0) == 1 && text[16] == text[0]);
	assert(write(fd, "1", 1) == -1);
	assert(close(fd) == 0);
	return number;
}

static bool is_kernels(int fd)
{
	struct statfs fs;

	assert(fd >= 0 && fstatfs(fd, &fs) == 0);
	return fs.f_type == PROC;
}

static void expect_numbers(unsigned long long nr, unsigned long long max)
{
	for (enum way way = 0; way < NR_WAYS; way++) {
		assert(number_in(open_by(way, NR)) == nr);
		assert(number_in(open_by(way, MAX_NR)) == max);
	}
}

static void expect_kernels(const char *path, int flags)
{
	int fd = open(path, flags);

	/* Only root may open the quota's files for writing. */
	if (fd < 0 && errno == EACCES)
		return;
	assert(is_kernels(fd));
	assert(close(fd) == 0);
}

/*
 * Opening a quota file must return the lowest free descriptor, as any open() does.
 */
static void expect_plain_descriptors(void)
{
	int lowest = dup(0), fd;

	assert(lowest >= 0 && close(lowest) == 0);
	errno = 12345;
	fd = open(NR, O_RDONLY);
	assert(fd == lowest && !is_kernels(fd) && errno == 12345);
	assert(fcntl(fd, F_GETFD) == 0);
	assert(close(fd) == 0);
	fd = open(NR, O_RDONLY | O_CLOEXEC);
	assert(fd == lowest && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	assert(close(fd) == 0);
	fd = dup(0);
	assert(fd == lowest && close(fd) == 0);
}

/*
 * Make calls that the library must leave to the kernel: they open other files, or open
 * a quota file for more than reading.
 */
static void open_others(void)
{
	const char *volatile nothing = NULL;
	const char *volatile nowhere = (const char *)1;
	char name[] = "quota-XXXXXX";
	struct stat st;
	mode_t mask = umask(0);
	int fd;

	expect_kernels("/proc/sys/fs/../fs/aio-nr", O_RDONLY);
	expect_kernels("/proc/sys//fs/aio-max-nr", O_RDONLY);
	expect_kernels("/proc/sys/fs/nr_open", O_RDONLY);
	expect_kernels(MAX_NR, O_WRONLY);
	expect_kernels(MAX_NR, O_RDWR);
	expect_kernels(NR, O_PATH);
	assert(open("/proc/sys/fs/aio-", O_RDONLY) == -1 && errno == ENOENT);
	assert(open("/proc/sys/fs/aio-nrs", O_RDONLY) == -1);
	assert(open(nothing, O_RDONLY) == -1 && errno == EFAULT);
	assert(open64(nowhere, O_RDONLY) == -1 && errno == EFAULT);
	assert(openat(-1, nothing, O_RDONLY) == -1 && errno == EFAULT);
	assert(openat(-1, "x", O_RDONLY) == -1 && errno == EBADF);
	assert(!fopen("/none/such", "r") && errno == ENOENT);
	fd = mkstemp(name);
	assert(fd >= 0 && unlink(name) == 0 && close(fd) == 0);
	for (unsigned i = 0; i < 4; i++) {
		const int flags = O_CREAT | O_EXCL | O_WRONLY;

		fd = i == 0   ? open(name, flags, 0640)
		     : i == 1 ? open64(name, flags, 0640)
		     : i == 2 ? openat(AT_FDCWD, name, flags, 0640)
			      : openat64(AT_FDCWD, name, flags, 0640);
		assert(fd >= 0 && fstat(fd, &st) == 0);
		assert((st.st_mode & 07777) == 0640);
		assert(unlink(name) == 0 && close(fd) == 0);
	}
	fd = open(".", O_TMPFILE | O_RDWR, 0604);
	if (fd >= 0) {
		assert(fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0604);
		assert(close(fd) == 0);
	}
	(void)umask(mask);
}

/* A child of fork() has no AIO context yet, so it must read 0 from aio-nr. */
static void expect_none_in_a_child(void)
{
	pid_t child = fork();
	int status;

	assert(child >= 0);
	if (!child)
		_exit(number_in(open(NR, O_RDONLY)) != 0);
	assert(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
	unsigned long long max;
	aio_context_t ctx = 0;

	assert(argc == 2);
	if (access(NR, R_OK) || access(MAX_NR, R_OK))
		return SKIPPED;
	max = strcmp(argv[1], "none") ? strtoull(argv[1], NULL, 10) : INT_MAX;
	expect_numbers(0, max);
	assert(syscall(SYS_io_setup, 100, &ctx) == 0);
	expect_numbers(100, max);
	expect_none_in_a_child();
	assert(syscall(SYS_io_destroy, ctx) == 0);
	expect_numbers(0, max);
	expect_plain_descriptors();
	open_others();
	return 0;
}
