/* SPDX-License-Identifier: MIT */
#include "base/calls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/sys.h"

enum {
	NR_CACHESTAT = 451,
	NR_EPOLL_PWAIT2 = 441,
	NR_FUTEX_WAITV = 449,
	NR_FUTEX_WAKE = 454,
	NR_OPENAT2 = 437,
	NR_PIDFD_OPEN = 434,
	RWF_NOWAIT_ = 8,
	PROBE = 8, /* IORING_REGISTER_PROBE */
	/* no process can have this id */
	NOBODY = 0x7fffffff,
	/* a value of `answer` below: the call is allowed if it returns no error */
	ANY = 1,
};

#define BIT(call) (1ull << (UAIO_CALL_##call) % 64)

#ifdef UAIO_TESTING
uaio_sys_hook_fn *uaio_sys_hook;
#endif

struct uaio_call_set uaio_calls;
/* Memory to which the kernel writes results of the calls that uaio_call_try() makes. */
static uint64_t unused;
/* name of an extended attribute that no file has */
static const char attribute[] = "user.uaio";
static bool is_loaded;

/*
 * Whether the library must read the number of seccomp filters again (calls.h, I5).
 * LEARN_NOTHING: no. LEARN_LATER: yes; the next thread that calls uaio_calls_load()
 * reads the number. LEARN_NOW: a thread is reading the number.
 */
enum { LEARN_NOTHING, LEARN_LATER, LEARN_NOW };
static uint32_t learning; /* atomic */

/*
 * The calls listed in calls.h that ordinary programs make to wait for files. The library
 * makes these even if it knows nothing about the seccomp filter (calls.h, I2).
 */
static const struct uaio_call_set usual = {
	.words = { BIT(LSEEK) | BIT(EVENTFD) | BIT(EPOLL_CREATE) |
		   BIT(EPOLL_CTL) | BIT(EPOLL_PWAIT) | BIT(PRLIMIT) },
};
static_assert(UAIO_CALL_LSEEK < 64 && UAIO_CALL_PRLIMIT < 64,
	      "all of them in one word");

/*
 * For each system call: arguments with which it has no effect, and the kernel's answer
 * to them. The arguments resemble those of a real call, as a filter may check them. If
 * a kernel lacks the call, it answers with another error, which counts as a refusal.
 */
