/* SPDX-License-Identifier: MIT */
/*
 * The conditions of wakes.h: ways to disturb the reaping process and the waking process
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wakes.h"

static void wait_a_moment(pid_t reaping, pid_t waking, struct random *random)
{
	(void)reaping;
	(void)waking;
	(void)random;
	usleep(1000);
}

/* Stopping: SIGSTOP and SIGCONT for one of the processes or both */

static void stop_and_continue(pid_t reaping, pid_t waking,
			      struct random *random)
{
	const uint32_t which = 1 + random_below(random, 3);

	if (which & 1)
		(void)kill(reaping, SIGSTOP);
	if (which & 2)
		(void)kill(waking, SIGSTOP);
	usleep(random_below(random, 300));
	if (which & 1)
		(void)kill(reaping, SIGCONT);
	if (which & 2)
		(void)kill(waking, SIGCONT);
	usleep(random_below(random, 500));
}

/*
 * Tracing: PTRACE_INTERRUPT and PTRACE_CONT for any thread of the reaping process
 */

static const char *trace(pid_t reaping, pid_t waking)
{
	(void)waking;
	return ptrace(PTRACE_SEIZE, reaping, NULL, PTRACE_O_TRACECLONE)
		       ? "ptrace is refused"
		       : NULL;
}

void conditions_resume(pid_t thread, int status, struct random *random)
{
	/*
	 * The signal that the kernel is about to deliver; 0 if another ptrace event
	 * stopped the thread.
	 */
	const int signal = status >> 16 ? 0 : WSTOPSIG(status);

	if (random_below(random, 8) == 0)
		usleep(random_below(random, 300));
	/* Ignore an error: the thread may have been killed meanwhile. */
	(void)ptrace(PTRACE_CONT, thread, NULL, (void *)(intptr_t)signal);
}

static void interrupt(pid_t reaping, pid_t waking, struct random *random)
{
	const uint32_t one_of = 1 + random_below(random, 6);
	struct dirent *entry;
	char path[64];
	DIR *tasks;

	(void)waking;
	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)reaping);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks)))
		if (atoi(entry->d_name) > 0 &&
		    random_below(random, one_of) == 0)
			(void)ptrace(PTRACE_INTERRUPT, atoi(entry->d_name),
				     NULL, NULL);
	if (tasks)
		closedir(tasks);
	usleep(random_below(random, 300));
}

/*
 * One processor
 */

static const char *on_one_processor(pid_t reaping, pid_t waking)
{
	cpu_set_t all, one;
	int nr = 0;

	if (sched_getaffinity(0, sizeof(all), &all))
		return "sched_getaffinity is refused";
	while (nr < CPU_SETSIZE - 1 && !CPU_ISSET(nr, &all))
		nr++;
	CPU_ZERO(&one);
	CPU_SET(nr, &one);
	if (sched_setaffinity(reaping, sizeof(one), &one) ||
	    sched_setaffinity(waking, sizeof(one), &one))
		return "sched_setaffinity is refused";
	return NULL;
}

/* A control group that may use a twentieth of one processor */

static struct {
	char path[PATH_MAX];
	/* process that removes the control group, even if the supervisor is killed */
	pid_t guard;
	int to_guard;
} group;

static bool write_to(const char *name, const char *text)
{
	char path[PATH_MAX + 32];
	const size_t bytes = strlen(text);
	bool is_written;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", group.path, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	is_written = write(fd, text, bytes) == (ssize_t)bytes;
	(void)close(fd);
	return is_written;
}

/*
 * Return: whether the control group (version 2) in the directory `root` may limit the
 * processor time of its child groups.
 */
static bool limits_children(const char *root)
{
	char path[PATH_MAX], words[256] = " ";
	FILE *file;
	bool has_cpu = false;

	(void)snprintf(path, sizeof(path), "%s/cgroup.subtree_control", root);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fgets(words + 1, sizeof(words) - 2, file)) {
		words[strcspn(words, "\n")] = ' ';
		has_cpu = strstr(words, " cpu ");
	}
	(void)fclose(file);
	return has_cpu;
}

/*
 * Choose the path of the control group that this program will make.
 * Return: the version of control groups, 1 or 2; 0 if no control group can limit
 * processor time on this machine.
 */
static int find_root(void)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *mount;
	int version = 0;

	if (!mounts)
		return 0;
	while (!version && (mount = getmntent(mounts))) {
		if (strcmp(mount->mnt_type, "cgroup2") == 0 &&
		    limits_children(mount->mnt_dir))
			version = 2;
		else if (strcmp(mount->mnt_type, "cgroup") == 0 &&
			 hasmntopt(mount, "cpu"))
			version = 1;
		if (version)
			(void)snprintf(group.path, sizeof(group.path),
				       "%s/uaio-wakes-%d", mount->mnt_dir,
				       (int)getpid());
	}
	endmntent(mounts);
	return version;
}

/*
 * Wait until the supervisor ends. Then remove the control group, once its processes have
 * ended.
 */
static _Noreturn void guard_group(int from_supervisor)
{
	int null = open("/dev/null", O_RDWR);
	char byte;

	(void)setsid();
	for (int fd = 0; fd <= 2; fd++)
		(void)dup2(null, fd);
	while (read(from_supervisor, &byte, 1) < 0 && errno == EINTR)
		;
	while (rmdir(group.path) && errno == EBUSY)
		usleep(10000);
	_exit(0);
}

static bool enter(pid_t pid)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	return write_to("cgroup.procs", text);
}

static void leave_group(void)
{
	if (!group.guard)
		return;
	REQUIRE(close(group.to_guard) == 0);
	REQUIRE(waitpid(group.guard, NULL, 0) == group.guard);
	group.guard = 0;
}

static const char *in_group(pid_t reaping, pid_t waking)
{
	const int version = find_root();
	int ends[2];
	bool is_limited;

	if (!version)
		return "no control group limits processor time here";
	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	group.to_guard = ends[1];
	group.guard = fork();
	REQUIRE(group.guard >= 0);
	if (group.guard == 0) {
		(void)close(ends[1]);
		guard_group(ends[0]);
	}
	REQUIRE(close(ends[0]) == 0);
	if (mkdir(group.path, 0755))
		return "no control group can be made";
	is_limited = version == 2
			     ? write_to("cpu.max", "5000 100000")
			     : write_to("cpu.cfs_period_us", "100000") &&
				       write_to("cpu.cfs_quota_us", "5000");
	if (!is_limited || !enter(reaping) || !enter(waking))
		return "no control group can be used";
	return NULL;
}

const struct condition conditions[] = {
	{ .name = "plain", .disturb = wait_a_moment },
	{ .name = "stops", .disturb = stop_and_continue },
	{ .name = "traced", .begin = trace, .disturb = interrupt },
	{ .name = "one-processor",
	  .begin = on_one_processor,
	  .disturb = wait_a_moment },
	{ .name = "idle-waker",
	  .has_idle_wakers = true,
	  .disturb = wait_a_moment },
	{ .name = "idle-reaper",
	  .has_idle_reapers = true,
	  .disturb = wait_a_moment },
	{ .name = "stops-on-one-processor",
	  .begin = on_one_processor,
	  .disturb = stop_and_continue },
	{ .name = "group",
	  .begin = in_group,
	  .disturb = wait_a_moment,
	  .end = leave_group },
};

const unsigned nr_conditions = NR_ELEMENTS(conditions);
