/* SPDX-License-Identifier: MIT */
/*
 * identity CHANGE: changes the credentials, the root or another part of a thread's
 * identity. Then it makes requests whose results depend on the identity, by each
 * interface for asynchronous I/O. Some changes happen between the submission of a
 * request and its completion. The program prints a line for each request: its result and
 * the file that it created. With the kernel and with the library, the output must be the
 * same.
 *
 * identity beside: a thread changes its own identity, makes requests and ends. Then the
 * main thread makes a request, and changes the ids of all threads.
 *
 * Run as root, in an empty directory that everybody may enter.
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/fuse.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../helpers/slowfs.h"

enum { NOBODY = 65534, BYTES = 4096, FILL_BYTES = 256 << 10 };

/* The exit status if the kernel lacks the tested feature */
enum { SKIPPED = 77 };

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	printf("cannot %s: %s\n", what, strerror(errno));
	exit(2);
}

/*
 * The changes of identity
 */

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3,
						   0 };
	struct __user_cap_data_struct none[2] = { { 0 } };

	must(syscall(SYS_capset, &header, none) == 0, "drop capabilities");
}

#ifdef OWN_CALLS
/* Make the system call by an inline instruction, which no library can interpose. */
static void call_own(long nr, long id)
{
#if defined(__x86_64__)
	__asm__ volatile("syscall"
			 : "+a"(nr)
			 : "D"(id)
			 : "rcx", "r11", "memory");
#else
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = id;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8) : "memory");
#endif
}

static void take_fsuid(void)
{
	call_own(SYS_setfsgid, NOBODY);
	call_own(SYS_setfsuid, NOBODY);
}
#else
static void take_fsuid(void)
{
	setfsgid(NOBODY);
	setfsuid(NOBODY);
}
#endif

/* Change the user and group ids of this thread only, by system calls of its own. */
static void take_ids(void)
{
	must(syscall(SYS_setgroups, 0, NULL) == 0, "drop groups");
	must(syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) == 0, "set gids");
	must(syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY) == 0, "set uids");
}

/* Change the user and group ids of all threads: the C library's functions do so. */
static void take_ids_of_all(void)
{
	must(setgroups(0, NULL) == 0, "drop groups");
	must(setresgid(NOBODY, NOBODY, NOBODY) == 0, "set gids");
	must(setresuid(NOBODY, NOBODY, NOBODY) == 0, "set uids");
}

/*
 * Change the effective user and group ids of all threads. The saved ids stay, so the
 * process can take its former ids back.
 */
static void lower_ids_of_all(void)
{
	must(setgroups(0, NULL) == 0, "drop groups");
	must(setegid(NOBODY) == 0, "lower the gid");
	must(seteuid(NOBODY) == 0, "lower the uid");
}

static void raise_ids_of_all(void)
{
	const gid_t groups[] = { 0, 4 };

	must(seteuid(0) == 0, "raise the uid");
	must(setegid(0) == 0, "raise the gid");
	must(setgroups(2, groups) == 0, "take groups");
}

/*
 * Take the file system ids of the user nobody, and group 4 as the only supplementary
 * group. Only that group lets this thread enter the directory "private".
 */
static void take_group(void)
{
	const gid_t groups[] = { 4 };

	must(syscall(SYS_setgroups, 1, groups) == 0, "take a group");
	setfsgid(NOBODY);
	setfsuid(NOBODY);
}

/* Landlock exists since Linux 5.13, so older headers lack its system calls. */
enum { NR_LANDLOCK_CREATE_RULESET = 444, NR_LANDLOCK_RESTRICT_SELF = 446 };
enum {
	MAY_WRITE_FILE = 1 << 1,
	MAY_READ_FILE = 1 << 2,
	MAY_REMOVE_FILE = 1 << 5,
	MAY_MAKE_DIR = 1 << 7,
	MAY_MAKE_REG = 1 << 8,
};