static const struct {
	long nr;
	long args[6];
	int answer;
} calls[UAIO_NR_CALLS] = {
	[UAIO_CALL_PREADV2] = { SYS_preadv2,
				{ -1, 0, 0, 0, 0, RWF_NOWAIT_ },
				-EBADF },
	[UAIO_CALL_PWRITEV2] = { SYS_pwritev2,
				 { -1, 0, 0, 0, 0, RWF_NOWAIT_ },
				 -EBADF },
	[UAIO_CALL_VMSPLICE] = { SYS_vmsplice, { -1, 0, 0, 2 }, -EBADF },
	[UAIO_CALL_SENDTO] = { SYS_sendto, { -1, 0, 0, MSG_DONTWAIT }, -EBADF },
	[UAIO_CALL_GETSOCKOPT] = { SYS_getsockopt,
				   { -1, SOL_SOCKET, SO_ERROR },
				   -EBADF },
	[UAIO_CALL_DUP3] = { SYS_dup3, { -1, -2, O_CLOEXEC }, -EBADF },
	[UAIO_CALL_PROCESS_VM_READV] = { SYS_process_vm_readv,
					 { NOBODY, 0, 0, 0, 0, 1 },
					 -EINVAL },
	[UAIO_CALL_PROCESS_VM_WRITEV] = { SYS_process_vm_writev,
					  { NOBODY, 0, 0, 0, 0, 1 },
					  -EINVAL },
	[UAIO_CALL_FTRUNCATE] = { SYS_ftruncate, { -1, 0 }, -EBADF },
	[UAIO_CALL_SPLICE] = { SYS_splice, { -1, 0, -1, 0, 1 }, -EBADF },
	[UAIO_CALL_TEE] = { SYS_tee, { -1, -1, 1 }, -EBADF },
	[UAIO_CALL_SENDMSG] = { SYS_sendmsg, { -1, 0, 0 }, -EBADF },
	[UAIO_CALL_RECVFROM] = { SYS_recvfrom, { -1, 0, 0, 0 }, -EBADF },
	[UAIO_CALL_RECVMSG] = { SYS_recvmsg, { -1, 0, 0 }, -EBADF },
	[UAIO_CALL_ACCEPT] = { SYS_accept4, { -1, 0, 0, 0 }, -EBADF },
	[UAIO_CALL_CONNECT] = { SYS_connect, { -1, 0, 0 }, -EBADF },
	[UAIO_CALL_SHUTDOWN] = { SYS_shutdown, { -1, SHUT_RD }, -EBADF },
	[UAIO_CALL_SOCKET] = { SYS_socket,
			       { AF_UNIX, SOCK_STREAM, NOBODY },
			       -EPROTONOSUPPORT },
	[UAIO_CALL_BIND] = { SYS_bind, { -1, 0, 0 }, -EBADF },
	[UAIO_CALL_LISTEN] = { SYS_listen, { -1, 1 }, -EBADF },
	[UAIO_CALL_SETSOCKOPT] = { SYS_setsockopt,
				   { -1, SOL_SOCKET, SO_RCVTIMEO },
				   -EBADF },
	[UAIO_CALL_IOCTL_SOCKET] = { SYS_ioctl, { -1, FIONREAD }, -EBADF },
	[UAIO_CALL_OPENAT2] = { NR_OPENAT2, { AT_FDCWD, 0, 0, 0 }, -EINVAL },
	[UAIO_CALL_RENAMEAT2] = { SYS_renameat2,
				  { AT_FDCWD, 0, AT_FDCWD, 0 },
				  -EFAULT },
	[UAIO_CALL_UNLINKAT] = { SYS_unlinkat, { AT_FDCWD, 0 }, -EFAULT },
	[UAIO_CALL_MKDIRAT] = { SYS_mkdirat, { AT_FDCWD, 0 }, -EFAULT },
	[UAIO_CALL_SYMLINKAT] = { SYS_symlinkat, { 0, AT_FDCWD, 0 }, -EFAULT },
	[UAIO_CALL_LINKAT] = { SYS_linkat,
			       { AT_FDCWD, 0, AT_FDCWD, 0 },
			       -EFAULT },
	[UAIO_CALL_FALLOCATE] = { SYS_fallocate, { -1, 0, 0, 1 }, -EBADF },
	[UAIO_CALL_SYNC_FILE_RANGE] = { SYS_sync_file_range, { -1 }, -EBADF },
	[UAIO_CALL_GETXATTR] = { SYS_getxattr,
				 { 0, (long)attribute },
				 -EFAULT },
	[UAIO_CALL_SETXATTR] = { SYS_setxattr,
				 { 0, (long)attribute },
				 -EFAULT },
	[UAIO_CALL_FGETXATTR] = { SYS_fgetxattr,
				  { -1, (long)attribute },
				  -EBADF },
	[UAIO_CALL_FSETXATTR] = { SYS_fsetxattr,
				  { -1, (long)attribute },
				  -EBADF },
	[UAIO_CALL_PIPE2] = { SYS_pipe2, { 0, ~0l }, -EINVAL },
	[UAIO_CALL_FUTEX_WAITV] = { NR_FUTEX_WAITV, { 0, 0 }, -EINVAL },
	[UAIO_CALL_FUTEX_WAKE] = { NR_FUTEX_WAKE, { 0, 0 }, -EINVAL },
	[UAIO_CALL_WAITID] = { SYS_waitid, { 0, 0, 0, 0 }, -EINVAL },
	[UAIO_CALL_PIDFD_OPEN] = { NR_PIDFD_OPEN, { -1, 0 }, -EINVAL },
	[UAIO_CALL_CACHESTAT] = { NR_CACHESTAT, { -1 }, -EBADF },
	[UAIO_CALL_FADVISE] = { SYS_fadvise64,
				{ -1, 0, 0, POSIX_FADV_WILLNEED },
				-EBADF },
	[UAIO_CALL_FSTATFS] = { SYS_fstatfs, { -1 }, -EBADF },
	[UAIO_CALL_STATX] = { SYS_statx, { -1, 0, 0 }, -EFAULT },
	[UAIO_CALL_LSEEK] = { SYS_lseek, { -1, 0, SEEK_CUR }, -EBADF },
	[UAIO_CALL_READLINKAT] = { SYS_readlinkat,
				   { AT_FDCWD, 0, 0, 1 },
				   -EFAULT },
	[UAIO_CALL_OPENAT] = { SYS_openat,
			       { AT_FDCWD, 0, O_CLOEXEC },
			       -EFAULT },
	[UAIO_CALL_GETCWD] = { SYS_getcwd, { 0, 0 }, -ERANGE },
	[UAIO_CALL_MEMFD] = { SYS_memfd_create, { 0, 1 | 2 }, -EFAULT },
	[UAIO_CALL_IOCTL_TERMINAL] = { SYS_ioctl, { -1, TCGETS }, -EBADF },
	[UAIO_CALL_IOCTL_BLOCK] = { SYS_ioctl, { -1, BLKSSZGET }, -EBADF },
	[UAIO_CALL_EVENTFD] = { SYS_eventfd2, { 0, ~0l }, -EINVAL },
	[UAIO_CALL_EPOLL_CREATE] = { SYS_epoll_create1, { ~0l }, -EINVAL },
	[UAIO_CALL_EPOLL_CTL] = { SYS_epoll_ctl, { -1, 2, -1 }, -EBADF },
	[UAIO_CALL_EPOLL_PWAIT] = { SYS_epoll_pwait, { -1, 0, 1 }, -EBADF },
	[UAIO_CALL_EPOLL_PWAIT2] = { NR_EPOLL_PWAIT2, { -1, 0, 1 }, -EBADF },
	[UAIO_CALL_PSELECT] = { SYS_pselect6, { -1 }, -EINVAL },
	[UAIO_CALL_PRLIMIT] = { SYS_prlimit64,
				{ 0, RLIMIT_NOFILE, 0, 1 },
				-EFAULT },
	[UAIO_CALL_PRCTL_NAME] = { SYS_prctl, { PR_SET_NAME, 0 }, -EFAULT },
	[UAIO_CALL_SCHED_GETAFFINITY] = { SYS_sched_getaffinity,
					  { 0, 0, 0 },
					  -EINVAL },
	[UAIO_CALL_SCHED_SETAFFINITY] = { SYS_sched_setaffinity,
					  { NOBODY, 0, 0 },
					  -ESRCH },
	[UAIO_CALL_SCHED_GETSCHEDULER] = { SYS_sched_getscheduler,
					   { NOBODY },
					   -ESRCH },
	[UAIO_CALL_SCHED_SETSCHEDULER] = { SYS_sched_setscheduler,
					   { 0, SCHED_OTHER, 0 },
					   -EINVAL },
	[UAIO_CALL_SETPRIORITY] = { SYS_setpriority, { 0, NOBODY, 0 }, -ESRCH },
	[UAIO_CALL_IOPRIO_GET] = { SYS_ioprio_get, { 1, NOBODY }, -ESRCH },
	[UAIO_CALL_IOPRIO_SET] = { SYS_ioprio_set, { 1, NOBODY, 0 }, -ESRCH },
	[UAIO_CALL_GETRUSAGE] = { SYS_getrusage, { 99, 0 }, -EINVAL },
	[UAIO_CALL_CAPGET] = { SYS_capget, { 0, 0 }, -EFAULT },
	[UAIO_CALL_GETRESUID] = { SYS_getresuid, { 0, 0, 0 }, -EFAULT },
	[UAIO_CALL_GETRESGID] = { SYS_getresgid, { 0, 0, 0 }, -EFAULT },
	[UAIO_CALL_GETGROUPS] = { SYS_getgroups, { -1, 0 }, -EINVAL },
	[UAIO_CALL_SETFSUID] = { SYS_setfsuid, { -1 }, ANY },
	[UAIO_CALL_SETFSGID] = { SYS_setfsgid, { -1 }, ANY },
	[UAIO_CALL_CAPSET] = { SYS_capset, { 0, 0 }, -EFAULT },
	[UAIO_CALL_SETGROUPS] = { SYS_setgroups, { -1, 0 }, -EINVAL },
	[UAIO_CALL_TGKILL] = { SYS_tgkill, { NOBODY, NOBODY, 0 }, -ESRCH },
	[UAIO_CALL_TGSIGQUEUEINFO] = { SYS_rt_tgsigqueueinfo,
				       { NOBODY, NOBODY, 0, 0 },
				       -EFAULT },
	[UAIO_CALL_GET_ROBUST_LIST] = { SYS_get_robust_list,
					{ NOBODY, (long)&unused,
					  (long)&unused },
					-ESRCH },
	[UAIO_CALL_SIGPENDING] = { SYS_rt_sigpending, { (long)&unused, 8 }, 0 },
	[UAIO_CALL_SIGTIMEDWAIT] = { SYS_rt_sigtimedwait,
				     { 0, 0, 0, 8 },
				     -EFAULT },
	[UAIO_CALL_WIPEONFORK] = { SYS_madvise, { 0, 0, MADV_WIPEONFORK }, 0 },
	[UAIO_CALL_URING_SETUP] = { SYS_io_uring_setup, { 1, 0 }, -EFAULT },
	[UAIO_CALL_URING_ENTER] = { SYS_io_uring_enter, { -2 }, -EBADF },
	[UAIO_CALL_URING_REGISTER] = { SYS_io_uring_register,
				       { -2, PROBE },
				       -EBADF },
	[UAIO_CALL_IO_SETUP] = { SYS_io_setup, { 1, 0 }, -EFAULT },
	[UAIO_CALL_IO_DESTROY] = { SYS_io_destroy, { 0 }, -EINVAL },
	[UAIO_CALL_IO_SUBMIT] = { SYS_io_submit, { 0, 1, 0 }, -EINVAL },
	[UAIO_CALL_MPROTECT_EXEC] = { SYS_mprotect,
				      { 0, 0,
					PROT_READ | PROT_WRITE | PROT_EXEC },
				      0 },
};

