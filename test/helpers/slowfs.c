/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "slowfs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "slowfs-private.h"

/* lacking in the headers of Linux 5.10 */
#ifndef FOPEN_NOFLUSH
#define FOPEN_NOFLUSH (1 << 5)
#endif
#ifndef FOPEN_PARALLEL_DIRECT_WRITES
#define FOPEN_PARALLEL_DIRECT_WRITES (1 << 6)
#endif

enum {
	DEADLINE_S = 60,
	MINOR_OF_NOFLUSH = 35, /* Linux 5.16 */
};

/*
 * Files without a page cache. close() then has nothing to flush, so it does not wait
 * for writes.
 */
#define UNCACHED \
	(FOPEN_DIRECT_IO | FOPEN_NOFLUSH | FOPEN_PARALLEL_DIRECT_WRITES)

static int mount_at(const char *folder, uint32_t read_bytes, int *ret_fd)
{
	char options[160];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other,"
		 "max_read=%u",
		 fd, getuid(), getgid(), read_bytes);
	(void)mkdir(folder, 0755);
	if (mount("slowfs", folder, "fuse", MS_NOSUID | MS_NODEV, options)) {
		close(fd);
		return -1;
	}
	*ret_fd = fd;
	return 0;
}

static struct slowfs *start(const char *folder, uint32_t read_bytes,
			    uint32_t open_flags, uint32_t init_flags,
			    uint16_t background_max)
{
	pid_t starter = getpid(), server_pid;
	struct slowfs *fs;
	int fd;

	fs = mmap(NULL, sizeof(*fs), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert(fs != MAP_FAILED);
	snprintf(fs->folder, sizeof(fs->folder), "%s", folder);
	if (mount_at(folder, read_bytes, &fd))
		return NULL;
	fs->open_flags = open_flags;
	fs->init_flags = init_flags;
	fs->background_max = background_max;
	for (int op = 0; op < SLOWFS_NR_OPS; op++)
		fs->let_go[op] = NOWHERE;
	fs->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert(fs->poke >= 0);
	server_pid = fork();
	assert(server_pid >= 0);
	if (server_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != starter)
			_exit(1);
		slowfs_serve(fs, fd);
	}
	fs->server = server_pid;
	close(fd);
	return fs;
}

struct slowfs *slowfs_start(const char *folder)
{
	return slowfs_start_in_pieces(folder, SLOWFS_CALL_BYTES);
}

struct slowfs *slowfs_start_in_pieces(const char *folder, uint32_t read_bytes)
{
	return start(folder, read_bytes, UNCACHED, 0, UINT16_MAX);
}

struct slowfs *slowfs_start_async(const char *folder)
{
	return start(folder, SLOWFS_CALL_BYTES, UNCACHED, FUSE_ASYNC_DIO,
		     UINT16_MAX);
}

struct slowfs *slowfs_start_locking(const char *folder, uint16_t background_max)
{
	return start(folder, SLOWFS_CALL_BYTES, 0, FUSE_ASYNC_DIO,
		     background_max);
}

struct slowfs *slowfs_start_cached(const char *folder)
{
	return start(folder, SLOWFS_CALL_BYTES, FOPEN_KEEP_CACHE, 0,
		     UINT16_MAX);
}

void slowfs_stop(struct slowfs *fs)
{
	kill(fs->server, SIGKILL);
	waitpid(fs->server, NULL, 0);
	(void)umount2(fs->folder, MNT_DETACH);
	close(fs->poke);
	munmap(fs, sizeof(*fs));
}

bool slowfs_closes_at_once(const struct slowfs *fs)
{
	/*
	 * The call of access() returns only after FUSE_INIT, by which the server learns
	 * the kernel's FUSE version.
	 */
	(void)access(fs->folder, R_OK);
	return __atomic_load_n(&fs->minor, __ATOMIC_SEQ_CST) >=
	       MINOR_OF_NOFLUSH;
}