static void enter_landlock(void)
{
	/* struct landlock_ruleset_attr */
	uint64_t handled = MAY_MAKE_DIR | MAY_REMOVE_FILE | MAY_READ_FILE |
			   MAY_WRITE_FILE | MAY_MAKE_REG;
	long rules = syscall(NR_LANDLOCK_CREATE_RULESET, &handled,
			     sizeof(handled), 0);

	if (rules < 0) {
		printf("no landlock\n");
		exit(SKIPPED);
	}
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	must(syscall(NR_LANDLOCK_RESTRICT_SELF, rules, 0) == 0, "restrict");
	close((int)rules);
}

static void leave_directory(void)
{
	must(unshare(CLONE_FS) == 0, "unshare");
	must(chdir("other") == 0, "change the directory");
}

static void change_umask(void)
{
	must(unshare(CLONE_FS) == 0, "unshare");
	umask(0077);
}

/*
 * Change the user and group ids, then change them back. Requests must run with the
 * restored ids.
 */
static void come_back(void)
{
	take_fsuid();
	setfsuid(0);
	setfsgid(0);
}

static void change_nothing(void)
{
}

/*
 * A call of seteuid() that changes nothing. From now on the library counts its workers'
 * calls, because the C library may change the user ids of all threads (proc/former.h).
 */
static void change_nothing_of_all(void)
{
	must(seteuid(0) == 0, "keep the uid");
}

static const struct {
	const char *name;
	void (*change)(void);
	/* if not NULL: makes a second change, after the submission */
	void (*late_change)(void);
} changes[] = {
	{ "fsuid", take_fsuid, NULL },
	{ "capabilities", drop_capabilities, NULL },
	{ "ids", take_ids, NULL },
	{ "ids-of-all", take_ids_of_all, NULL },
	{ "group", take_group, NULL },
	{ "landlock", enter_landlock, NULL },
	{ "directory", leave_directory, NULL },
	{ "umask", change_umask, NULL },
	{ "back", come_back, NULL },
	{ "nothing", change_nothing, NULL },
	{ "regain", lower_ids_of_all, raise_ids_of_all },
	{ "lower", change_nothing_of_all, lower_ids_of_all },
	{ "drop", change_nothing, take_ids_of_all },
};

static void (*late_change)(void);

/*
 * Make the second change, if there is one: it belongs between the submission and the
 * completion.
 */
static void change_late(void)
{
	if (late_change)
		late_change();
}

/*
 * The requests, and the ways to submit them
 */

enum op {
	OPEN,
	CREATE,
	MKDIR,
	UNLINK,
	/*
	 * requests by path on a FUSE server, which sees the user and group id of the
	 * submitter
	 */
	SERVED_OPEN,
	SERVED_CREATE,
	SERVED_MKDIR,
	SERVED_UNLINK,
	/* requests on a descriptor */
	WRITE,
	FILL,
	SERVED_READ,
	SERVED_WRITE,
	NR_OPS
};

static const struct {
	const char *name;
	uint32_t served_by; /* opcode that the FUSE server gets; 0: none */
} ops[NR_OPS] = {
	[OPEN] = { "open", 0 },
	[CREATE] = { "create", 0 },
	[MKDIR] = { "mkdir", 0 },
	[UNLINK] = { "unlink", 0 },
	[SERVED_OPEN] = { "served open", FUSE_OPEN },
	[SERVED_CREATE] = { "served create", FUSE_CREATE },
	[SERVED_MKDIR] = { "served mkdir", FUSE_MKDIR },
	[SERVED_UNLINK] = { "served unlink", FUSE_UNLINK },
	[WRITE] = { "write", 0 },
	[FILL] = { "fill", 0 },
	[SERVED_READ] = { "served read", FUSE_READ },
	[SERVED_WRITE] = { "served write", FUSE_WRITE },
};

static int suid_fd; /* a file with the set-user-ID bit */
/* a file on a file system whose free blocks are reserved for privileged processes */
static int full_fd;
static int served_fd;
static char buf[FILL_BYTES] __attribute__((aligned(4096)));