static_assert(UAIO_NR_CALLS <= 128, "a bit each");

bool uaio_call_try(enum uaio_call call)
{
	const long *a = calls[call].args;
	long answer =
		uaio_sys6(calls[call].nr, a[0], a[1], a[2], a[3], a[4], a[5]);

	/*
	 * Without CAP_SETGID the kernel answers EPERM to setgroups(). The call counts
	 * as allowed; without CAP_SETGID the library does not make it.
	 */
	if (call == UAIO_CALL_SETGROUPS && answer == -EPERM)
		return true;
	return answer == calls[call].answer ||
	       (calls[call].answer == ANY && answer >= 0);
}

bool uaio_call_is_answered(enum uaio_call call)
{
	if (!uaio_may_call(call))
		return false;
	if (uaio_call_try(call))
		return true;
	uaio_call_forbid(call);
	return false;
}

/* How the library finds out how many seccomp filters a thread has */

/* The first bytes of one line of /proc/thread-self/status. */
struct line {
	char text[32];
	size_t len;
};

/* Return: the number after `name`, if the line begins with `name`; otherwise -1. */
static int number_of(const struct line *line, const char *name)
{
	size_t at = strlen(name);
	int nr = 0;

	if (strncmp(line->text, name, at))
		return -1;
	for (; line->text[at] >= '0' && line->text[at] <= '9'; at++)
		nr = nr * 10 + (line->text[at] - '0');
	return nr;
}

