/* SPDX-License-Identifier: MIT */
/*
 * deny-aio [--uring | --container | --old] [--errno NAME] -- command: run a program
 * without kernel AIO.
 *
 * A seccomp filter answers the six system calls of kernel AIO with an error, as in a
 * sandbox or a container. The error is ENOSYS, or NAME with --errno. If NAME is KILL,
 * the filter kills the calling process.
 *
 * --uring denies the three system calls of io_uring instead. --container denies the
 * system calls that container engines deny by default, with the same errors; these
 * calls include io_uring, but not kernel AIO. --old answers all system calls newer than
 * Linux 5.0 with ENOSYS. All descendants of the command inherit the filter.
 */
#include <errno.h>
#include <getopt.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* System call numbers of Linux 5.12 and 5.14, which older headers lack. */
#ifndef __NR_mount_setattr
#define __NR_mount_setattr 442
#endif
#ifndef __NR_quotactl_fd
#define __NR_quotactl_fd 443
#endif

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* value of `error` that means: the filter kills the process */
enum { KILL = -1 };

/*
 * Which system calls to deny. getopt_long() returns these values for the long options.
 * For a short option it returns a character, so these values are larger than any
 * character.
 */
enum what { AIO = 256, URING, CONTAINER, OLD };

/*
 * The first system call number after Linux 5.0 (pidfd_send_signal). From this number
 * on, all architectures have the same numbers.
 */
enum { FIRST_NEW_CALL = 424 };

static const struct {
	const char *name;
	int value;
} errnos[] = {
	{ "EACCES", EACCES }, { "EAGAIN", EAGAIN },
	{ "EINVAL", EINVAL }, { "ENOMEM", ENOMEM },
	{ "ENOSYS", ENOSYS }, { "EOPNOTSUPP", EOPNOTSUPP },
	{ "EPERM", EPERM },   { "KILL", KILL },
};

static const int aio_calls[] = {
	SCMP_SYS(io_setup),  SCMP_SYS(io_destroy),   SCMP_SYS(io_submit),
	SCMP_SYS(io_cancel), SCMP_SYS(io_getevents), SCMP_SYS(io_pgetevents),
};

static const int uring_calls[] = {
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
};

/*
 * System calls that Docker's default filter denies to a container with the default
 * capabilities (moby/profiles, seccomp v0.3.0; containerd derives its filter from the
 * same source). Docker's filter denies every call that it does not name. This list has
 * only the denied calls that libseccomp 2.5 knows and that the kernel still has.
 */
static const int container_calls[] = {
	SCMP_SYS(acct),
	SCMP_SYS(add_key),
	SCMP_SYS(bpf),
	SCMP_SYS(clock_settime),
	SCMP_SYS(delete_module),
	SCMP_SYS(fanotify_init),
	SCMP_SYS(finit_module),
	SCMP_SYS(fsconfig),
	SCMP_SYS(fsmount),
	SCMP_SYS(fsopen),
	SCMP_SYS(fspick),
	SCMP_SYS(get_mempolicy),
	SCMP_SYS(init_module),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(ioperm),
	SCMP_SYS(iopl),
	SCMP_SYS(kcmp),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(kexec_load),
	SCMP_SYS(keyctl),
	SCMP_SYS(lookup_dcookie),
	SCMP_SYS(mbind),
	SCMP_SYS(migrate_pages),
	SCMP_SYS(mount),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(move_mount),
	SCMP_SYS(move_pages),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(open_tree),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(pivot_root),
	SCMP_SYS(process_madvise),
	SCMP_SYS(quotactl),
	SCMP_SYS(quotactl_fd),
	SCMP_SYS(reboot),
	SCMP_SYS(request_key),
	SCMP_SYS(set_mempolicy),
	SCMP_SYS(setdomainname),
	SCMP_SYS(sethostname),
	SCMP_SYS(setns),
	SCMP_SYS(settimeofday),
	SCMP_SYS(swapoff),
	SCMP_SYS(swapon),
	SCMP_SYS(syslog),
	SCMP_SYS(umount2),
	SCMP_SYS(unshare),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(vhangup),
};

/*
 * clone() with one of these flags is denied, as a container may not create namespaces.
 */
static const scmp_datum_t container_clone_flags[] = {
	CLONE_NEWCGROUP, CLONE_NEWIPC,  CLONE_NEWNET, CLONE_NEWNS,
	CLONE_NEWPID,    CLONE_NEWUSER, CLONE_NEWUTS,
};