static int fd_of(enum op op)
{
	return op == WRITE ? suid_fd : op == FILL ? full_fd : served_fd;
}

static unsigned bytes_of(enum op op)
{
	return op == FILL ? FILL_BYTES : BYTES;
}

static void prepare(struct io_uring_sqe *sqe, enum op op)
{
	switch (op) {
	case OPEN:
		io_uring_prep_openat(sqe, AT_FDCWD, "private/file", O_RDWR, 0);
		break;
	case CREATE:
		io_uring_prep_openat(sqe, AT_FDCWD, "created", O_RDWR | O_CREAT,
				     0666);
		break;
	case MKDIR: io_uring_prep_mkdirat(sqe, AT_FDCWD, "made", 0777); break;
	case UNLINK:
		io_uring_prep_unlinkat(sqe, AT_FDCWD, "private/file", 0);
		break;
	case SERVED_OPEN:
		io_uring_prep_openat(sqe, AT_FDCWD, "served/file", O_RDWR, 0);
		break;
	case SERVED_CREATE:
		io_uring_prep_openat(sqe, AT_FDCWD, "served/new",
				     O_RDWR | O_CREAT, 0666);
		break;
	case SERVED_MKDIR:
		io_uring_prep_mkdirat(sqe, AT_FDCWD, "served/made", 0777);
		break;
	case SERVED_UNLINK:
		io_uring_prep_unlinkat(sqe, AT_FDCWD, "served/old", 0);
		break;
	case SERVED_READ:
		io_uring_prep_read(sqe, fd_of(op), buf, bytes_of(op), 0);
		break;
	default:
		io_uring_prep_write(sqe, fd_of(op), buf, bytes_of(op), 0);
		break;
	}
	sqe->user_data = 1;
}

static int wait_one(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int res = 0;
	uint64_t data;

	do {
		must(io_uring_wait_cqe(ring, &cqe) == 0, "wait");
		data = cqe->user_data;
		if (data)
			res = cqe->res;
		io_uring_cqe_seen(ring, cqe);
	} while (!data);
	return res;
}

/*
 * What a second thread does for the thread that changes its identity: it writes to a
 * pipe and reaps from a ring.
 */
struct other {
	struct io_uring *ring;
	int pipe;
	int res;
};

static void *write_and_wait(void *arg)
{
	struct other *other = arg;

	must(write(other->pipe, "x", 1) == 1, "write to the pipe");
	other->res = wait_one(other->ring);
	return NULL;
}

static int submit_one(struct io_uring *ring, enum op op, unsigned flags)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	prepare(sqe, op);
	sqe->flags = (uint8_t)(sqe->flags | flags);
	must(io_uring_submit(ring) > 0, "submit");
	change_late();
	return wait_one(ring);
}

static int submit_plain(struct io_uring *ring, enum op op)
{
	return submit_one(ring, op, 0);
}

static int submit_async(struct io_uring *ring, enum op op)
{
	return submit_one(ring, op, IOSQE_ASYNC);
}

static int submit_drain(struct io_uring *ring, enum op op)
{
	io_uring_prep_nop(io_uring_get_sqe(ring));
	return submit_one(ring, op, IOSQE_IO_DRAIN);
}

/*
 * The first request of a chain reads a pipe. The thread be_other() writes to that pipe.
 */
static struct other other;
static pthread_barrier_t meeting;

static void *be_other(void *arg)
{
	(void)arg;
	for (;;) {
		pthread_barrier_wait(&meeting);
		if (!other.ring)
			return NULL;
		write_and_wait(&other);
		pthread_barrier_wait(&meeting);
	}
}

static int submit_chain(struct io_uring *ring, enum op op)
{
	static char byte;
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	int ends[2];

	must(pipe(ends) == 0, "make a pipe");
	io_uring_prep_read(sqe, ends[0], &byte, 1, 0);
	sqe->flags |= IOSQE_IO_LINK;
	sqe->user_data = 0;
	prepare(io_uring_get_sqe(ring), op);
	must(io_uring_submit(ring) == 2, "submit a chain");
	change_late();
	other.ring = ring;
	other.pipe = ends[1];
	pthread_barrier_wait(&meeting);
	pthread_barrier_wait(&meeting);
	close(ends[0]);
	close(ends[1]);
	return other.res;
}

