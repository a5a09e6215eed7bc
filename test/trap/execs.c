/* SPDX-License-Identifier: MIT */
/*
 * execs WAY PROGRAM [ARGUMENT...]: executes a program in a child, in one of many ways
 *
 * `execs state` prints what an executed program can see of how it was executed. `execs
 * gs` prints the results of using the register gs. Like client.c, the program is built
 * in several ways, and prints the same in every run.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	SIGNAL_ROUNDS = 50,
	SIGNAL_NS = 50000,
	FEW_BYTES = 24 << 20,
};

extern char **environ;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	(void)fflush(stdout);
	_exit(1);
}

/* The executed program, which prints its state */

static unsigned long mask_now(void)
{
	unsigned long mask = 0;

	(void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, 8);
	return mask;
}

static const char *library(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	const char *found = "none";
	char line[4096];

	if (!maps)
		return strerror(errno);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "libuaio"))
			found = "there";
	(void)fclose(maps);
	return found;
}

static int do_state(int argc, char **argv)
{
	printf("state: %s, %d arguments, user %d, mask %lx, library %s\n",
	       argc ? argv[0] : "", argc, (int)geteuid(), mask_now(),
	       library());
	return 3;
}

/*
 * What a program can do with the register gs
 */

enum { SET_GS = 0x1001, GET_GS = 0x1004, HAS_FSGSBASE = 1 << 1 };

static int do_gs(void)
{
	static unsigned long word = 1;
	unsigned long base = 1;
	long set = syscall(SYS_arch_prctl, SET_GS, &word);
	int error = errno;

	if (syscall(SYS_arch_prctl, GET_GS, &base) < 0)
		die("arch_prctl");
	printf("gs: set %s, base %lx, instructions %s\n",
	       set < 0 ? strerror(error) : "works", base,
	       getauxval(AT_HWCAP2) & HAS_FSGSBASE ? "there" : "hidden");
	return 0;
}

/*
 * The ways to execute a program
 */

static int by_execve(char **argv)
{
	return execve(argv[0], argv, environ);
}

static int by_execveat(char **argv)
{
	return (int)syscall(SYS_execveat, AT_FDCWD, argv[0], argv, environ, 0);
}

static int by_descriptor(char **argv)
{
	int fd = open(argv[0], O_RDONLY);

	return (int)syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
}

static int by_relative(char **argv)
{
	char *directory = strdup(argv[0]);

	if (chdir(dirname(directory)) < 0)
		die("chdir");
	argv[0] = basename(argv[0]);
	return execve(argv[0], argv, environ);
}

static int without_environment(char **argv)
{
	return execve(argv[0], argv, (char *[]){ NULL });
}

static int with_null_environment(char **argv)
{
	return (int)syscall(SYS_execve, argv[0], argv, NULL);
}

static int with_bad_environment(char **argv)
{
	return (int)syscall(SYS_execve, argv[0], argv, 8);
}

static int with_bad_variable(char **argv)
{
	return (int)syscall(SYS_execve, argv[0], argv,
			    (char *[]){ (char *)8, NULL });
}

static int with_bad_path(char **argv)
{
	return (int)syscall(SYS_execve, 8, argv, environ);
}

static int with_loaders_variable(char **argv)
{
	(void)putenv("LD_TRACE_LOADED_OBJECTS=1");
	return execve(argv[0], argv, environ);
}

static int without_trap(char **argv)
{
	(void)unsetenv("UAIO_TRAP");
	return execve(argv[0], argv, environ);
}

/*
 * Execute the program with a filter that kills it at access() or newfstatat(). A dynamic
 * loader makes these calls, so the program survives only if no loader runs in it.
 */
static int with_filter(char **argv)
{
	struct sock_filter insns[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_access, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 5, insns };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		die("prctl");
	return execve(argv[0], argv, environ);
}

static int limit(int resource, rlim_t value, char **argv)
{
	struct rlimit limit = { value, value };

	if (setrlimit(resource, &limit) < 0)
		die("setrlimit");
	return execve(argv[0], argv, environ);
}

static int with_little_memory(char **argv)
{
	return limit(RLIMIT_AS, FEW_BYTES, argv);
}