void slowfs_hold(struct slowfs *fs, enum slowfs_op op)
{
	__atomic_store_n(&fs->is_holding[op], 1, __ATOMIC_SEQ_CST);
}

static void poke(struct slowfs *fs)
{
	uint64_t one = 1;

	assert(write(fs->poke, &one, sizeof(one)) == sizeof(one));
}

void slowfs_release(struct slowfs *fs, enum slowfs_op op)
{
	__atomic_store_n(&fs->is_holding[op], 0, __ATOMIC_SEQ_CST);
	poke(fs);
}

/*
 * Sleep on the futex word while it has the value `is`. If a minute passes, end the
 * process.
 */
static void sleep_while(uint32_t *word, uint32_t is)
{
	const struct timespec patience = { .tv_sec = DEADLINE_S };

	if (syscall(SYS_futex, word, FUTEX_WAIT, is, &patience, NULL, 0) < 0 &&
	    errno == ETIMEDOUT) {
		fprintf(stderr, "slowfs: it stays at %u\n", is);
		abort();
	}
}

void slowfs_release_at(struct slowfs *fs, enum slowfs_op op, uint64_t off)
{
	uint32_t nr = __atomic_load_n(&fs->nr_let_go[op], __ATOMIC_SEQ_CST);

	__atomic_store_n(&fs->let_go[op], off, __ATOMIC_SEQ_CST);
	poke(fs);
	while (__atomic_load_n(&fs->nr_let_go[op], __ATOMIC_SEQ_CST) == nr)
		sleep_while(&fs->nr_let_go[op], nr);
}

void slowfs_delay(struct slowfs *fs, enum slowfs_op op, unsigned us)
{
	__atomic_store_n(&fs->delay_us[op], us, __ATOMIC_SEQ_CST);
}

void slowfs_await(struct slowfs *fs, enum slowfs_op op, unsigned nr)
{
	uint32_t now;

	while ((now = __atomic_load_n(&fs->nr_held[op], __ATOMIC_SEQ_CST)) < nr)
		sleep_while(&fs->nr_held[op], now);
}

unsigned slowfs_nr_done(struct slowfs *fs, enum slowfs_op op)
{
	return __atomic_load_n(&fs->nr_done[op], __ATOMIC_SEQ_CST);
}

unsigned slowfs_most_held(struct slowfs *fs, enum slowfs_op op)
{
	return __atomic_exchange_n(&fs->most_held[op], 0, __ATOMIC_SEQ_CST);
}

static void add_fault(struct slowfs *fs, const struct fault *fault)
{
	struct fault *slot = fs->faults;

	for (; __atomic_load_n(&slot->is_there, __ATOMIC_SEQ_CST); slot++)
		assert(slot < fs->faults + FAULTS_MAX - 1);
	*slot = *fault;
	__atomic_store_n(&slot->is_there, 1, __ATOMIC_SEQ_CST);
}

void slowfs_fault_at(struct slowfs *fs, enum slowfs_op op, uint64_t off,
		     struct slowfs_fault fault)
{
	add_fault(fs, &(struct fault){ .op = op, .off = off, .what = fault });
}

void slowfs_fault_nth(struct slowfs *fs, enum slowfs_op op, unsigned n,
		      struct slowfs_fault fault)
{
	add_fault(fs, &(struct fault){ .op = op,
				       .off = NOWHERE,
				       .nr_left = n,
				       .what = fault });
}

void slowfs_mend(struct slowfs *fs)
{
	for (unsigned i = 0; i < FAULTS_MAX; i++)
		__atomic_store_n(&fs->faults[i].is_there, 0, __ATOMIC_SEQ_CST);
}

void slowfs_note_callers(struct slowfs *fs)
{
	__atomic_store_n(&fs->notes_callers, 1, __ATOMIC_SEQ_CST);
}

struct slowfs_caller slowfs_caller(const struct slowfs *fs, uint32_t opcode)
{
	return fs->callers[opcode];
}