/*
 * A ring with IORING_SETUP_SQPOLL, created before the change of identity: its requests
 * run with the identity at its creation.
 */
static struct io_uring polled;

static int submit_polled(struct io_uring *ring, enum op op)
{
	(void)ring;
	return submit_one(&polled, op, 0);
}

static int submit_aio(struct io_uring *ring, enum op op)
{
	aio_context_t context = 0;
	struct iocb iocb = {
		.aio_lio_opcode =
			op == SERVED_READ ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE,
		.aio_fildes = (uint32_t)fd_of(op),
		.aio_buf = (uintptr_t)buf,
		.aio_nbytes = bytes_of(op),
	};
	struct iocb *list = &iocb;
	struct io_event event;

	(void)ring;
	must(syscall(SYS_io_setup, 8, &context) == 0, "io_setup");
	must(syscall(SYS_io_submit, context, 1l, &list) == 1, "io_submit");
	change_late();
	must(syscall(SYS_io_getevents, context, 1l, 1l, &event, NULL) == 1,
	     "io_getevents");
	must(syscall(SYS_io_destroy, context) == 0, "io_destroy");
	return (int)event.res;
}

static int submit_posix(struct io_uring *ring, enum op op)
{
	struct aiocb cb = {
		.aio_fildes = fd_of(op),
		.aio_buf = buf,
		.aio_nbytes = bytes_of(op),
	};
	const struct aiocb *list[] = { &cb };
	int error;

	(void)ring;
	must((op == SERVED_READ ? aio_read(&cb) : aio_write(&cb)) == 0,
	     "aio_read or aio_write");
	change_late();
	while (aio_error(&cb) == EINPROGRESS)
		must(aio_suspend(list, 1, NULL) == 0, "aio_suspend");
	error = aio_error(&cb);
	return error ? -error : (int)aio_return(&cb);
}

/*
 * Submits through a new thread, which inherits the identity of the thread that changed
 * it.
 */
struct heir {
	struct io_uring *ring;
	enum op op;
	int res;
};

static void *inherit(void *arg)
{
	struct heir *heir = arg;

	heir->res = submit_one(heir->ring, heir->op, IOSQE_ASYNC);
	return NULL;
}

static int submit_heir(struct io_uring *ring, enum op op)
{
	struct heir heir = { .ring = ring, .op = op };
	pthread_t thread;

	must(pthread_create(&thread, NULL, inherit, &heir) == 0,
	     "create a thread");
	pthread_join(thread, NULL);
	return heir.res;
}

static const struct {
	const char *name;
	int (*submit)(struct io_uring *ring, enum op op);
} ways[] = {
	{ "plain", submit_plain },   { "async", submit_async },
	{ "drain", submit_drain },   { "chain", submit_chain },
	{ "polled", submit_polled }, { "heir", submit_heir },
	{ "aio", submit_aio },       { "posix", submit_posix },
};

/*
 * Making one change, then one request
 */

static void make_file(const char *path, mode_t mode)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	must(fd >= 0 && fchmod(fd, mode) == 0, "make a file");
	close(fd);
}

/* Fill the file system, up to the blocks that are reserved for privileged processes. */
static void fill(void)
{
	int fd = open("filler", O_RDWR | O_CREAT, 0600);
	struct statvfs vfs;

	must(fd >= 0 && fstatvfs(fd, &vfs) == 0, "look for free blocks");
	if (vfs.f_bfree == vfs.f_bavail) {
		printf("no reserved blocks\n");
		exit(SKIPPED);
	}
	must(vfs.f_blocks * vfs.f_frsize < 64ul << 20,
	     "fill so large a file system");
	/*
	 * Because of delayed allocation, fewer blocks than reported may be free: try
	 * with fewer and fewer blocks.
	 */
	for (off_t nr = (off_t)vfs.f_bavail; nr > 0; nr--)
		if (posix_fallocate(fd, 0, nr * (off_t)vfs.f_frsize) == 0)
			break;
	close(fd);
}