struct filters {
	/* value of the line "Seccomp:"; -1: there is no such line */
	int mode;
	int nr;
};

static void look_at(struct line *line, struct filters *filters)
{
	int mode = number_of(line, "Seccomp:\t");
	int nr = number_of(line, "Seccomp_filters:\t");

	if (mode >= 0)
		filters->mode = mode;
	if (nr >= 0)
		filters->nr = nr;
}

/*
 * Read all lines of /proc/thread-self/status.
 * Return: 0, or the error of a read.
 */
static int read_lines(int fd, struct filters *filters)
{
	struct line line = { .len = 0 };
	char text[1024];
	ssize_t got;

	while ((got = sys_read(fd, text, sizeof(text))) > 0 || got == -EINTR)
		for (ssize_t i = 0; i < got; i++) {
			if (text[i] != '\n') {
				if (line.len < sizeof(line.text) - 1)
					line.text[line.len++] = text[i];
				continue;
			}
			line.text[line.len] = '\0';
			look_at(&line, filters);
			line.len = 0;
		}
	return (int)got;
}

/*
 * sys_openat() must not be used here: it checks uaio_calls, which is not set yet.
 */
static int open_status(void)
{
	long fd;

	do
		fd = uaio_sys6(SYS_openat, AT_FDCWD,
			       (long)"/proc/thread-self/status",
			       O_RDONLY | O_CLOEXEC, 0, 0, 0);
	while (fd == -EINTR);
	return (int)fd;
}