/* Exit statuses that env(1) and similar tools use for their own failures. */
enum { EXIT_OWN_FAILURE = 125, EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127 };

static void usage(FILE *to)
{
	fputs("usage: deny-aio [--uring | --container | --old] [--errno NAME] "
	      "-- command [argument...]\n",
	      to);
}

/*
 * Return: the number of the errno with that name, KILL for "KILL", or 0 for any other
 * name.
 */
static int errno_named(const char *name)
{
	for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++)
		if (!strcmp(name, errnos[i].name))
			return errnos[i].value;
	return 0;
}

/* Return: 0, or a negative errno if libseccomp cannot add a rule. */
static int refuse(scmp_filter_ctx filter, const int calls[], size_t nr,
		  int error)
{
	uint32_t action = error == KILL ? SCMP_ACT_KILL_PROCESS
					: SCMP_ACT_ERRNO((uint16_t)error);
	int ret = 0;

	for (size_t i = 0; !ret && i < nr; i++)
		ret = seccomp_rule_add(filter, action, calls[i], 0);
	return ret;
}

/* Return: 0, or a negative errno if libseccomp cannot add a rule. */
static int refuse_as_container(scmp_filter_ctx filter)
{
	/* Deny clone3(): the C library then uses clone(), whose flags a filter can read. */
	static const int clone3[] = { SCMP_SYS(clone3) };
	int ret = refuse(filter, container_calls, ARRAY_LENGTH(container_calls),
			 EPERM);

	if (!ret)
		ret = refuse(filter, clone3, ARRAY_LENGTH(clone3), ENOSYS);
	for (size_t i = 0; !ret && i < ARRAY_LENGTH(container_clone_flags); i++)
		ret = seccomp_rule_add(
			filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
			SCMP_A0(SCMP_CMP_MASKED_EQ, container_clone_flags[i],
				container_clone_flags[i]));
	return ret;
}

/*
 * Deny all system calls from FIRST_NEW_CALL on. The filter is written in BPF, because
 * libseccomp cannot compare call numbers. The filter also denies the calls of x32,
 * whose numbers are higher than all others.
 *
 * Return: 0, or a negative errno if the kernel refuses the filter.
 */
static int deny_new_calls(void)
{
	struct sock_filter insns[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_NEW_CALL, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { ARRAY_LENGTH(insns), insns };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return -errno;
	return 0;
}

/*
 * Load the filter. This also sets no_new_privs, so the program needs no privilege.
 *
 * Return: 0, or a negative errno if the filter cannot be made or loaded.
 */
static int deny(enum what what, int error)
{
	scmp_filter_ctx filter;
	int ret;

	if (what == OLD)
		return deny_new_calls();
	filter = seccomp_init(SCMP_ACT_ALLOW);
	if (!filter)
		return -ENOMEM;
	if (what == CONTAINER)
		ret = refuse_as_container(filter);
	else if (what == URING)
		ret = refuse(filter, uring_calls, ARRAY_LENGTH(uring_calls),
			     error);
	else
		ret = refuse(filter, aio_calls, ARRAY_LENGTH(aio_calls), error);
	if (!ret)
		ret = seccomp_load(filter);
	seccomp_release(filter);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "errno", required_argument, NULL, 'e' },
		{ "uring", no_argument, NULL, URING },
		{ "container", no_argument, NULL, CONTAINER },
		{ "old", no_argument, NULL, OLD },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	enum what what = AIO;
	int error = ENOSYS, opt, ret;

	while ((opt = getopt_long(argc, argv, "+e:h", options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			return 0;
		}
		if (opt >= AIO) {
			what = (enum what)opt;
			continue;
		}
		error = opt == 'e' ? errno_named(optarg) : 0;
		if (!error) {
			if (opt == 'e')
				fprintf(stderr, "deny-aio: errno %s?\n",
					optarg);
			usage(stderr);
			return EXIT_OWN_FAILURE;
		}
	}
	if (optind == argc) {
		usage(stderr);
		return EXIT_OWN_FAILURE;
	}
	ret = deny(what, error);
	if (ret < 0) {
		fprintf(stderr, "deny-aio: seccomp: %s\n", strerror(-ret));
		return EXIT_OWN_FAILURE;
	}
	execvp(argv[optind], argv + optind);
	ret = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
	fprintf(stderr, "deny-aio: %s: %s\n", argv[optind], strerror(errno));
	return ret;
}