/* Create the request's files, removing those of earlier requests. */
static void make_place(enum op op)
{
	must(system("rm -rf private other created made suid full filler") == 0,
	     "clean up");
	must(mkdir("private", 0700) == 0 && mkdir("other", 0777) == 0, "mkdir");
	must(chmod(".", 0777) == 0 && chmod("other", 0777) == 0, "chmod");
	/*
	 * Members of group 4 may enter the directory; without privileges, nobody may
	 * write to it.
	 */
	must(chown("private", 1, 4) == 0 && chmod("private", 0750) == 0,
	     "give away");
	make_file("private/file", 0640);
	must(chown("private/file", 1, 4) == 0, "give away");
	make_file("suid", 04755);
	make_file("full", 0600);
	if (op == FILL)
		fill();
	if (ops[op].served_by) {
		(void)unlink("served/new");
		make_file("served/file", 0600);
		make_file("served/old", 0600);
	}
}

static void print_made(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0)
		printf(" %s %o %u %u", path, st.st_mode, st.st_uid, st.st_gid);
}

/*
 * Start the threads that execute requests, before the identity changes. The kernel's
 * io-wq threads belong to the thread that submitted, and keep its old root. So a
 * separate thread runs this function.
 */
static void *warm_up(void *arg)
{
	struct io_uring *ring = arg;
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct statx sx;

	io_uring_prep_statx(sqe, AT_FDCWD, ".", 0, STATX_ALL, &sx);
	sqe->flags |= IOSQE_ASYNC;
	sqe->user_data = 1;
	must(io_uring_submit(ring) == 1 && wait_one(ring) == 0, "statx");
	return NULL;
}

/*
 * In the child process: make the request, and write its result to the pipe `out`.
 */
static void act(unsigned change, unsigned way, enum op op, int out)
{
	struct io_uring ring;
	struct io_uring_params params = { .flags = IORING_SETUP_SQPOLL };
	pthread_t thread;
	int res;

	umask(0022);
	suid_fd = open("suid", O_RDWR | (way & 1 ? O_DSYNC : 0));
	full_fd = open("full", O_RDWR);
	must(suid_fd >= 0 && full_fd >= 0, "open files");
	if (ops[op].served_by) {
		served_fd = open("served/file", O_RDWR);
		must(served_fd >= 0 && write(served_fd, buf, BYTES) == BYTES,
		     "write a file");
	}
	must(io_uring_queue_init(8, &ring, 0) == 0, "make a ring");
	must(io_uring_queue_init_params(8, &polled, &params) == 0,
	     "make a ring that is polled");
	must(pthread_create(&thread, NULL, warm_up, &ring) == 0, "a thread");
	pthread_join(thread, NULL);
	pthread_barrier_init(&meeting, NULL, 2);
	must(pthread_create(&thread, NULL, be_other, NULL) == 0, "a thread");
	changes[change].change();
	late_change = changes[change].late_change;
	res = ways[way].submit(&ring, op);
	if (op == OPEN || op == CREATE || op == SERVED_OPEN ||
	    op == SERVED_CREATE)
		res = res < 0 ? res : 0;
	/*
	 * The number of bytes depends on the free blocks that everybody may use, so
	 * report only whether all bytes were written.
	 */
	if (op == FILL)
		res = res == FILL_BYTES;
	must(write(out, &res, sizeof(res)) == sizeof(res), "tell");
	other.ring = NULL;
	pthread_barrier_wait(&meeting);
	pthread_join(thread, NULL);
	exit(0);
}

static struct slowfs *server; /* NULL: no FUSE server */

/*
 * Print the user and group id that the FUSE server saw in the call, and whether the call
 * came from the child.
 */
static void print_caller(enum op op, pid_t child)
{
	struct slowfs_caller caller = slowfs_caller(server, ops[op].served_by);

	printf(" for %u %u of %s", caller.uid, caller.gid,
	       caller.process == (uint32_t)child ? "its process" : "another");
}