static int without_descriptors(char **argv)
{
	return limit(RLIMIT_NOFILE, 3, argv);
}

static int in_other_root(char **argv)
{
	char *directory = strdup(argv[0]);

	if (chroot(dirname(directory)) < 0)
		die("chroot");
	argv[0] = basename(argv[0]) - 1;
	return execve(argv[0], argv, environ);
}

static const struct way {
	const char *name;
	int (*execute)(char **argv);
} ways[] = {
	{ "execve", by_execve },
	{ "execveat", by_execveat },
	{ "descriptor", by_descriptor },
	{ "relative", by_relative },
	{ "no-environment", without_environment },
	{ "null-environment", with_null_environment },
	{ "bad-environment", with_bad_environment },
	{ "bad-variable", with_bad_variable },
	{ "bad-path", with_bad_path },
	{ "loader-variable", with_loaders_variable },
	{ "no-trap", without_trap },
	{ "filter", with_filter },
	{ "memory", with_little_memory },
	{ "descriptors", without_descriptors },
	{ "root", in_other_root },
};

static int status_of(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		die("child");
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

static int do_way(const struct way *way, char **argv)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)way->execute(argv);
		die("exec");
	}
	printf("%s: status %d\n", way->name, status_of(pid));
	return 0;
}

/* Executing by posix_spawn and vfork, whose child shares the parent's memory */

static int do_spawn(char **argv)
{
	pid_t pid;
	int ret = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ);

	if (ret)
		printf("spawn: %s\n", strerror(ret));
	else
		printf("spawn: status %d\n", status_of(pid));
	return 0;
}

/* The child changes its signal mask, and the parent's mask must stay. */
static int do_vfork(char **argv)
{
	volatile int error = 0;
	sigset_t none, blocked;
	unsigned long mask;
	int status;
	pid_t pid;

	(void)sigemptyset(&none);
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGUSR1);
	(void)sigprocmask(SIG_SETMASK, &blocked, NULL);
	mask = mask_now();
	pid = vfork();
	if (pid == 0) {
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		(void)execve(argv[0], argv, environ);
		error = errno;
		_exit(1);
	}
	status = status_of(pid);
	if (mask_now() != mask)
		printf("vfork: the parent's mask is %lx\n", mask_now());
	if (error)
		printf("vfork: %s\n", strerror(error));
	else
		printf("vfork: status %d\n", status);
	return 0;
}

/* Executing while signals arrive: their handler must not run in the new program */

static volatile sig_atomic_t nr_handled;

static void count(int sig)
{
	(void)sig;
	nr_handled++;
}

static void execute_among_signals(char *program)
{
	struct sigaction action = { .sa_handler = count };
	struct sigevent event = {
		.sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = SIGURG,
	};
	struct itimerspec every = { { 0, SIGNAL_NS }, { 0, SIGNAL_NS } };
	timer_t timer;

	(void)sigfillset(&action.sa_mask);
	/* execve() deletes the timer. */
	if (sigaction(SIGURG, &action, NULL) < 0 ||
	    timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
	    timer_settime(timer, 0, &every, NULL) < 0)
		die("timer");
	while (!nr_handled)
		;
	(void)execve(program, (char *[]){ program, "mask", NULL }, environ);
	die("exec");
}

static int do_signals(char *program)
{
	int nr_wrong = 0;

	for (int i = 0; i < SIGNAL_ROUNDS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			execute_among_signals(program);
		nr_wrong += status_of(pid) != 0;
	}
	printf("signals: %d of %d have another mask\n", nr_wrong,
	       SIGNAL_ROUNDS);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "state"))
		return do_state(argc, argv);
	if (!strcmp(what, "gs"))
		return do_gs();
	if (!strcmp(what, "mask"))
		return mask_now() != 0;
	if (argc < 3)
		return 2;
	if (!strcmp(what, "spawn"))
		return do_spawn(argv + 2);
	if (!strcmp(what, "vfork"))
		return do_vfork(argv + 2);
	if (!strcmp(what, "signals-no-trap"))
		(void)unsetenv("UAIO_TRAP");
	if (!strncmp(what, "signals", 7))
		return do_signals(argv[2]);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(what, ways[i].name))
			return do_way(&ways[i], argv + 2);
	return 2;
}
