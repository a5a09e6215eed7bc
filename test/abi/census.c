/* SPDX-License-Identifier: MIT */
/*
 * census: prints what a process can learn about itself from the system, one fact on
 * each line
 *
 * With the argument "after-setup" the program creates and destroys an AIO context
 * through syscall(2) before it prints, so that traces of the context would be seen.
 */
#undef NDEBUG
#include <assert.h>
#include <dirent.h>
#include <linux/aio_abi.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

/*
 * Return: whether this line of /proc/self/status must be the same without and with the
 * library.
 */
static bool is_of_interest(const char *line)
{
	static const char *const names[] = {
		"Name:",       "Umask:",       "State:",     "Uid:",
		"Gid:",        "FDSize:",      "Groups:",    "VmLck:",
		"VmPin:",      "Threads:",     "SigPnd:",    "ShdPnd:",
		"SigBlk:",     "SigIgn:",      "SigCgt:",    "CapInh:",
		"CapPrm:",     "CapEff:",      "CapBnd:",    "CapAmb:",
		"NoNewPrivs:", "Seccomp:",     "TracerPid:", "Cpus_allowed:",
		"CoreDumping", "THP_enabled:",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(line, names[i], strlen(names[i])))
			return true;
	return false;
}

static void print_status(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[4096];

	assert(file);
	while (fgets(line, sizeof(line), file))
		if (is_of_interest(line))
			printf("status %s", line);
	fclose(file);
}

static void print_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	assert(dir);
	while ((entry = readdir(dir)))
		printf("fd %s\n", entry->d_name);
	closedir(dir);
}

static void print_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned nr = 0;

	assert(dir);
	while (readdir(dir))
		nr++;
	printf("tasks %u\n", nr - 2);
	closedir(dir);
}

static void print_signals(void)
{
	struct sigaction action;
	stack_t stack;

	for (int nr = 1; nr < NSIG; nr++)
		if (sigaction(nr, NULL, &action) == 0)
			printf("signal %d %s %x\n", nr,
			       action.sa_handler == SIG_DFL   ? "default"
			       : action.sa_handler == SIG_IGN ? "ignored"
							      : "caught",
			       (unsigned)action.sa_flags);
	assert(sigaltstack(NULL, &stack) == 0);
	printf("signal stack %d\n", stack.ss_flags);
}

static void print_limits(void)
{
	struct rlimit limit;

	for (int nr = 0; nr < RLIM_NLIMITS; nr++) {
		assert(getrlimit(nr, &limit) == 0);
		printf("limit %d %llu %llu\n", nr,
		       (unsigned long long)limit.rlim_cur,
		       (unsigned long long)limit.rlim_max);
	}
}

static void print_scheduling(void)
{
	cpu_set_t set;

	assert(sched_getaffinity(0, sizeof(set), &set) == 0);
	printf("scheduling %d %d %d, %d processors\n", sched_getscheduler(0),
	       getpriority(PRIO_PROCESS, 0), prctl(PR_GET_DUMPABLE),
	       CPU_COUNT(&set));
	printf("subreaper, timer slack %d\n", prctl(PR_GET_TIMERSLACK));
}

static void setup_and_destroy(void)
{
	aio_context_t ctx = 0;

	assert(syscall(SYS_io_setup, 16, &ctx) == 0);
	assert(syscall(SYS_io_destroy, ctx) == 0);
}

int main(int argc, char **argv)
{
	char cwd[4096];

	if (argc > 1 && !strcmp(argv[1], "after-setup"))
		setup_and_destroy();
	print_status();
	print_descriptors();
	print_threads();
	print_signals();
	print_limits();
	print_scheduling();
	assert(getcwd(cwd, sizeof(cwd)));
	printf("cwd %s\n", cwd);
	for (char **variable = environ; *variable; variable++)
		printf("env %s\n", *variable);
	return 0;
}