static int run(unsigned change, unsigned way, enum op op)
{
	int ends[2], status, res;
	pid_t child;

	make_place(op);
	fflush(stdout);
	must(pipe(ends) == 0, "make a pipe");
	child = fork();
	must(child >= 0, "fork");
	if (!child)
		act(change, way, op, ends[1]);
	close(ends[1]);
	must(waitpid(child, &status, 0) == child, "wait");
	if (read(ends[0], &res, sizeof(res)) != sizeof(res)) {
		printf("the child has failed: status %x\n", status);
		exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
	}
	close(ends[0]);
	printf("%s %s %s: %d", changes[change].name, ways[way].name,
	       ops[op].name, res);
	print_made("created");
	print_made("other/created");
	print_made("made");
	print_made("other/made");
	print_made("private/file");
	if (op == WRITE)
		print_made("suid");
	if (ops[op].served_by)
		print_caller(op, child);
	printf("\n");
	return 0;
}

/*
 * identity beside
 */

static aio_context_t ctx;

static int sync_by_aio(void)
{
	struct iocb sync = { .aio_lio_opcode = IOCB_CMD_FSYNC,
			     .aio_fildes = (uint32_t)full_fd };
	struct iocb *list = &sync;
	struct io_event event;

	must(syscall(SYS_io_submit, ctx, 1l, &list) == 1, "submit");
	must(syscall(SYS_io_getevents, ctx, 1l, 1l, &event, NULL) == 1, "wait");
	return (int)event.res;
}

/* Wait for a file that becomes ready after the submission. */
static void poll_by_aio(void)
{
	int fd = eventfd(0, 0);
	struct iocb poll = { .aio_lio_opcode = IOCB_CMD_POLL, .aio_buf = 1 };
	struct iocb *list = &poll;
	struct io_event event;

	poll.aio_fildes = (uint32_t)fd;
	must(syscall(SYS_io_submit, ctx, 1l, &list) == 1, "submit a poll");
	must(eventfd_write(fd, 1) == 0, "write");
	must(syscall(SYS_io_getevents, ctx, 1l, 1l, &event, NULL) == 1, "wait");
}

static void be_user(void)
{
	must(syscall(SYS_setresuid, -1l, (long)NOBODY, -1l) == 0, "set uid");
	(void)sync_by_aio();
	must(syscall(SYS_setresuid, -1l, 0l, -1l) == 0, "set uid back");
}

static void be_filtered(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setgroups, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setresgid, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0,
	     "install a filter");
	(void)sync_by_aio();
}

static void park_as_user(void)
{
	must(syscall(SYS_setresuid, -1l, (long)NOBODY, -1l) == 0, "set uid");
	poll_by_aio();
	must(syscall(SYS_setresuid, -1l, 0l, -1l) == 0, "set uid back");
}

static sem_t has_called;

static void set_own_ids(union sigval value)
{
	(void)value;
	setfsuid(NOBODY);
	sem_post(&has_called);
}

static void make_a_file(union sigval value)
{
	(void)value;
	close(open("called", O_CREAT | O_WRONLY, 0644));
	sem_post(&has_called);
}

static void read_and_call(void (*function)(union sigval value))
{
	struct aiocb read_one = {
		.aio_fildes = full_fd,
		.aio_buf = buf,
		.aio_nbytes = BYTES,
		.aio_sigevent = { .sigev_notify = SIGEV_THREAD,
				  .sigev_notify_function = function },
	};

	must(aio_read(&read_one) == 0, "aio_read");
	while (sem_wait(&has_called) != 0)
		;
	while (aio_error(&read_one) == EINPROGRESS)
		(void)sched_yield();
}

static void be_called(void)
{
	struct stat st;

	read_and_call(set_own_ids);
	read_and_call(make_a_file);
	must(stat("called", &st) == 0, "find the file");
	printf(" owner %u", st.st_uid);
}