/*
 * Return: the number of filters, like uaio_calls_nr_filters(). *ret_error: the error of
 * the system call that failed, or 0.
 */
static int read_nr_filters(int *ret_error)
{
	struct filters filters = { -1, -1 };
	int fd = open_status();

	*ret_error = fd;
	if (fd < 0)
		return -1;
	*ret_error = read_lines(fd, &filters);
	(void)sys_close(fd);
	/*
	 * Before Linux 5.9 the kernel reports that there are filters, but not how many:
	 * return -1.
	 */
	return filters.mode == 0 ? 0 : filters.mode == 2 ? filters.nr : -1;
}

int uaio_calls_nr_filters(void)
{
	int error;

	return read_nr_filters(&error);
}

/* Writing and reading the value of the environment variable UAIO_CALLS */

static char *put(char *at, uint64_t value, unsigned base)
{
	char digits[24];
	int nr = 0;

	do
		digits[nr++] = "0123456789abcdef"[value % base];
	while (value /= base);
	while (nr)
		*at++ = digits[--nr];
	return at;
}

/* Write the bits of the set in hexadecimal, without leading zeros. */
static char *put_set(char *at, const struct uaio_call_set *set)
{
	enum { DIGITS = 16 };
	char low[DIGITS];
	size_t nr = (size_t)(put(low, set->words[0], 16) - low);

	if (set->words[1])
		at = put(at, set->words[1], 16);
	for (size_t i = nr; set->words[1] && i < DIGITS; i++)
		*at++ = '0';
	memcpy(at, low, nr);
	return at + nr;
}

void uaio_calls_word(int nr_filters, const struct uaio_call_set *some,
		     char ret_word[UAIO_CALLS_WORD_MAX])
{
	char *at = put(ret_word, (uint64_t)nr_filters, 10);

	*at++ = ':';
	at = put(at, UAIO_NR_CALLS, 10);
	*at++ = ':';
	*put_set(at, some) = '\0';
}

bool uaio_calls_word_is_valid(const char *word)
{
	static const char decimal[] = "0123456789";

	if (!*word || !strcmp(word, "all"))
		return true;
	for (int i = 0; i < 2; i++) {
		size_t nr = strspn(word, decimal);

		if (!nr || word[nr] != ':')
			return false;
		word += nr + 1;
	}
	return *word && !word[strspn(word, "0123456789abcdef")];
}

/*
 * Return: the calls that `word`, a value of UAIO_CALLS, allows. If `word` was not
 * written for nr_filters filters, the function returns the set `usual`.
 */
static struct uaio_call_set calls_of(const char *word, int nr_filters)
{
	char begin[UAIO_CALLS_WORD_MAX];
	struct uaio_call_set some = { 0 };
	size_t len;

	if (!word || nr_filters < 0)
		return usual;
	uaio_calls_word(nr_filters, &some, begin);
	len = strlen(begin) - 1;
	if (strncmp(word, begin, len))
		return usual;
	for (word += len; *word; word++) {
		const char *digit = strchr("0123456789abcdef", *word);

		if (!digit)
			return usual;
		some.words[1] = some.words[1] << 4 | some.words[0] >> 60;
		some.words[0] = some.words[0] << 4 |
				(uint64_t)(digit - "0123456789abcdef");
	}
	return some;
}

