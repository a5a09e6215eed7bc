/* SPDX-License-Identifier: MIT */
/*
 * Cases: children by vfork, posix_spawn and system, and a process that becomes a
 * daemon. Meanwhile the kernel's own AIO executes requests for the library
 * (UAIO_BACKEND=aio).
 */
#include "device.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "older.h"

/* NR: so few writes that io_submit does not block on any block device */
enum { NR = 4, STATUS = 42 };

extern char **environ;

static struct host_device device;

/*
 * Write a file by AIO. Called in a child or daemon: there, too, the library must execute
 * requests.
 */
static void work_elsewhere(const char *path)
{
	static const char blank[NR * BLOCK] __attribute__((aligned(4096)));
	int fd = open(path, O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0644);
	aio_context_t ctx = host_context(NR);

	REQUIRE(pwrite(fd, blank, sizeof(blank), 0) == sizeof(blank));
	host_write_blocks(ctx, fd, 0, NR);
	host_reap_blocks(ctx, NR);
	host_check_blocks(path, NR);
	REQUIRE(host_destroy(ctx) == 0 && close(fd) == 0);
}

/* vfork, and functions that use it */

/*
 * In the child of vfork(), make the calls that Python's subprocess module makes there.
 */
static pid_t vfork_and_run(int held)
{
	char *const argv[] = { "sh", "-c", "exit 42", NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid = vfork();

	if (pid == 0) {
		if (dup2(null, 0) != 0 || close(held) != 0 ||
		    dup2(null, held) != held)
			_exit(97);
		closefrom(3);
		execve("/bin/sh", argv, environ);
		_exit(98);
	}
	REQUIRE(close(null) == 0);
	return pid;
}

/* All children must end while the device still holds the parent's writes. */
void native_vfork(void)
{
	char *const argv[] = { "sh", "-c", "exit 42", NULL };

	device = host_device_open();
	for (unsigned round = 0; round < 5; round++) {
		struct host_held held = host_device_hold(&device, NR);
		pid_t pid;

		REQUIRE(host_finish(vfork_and_run(held.fd)) == STATUS);
		REQUIRE(!posix_spawn(&pid, "/bin/sh", NULL, NULL, argv,
				     environ));
		REQUIRE(host_finish(pid) == STATUS);
		REQUIRE(WEXITSTATUS(system("exit 42")) == STATUS);
		work_elsewhere("beside");
		slowfs_release(device.fs, SLOWFS_WRITE);
		host_reap_blocks(held.ctx, NR);
		host_device_check(&device, NR);
		host_held_drop(&held);
	}
	host_device_close(&device);
}

/* daemon() ends its caller by an _exit() inside the C library, which uaio cannot see */

static int become_daemon(void *arg)
{
	(void)arg;
	(void)host_device_hold(&device, NR);
	host_step(1);
	REQUIRE(daemon(1, 0) == 0);
	work_elsewhere("daemons");
	host_step(2);
	return 0;
}

void native_daemon(void)
{
	device = host_device_open();
	for (unsigned round = 0; round < 5; round++) {
		pid_t pid;

		host_step(0);
		pid = host_start(become_daemon, NULL);
		host_await_step(1);
		if (host_is_uaio())
			host_await_sleep(pid);
		slowfs_release(device.fs, SLOWFS_WRITE);
		REQUIRE(host_finish(pid) == 0);
		host_device_check(&device, NR);
		host_await_step(2);
	}
	host_device_close(&device);
}