static void raise_uid_of_all(void)
{
	must(seteuid(0) == 0, "raise the uid");
}

static void *submit_new(void *heir_)
{
	struct heir *heir = heir_;

	heir->res = submit_chain(heir->ring, heir->op);
	return NULL;
}

/*
 * Change back, then lower the user id of all threads. A new thread, which has never
 * changed its own ids, raises the id between a submission and its completion.
 */
static void be_user_and_lower_all(void)
{
	struct io_uring ring;
	struct heir heir = { .ring = &ring, .op = WRITE };
	pthread_t helper, thread;

	suid_fd = full_fd;
	must(io_uring_queue_init(8, &ring, 0) == 0, "make a ring");
	must(pthread_barrier_init(&meeting, NULL, 2) == 0, "a barrier");
	must(pthread_create(&helper, NULL, be_other, NULL) == 0, "a thread");
	setfsuid(NOBODY);
	setfsuid(0);
	must(seteuid(NOBODY) == 0, "lower the uid");
	late_change = raise_uid_of_all;
	must(pthread_create(&thread, NULL, submit_new, &heir) == 0, "a thread");
	pthread_join(thread, NULL);
	other.ring = NULL;
	pthread_barrier_wait(&meeting);
	pthread_join(helper, NULL);
	io_uring_queue_exit(&ring);
	printf(" chain %d", heir.res);
}

static const struct {
	const char *name;
	void (*act)(void);
} besides[] = {
	{ "user", be_user },
	{ "filtered", be_filtered },
	{ "parked", park_as_user },
	{ "called", be_called },
	{ "lowered", be_user_and_lower_all },
};

static void *act_beside(void *act)
{
	(*(void (*const *)(void))act)();
	return NULL;
}

static void run_beside(unsigned i)
{
	const gid_t group = 4;
	pthread_t thread;

	full_fd = open("beside", O_CREAT | O_RDWR, 0644);
	must(full_fd >= 0 && write(full_fd, buf, BYTES) == BYTES, "a file");
	must(syscall(SYS_io_setup, 8, &ctx) == 0, "a context");
	must(sem_init(&has_called, 0, 0) == 0, "a semaphore");
	printf("%s:", besides[i].name);
	must(pthread_create(&thread, NULL, act_beside,
			    (void *)&besides[i].act) == 0,
	     "a thread");
	pthread_join(thread, NULL);
	printf(" sync %d", sync_by_aio());
	printf(" setgroups %d", setgroups(1, &group));
	printf(" setegid %d\n", setegid(NOBODY));
	fflush(stdout);
}

static int compare_beside(void)
{
	int status;

	for (unsigned i = 0; i < sizeof(besides) / sizeof(*besides); i++) {
		pid_t child;

		(void)unlink("called");
		fflush(stdout);
		child = fork();
		must(child >= 0, "fork");
		if (!child) {
			run_beside(i);
			exit(0);
		}
		must(waitpid(child, &status, 0) == child, "wait");
		if (status)
			printf("%s: status %x\n", besides[i].name, status);
	}
	return 0;
}

int main(int argc, char **argv)
{
	enum { NR_CHANGES = sizeof(changes) / sizeof(*changes) };
	unsigned change = 0;

	if (argc > 1 && strcmp(argv[1], "beside") == 0)
		return compare_beside();
	while (change < NR_CHANGES &&
	       (argc < 2 || strcmp(argv[1], changes[change].name) != 0))
		change++;
	if (change == NR_CHANGES) {
		fprintf(stderr, "usage: identity CHANGE\n");
		return 2;
	}
	server = slowfs_start("served");
	if (server)
		slowfs_note_callers(server);
	for (unsigned way = 0; way < sizeof(ways) / sizeof(*ways); way++)
		for (unsigned op = 0; op < NR_OPS; op++)
			if (((ways[way].submit != submit_aio &&
			      ways[way].submit != submit_posix) ||
			     op >= WRITE) &&
			    (server || !ops[op].served_by))
				run(change, way, (enum op)op);
	return 0;
}