static struct uaio_call_set try_all(void)
{
	struct uaio_call_set some = { 0 };

	for (unsigned i = 0; i < UAIO_NR_CALLS; i++)
		if (uaio_call_try(i))
			uaio_call_set_add(&some, i);
	return some;
}

static struct uaio_call_set all(void)
{
	struct uaio_call_set set = { 0 };

	for (unsigned i = 0; i < UAIO_NR_CALLS; i++)
		uaio_call_set_add(&set, i);
	return set;
}

static void set_calls(const struct uaio_call_set *some)
{
	/* relaxed: no other data depends on these bits */
	for (unsigned i = 0; i < 2; i++)
		store_relaxed(&uaio_calls.words[i], some->words[i]);
}

/*
 * Find out which calls may be made. No filter forbids the system calls that this
 * function itself makes: the loader has just made the same calls.
 * Return: false if the kernel lacked memory or descriptors; then a later try may
 * succeed.
 */
static bool learn(const char *word, struct uaio_call_set *ret_some)
{
	int error, nr_filters = read_nr_filters(&error);

	if (nr_filters == 0)
		*ret_some = all();
	else if (word && !strcmp(word, "all"))
		*ret_some = try_all();
	else
		*ret_some = calls_of(word, nr_filters);
	return nr_filters >= 0 ||
	       (error != -EMFILE && error != -ENFILE && error != -ENOMEM);
}

static __attribute__((noinline)) void learn_again(const char *word)
{
	uint32_t state = LEARN_LATER;
	struct uaio_call_set some;

	/*
	 * relaxed, this exchange and the next: these exchanges only ensure that one
	 * thread at a time reads the number of filters
	 */
	if (!cas_relaxed(&learning, &state, (uint32_t)LEARN_NOW))
		return;
	if (!learn(word, &some)) {
		state = LEARN_NOW;
		(void)cas_relaxed(&learning, &state, (uint32_t)LEARN_LATER);
		return;
	}
	/*
	 * relaxed: the bits publish no data. Do not add the calls of the set `usual`:
	 * the library allowed or forbade them when it was loaded, and the program's
	 * filter may have forbidden them since.
	 */
	for (unsigned i = 0; i < 2; i++)
		or_relaxed(&uaio_calls.words[i],
			   some.words[i] & ~usual.words[i]);
	state = LEARN_NOW;
	/*
	 * [MB:calls] release: add the bits before this exchange. Pairs with
	 * uaio_calls_filter(). Both functions exchange `learning`. If this thread does so
	 * first, uaio_calls_filter() sees the added bits and removes what its filter
	 * forbids. Otherwise this exchange fails, and this thread removes the added bits.
	 */
	if (cas_release(&learning, &state, (uint32_t)LEARN_NOTHING))
		return;
	for (unsigned i = 0; i < 2; i++)
		and_relaxed(&uaio_calls.words[i], usual.words[i]);
}

void uaio_calls_load(const char *word)
{
	struct uaio_call_set some;

	/*
	 * relaxed: a thread that loads an old value reads the number of filters at its
	 * next call of this function
	 */
	if (load_relaxed(&learning) == LEARN_LATER)
		learn_again(word);
	if (is_loaded)
		return;
	is_loaded = true;
	if (!learn(word, &some))
		/* relaxed: no other thread has called the library before */
		store_relaxed(&learning, (uint32_t)LEARN_LATER);
	set_calls(&some);
}

void uaio_calls_filter(const void *program)
{
	/*
	 * [MB:calls] acquire: pairs with learn_again(). So the loop below also removes
	 * bits that another thread added before this exchange.
	 */
	(void)xchg_acquire(&learning, (uint32_t)LEARN_NOTHING);
	for (unsigned i = 0; i < UAIO_NR_CALLS; i++)
		if (!program ||
		    !uaio_filter_allows(program, calls[i].nr, calls[i].args))
			uaio_call_forbid(i);
}
