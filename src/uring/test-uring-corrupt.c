/* SPDX-License-Identifier: MIT */
/*
 * Rings that are overwritten at random while they are used
 *
 * A client submits random opcodes, flags, lengths, descriptors and addresses, and
 * overwrites its own ring. Meanwhile another thread overwrites the ring, the
 * submissions, and the vectors, times, structures and paths to which they point.
 * Another ring of the process, the witness ring, must always read the right data. At
 * the end no ring may leak memory or descriptors.
 *
 * To protect the machine, descriptors come from a list, and a hook refuses calls about
 * paths with a '/', and calls that would take much space. Addresses in submissions are
 * unmapped, or in memory that the test gives to its client.
 *
 *   test-uring-corrupt [TIMES]: runs TIMES times as long, with a random seed, which it
 *   prints
 */
#undef NDEBUG
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/slab.h"
#include "base/uaddr.h"
#include "life/life.h"
#include "proc/ownfd.h"
#include "test-uring.h"

enum {
	PAGE = 4096,
	ENTRIES = 16,
	EPOCHS = 24,
	/* rounds in an epoch: each epoch makes a new ring to overwrite */
	ROUNDS = 300,
	PLACES = 8, /* slots of registered files and buffers */
	/*
	 * Small random numbers often occur in submissions as descriptors. So
	 * descriptors below NAMED are /dev/null.
	 */
	NAMED = 2,
	SLACK = 2 * PAGE,
};

static unsigned times = 1;
static uint64_t first_seed = 1;

/* A random number generator; each thread has one. */
struct dice {
	uint64_t state;
};

static uint32_t any(struct dice *dice, uint32_t n)
{
	dice->state = dice->state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(dice->state >> 33) % n;
}

/*
 * The client's memory, to which submissions point. The overwriting thread uses a second
 * mapping of it, so that sanitizers do not report the test's own data races.
 */

enum {
	DATA_BYTES = 16 * PAGE,
	WORDS_BYTES = 2 * PAGE,
	TEXT_BYTES = PAGE,
	ARENA_BYTES = DATA_BYTES + WORDS_BYTES + TEXT_BYTES,
	NR_TEXTS = 16,
	TEXT = TEXT_BYTES / NR_TEXTS,
};

/* Bytes without access after a mapping: no 32-bit length reaches beyond them. */
#define GUARD_BYTES (UINT64_C(1) << 33)

static char *arena, *alias; /* two mappings of the same memory */
static char *no_access;     /* after arena: GUARD_BYTES without access */
static char *read_only;     /* a read-only page */

static uint64_t *word_at(char *memory, uint32_t i)
{
	return (uint64_t *)(void *)(memory + DATA_BYTES) + i;
}

static char *text_at(char *memory, uint32_t i)
{
	return memory + DATA_BYTES + WORDS_BYTES + i * TEXT;
}

static void make_arena(void)
{
	int fd = memfd_create("arena", MFD_CLOEXEC);
	char *space;

	assert_int_equal(ftruncate(fd, ARENA_BYTES), 0);
	space = mmap(NULL, ARENA_BYTES + GUARD_BYTES, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(space, MAP_FAILED);
	arena = mmap(space, ARENA_BYTES, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_FIXED, fd, 0);
	assert_ptr_equal(arena, space);
	no_access = arena + ARENA_BYTES;
	alias = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		     0);
	assert_ptr_not_equal(alias, MAP_FAILED);
	read_only = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(read_only, MAP_FAILED);
	assert_int_equal(close(fd), 0);
}

/* What submissions contain: files, descriptors and random values */

enum {
	/* indices in `files` */
	PIPE = 0,
	EPOLL = 4,
	DIRECTORY,

	NR_FILES = 19,
	FIRST_FD = 200,
	NR_FDS = NR_FILES + 6,
};

/*
 * Open files, and the descriptors (duplicates) that submissions name and may close.
 */
static int files[NR_FILES];
static int fds[NR_FDS];
static unsigned nr_files, nr_fds;
static int pipes[2][2], sockets[2], counter, epoll;
/* stir() uses these, to let requests continue: nonblocking pipes, and an eventfd. */
static int stirs[3][2];
/*
 * `victim` is the client whose ring is overwritten. The overwriting thread uses
 * `aside`, its own mapping of that ring.
 */
static struct uring *victim;
static struct uring aside;
/* A ring to which submissions may send messages. */
static struct uring bystander;
/* atomic: number of pipes made in an epoch, which must be closed */
static uint32_t nr_pipes;

static int any_fd(struct dice *dice)
{
	return fds[any(dice, nr_fds)];
}

/*
 * Return: a number that submissions may use as an address, but never the address of
 * mapped memory.
 */
static uint64_t any_number(struct dice *dice)
{
	static const uint64_t odd[] = {
		0,
		1,
		7,
		512,
		4095,
		4096,
		65535,
		(uint64_t)-1,
		(uint64_t)-2,
		(uint64_t)INT64_MIN,
		INT64_MAX,
		UINT64_C(1) << 62,
		UINT64_C(0xffff888000000000),
		UAIO_USER_END,
	};

	switch (any(dice, 4)) {
	case 0: return odd[any(dice, NR_ELEMENTS(odd))];
	case 1: return any(dice, 16);
	case 2: return any(dice, 16) * UINT64_C(512);
	default: return any(dice, 1 << 16);
	}
}

static uint64_t any_address(struct dice *dice)
{
	switch (any(dice, 16)) {
	case 0: return any_number(dice);
	case 1: return (uintptr_t)no_access - any(dice, 64);
	case 2: return (uintptr_t)no_access + any(dice, PAGE);
	case 3: return (uintptr_t)read_only + any(dice, PAGE);
	case 4: return (uintptr_t)victim->sqes + any(dice, PAGE);
	case 5: return (uintptr_t)victim->rings + any(dice, PAGE);
	case 6:
	case 7:
	case 8:
	case 9: return (uintptr_t)word_at(arena, any(dice, 1000));
	case 10: return (uintptr_t)word_at(arena, 0) + any(dice, PAGE);
	case 11:
	case 12:
	case 13: return (uintptr_t)text_at(arena, any(dice, NR_TEXTS));
	default: return (uintptr_t)arena + any(dice, 128) * 512;
	}
}

static uint32_t any_length(struct dice *dice)
{
	static const uint32_t odd[] = { 0,          1,          2,
					16,         24,         512,
					4096,       0x7fffffff, 0x80000000,
					0xffffffff, 0x7ffff000 };

	return any(dice, 2) ? odd[any(dice, NR_ELEMENTS(odd))] : any(dice, 32);
}

static uint32_t any_bits(struct dice *dice)
{
	uint32_t bits = any(dice, 2) ? 0 : 1u << any(dice, 32);

	return any(dice, 8) ? bits : bits | any(dice, 1 << 16);
}

static uint8_t any_opcode(struct dice *dice)
{
	/* Mostly supported opcodes, sometimes any opcode. */
	uint8_t opcode = (uint8_t)(any(dice, 16) ? any(dice, IORING_OP_PIPE + 1)
						 : any(dice, 256));

	/*
	 * Do not provide buffers: length times count could reach beyond GUARD_BYTES.
	 */
	return opcode == IORING_OP_PROVIDE_BUFFERS ? IORING_OP_NOP : opcode;
}

/* Return: a random word for memory that the library reads as a structure. */
static uint64_t any_word(struct dice *dice)
{
	switch (any(dice, 4)) {
	case 0: return any_address(dice);
	case 1: return any_length(dice);
	default: return any_number(dice);
	}
}

static void overwrite_text(struct dice *dice)
{
	static const char letters[] = { 'a', 'b', 'c', '.', '/', '\0', '\xff' };

	store_relaxed(text_at(alias, any(dice, NR_TEXTS)) + any(dice, 12),
		      letters[any(dice, sizeof(letters))]);
}

/* Overwrite a random part of a submission. */
static void overwrite_sqe(struct dice *dice, struct io_uring_sqe *sqe)
{
	switch (any(dice, 14)) {
	case 0: store_relaxed(&sqe->opcode, any_opcode(dice)); break;
	case 1: store_relaxed(&sqe->flags, (uint8_t)any(dice, 256)); break;
	case 2: store_relaxed(&sqe->ioprio, (uint16_t)any_bits(dice)); break;
	case 3: store_relaxed(&sqe->fd, any_fd(dice)); break;
	case 4: store_relaxed(&sqe->off, any_number(dice)); break;
	case 5: store_relaxed(&sqe->addr2, any_address(dice)); break;
	case 6: store_relaxed(&sqe->addr, any_address(dice)); break;
	case 7: store_relaxed(&sqe->len, any_length(dice)); break;
	case 8: store_relaxed(&sqe->rw_flags, (int)any_bits(dice)); break;
	case 9: store_relaxed(&sqe->user_data, any(dice, 16)); break;
	case 10: store_relaxed(&sqe->buf_index, (uint16_t)any(dice, 4)); break;
	case 11:
		store_relaxed(&sqe->personality, (uint16_t)any(dice, 2));
		break;
	case 12: store_relaxed(&sqe->splice_fd_in, any_fd(dice)); break;
	default: store_relaxed(&sqe->addr3, any_address(dice));
	}
}

/* Overwrite a word of the ring: often one of the first words, otherwise any word. */
static void overwrite_ring(struct dice *dice, const struct uring *client)
{
	static const uint32_t odd[] = { 0,          1,         15, 16,
					17,         31,        32, 0x7fffffff,
					0x80000000, 0xffffffff };
	uint32_t nr = (uint32_t)(client->rings_bytes / sizeof(uint32_t));
	uint32_t value = any(dice, 2) ? odd[any(dice, NR_ELEMENTS(odd))]
				      : any(dice, 1u << 31);

	if (any(dice, 2))
		nr = client->params.cq_off.cqes / sizeof(uint32_t);
	store_relaxed(sq_word(client, 0) + any(dice, nr), value);
}

/* The hook of system calls */

/* Return: a bit for each argument of the call that is a path. */
static unsigned paths_of(long nr)
{
	enum { OPENAT2 = 437 };

	switch (nr) {
	case SYS_openat:
	case OPENAT2:
	case SYS_statx:
	case SYS_unlinkat:
	case SYS_mkdirat: return 1u << 1;
	case SYS_renameat2:
	case SYS_linkat: return 1u << 1 | 1u << 3;
	case SYS_symlinkat: return 1u << 0 | 1u << 2;
	case SYS_getxattr:
	case SYS_setxattr: return 1u << 0;
	default: return 0;
	}
}

enum path { OWN, ALLOWED, REFUSED };

/* Copy a path, because it may be overwritten meanwhile. */
static enum path copy_path(long at, char ret_copy[PATH_MAX])
{
	const char *path = (const char *)(uintptr_t)at;

	for (size_t i = 0; i < PATH_MAX; i++) {
		if ((!i || (uintptr_t)&path[i] % PAGE == 0) &&
		    !uaio_can_read((uintptr_t)&path[i], 1))
			return REFUSED;
		ret_copy[i] = load_relaxed(&path[i]);
		if (ret_copy[i])
			continue;
		if (!strncmp(ret_copy, "/proc/thread-self/", 18) ||
		    !strncmp(ret_copy, "/dev/", 5))
			return OWN;
		return strchr(ret_copy, '/') || !strcmp(ret_copy, "..")
			       ? REFUSED
			       : ALLOWED;
	}
	return REFUSED;
}

/* Make a call with copies of its paths, if the paths are allowed. */
static bool call_with_paths(long nr, const long args[6], unsigned paths,
			    long *ret_res)
{
	char copies[2][PATH_MAX];
	unsigned n = 0;
	long own[6];

	for (unsigned i = 0; i < 6; i++) {
		enum path path;

		own[i] = args[i];
		if (!(paths >> i & 1))
			continue;
		path = copy_path(args[i], copies[n]);
		if (path == OWN)
			return false;
		if (path == REFUSED) {
			*ret_res = -EACCES;
			return true;
		}
		own[i] = (long)copies[n++];
	}
	*ret_res = uaio_sys_raw(nr, own[0], own[1], own[2], own[3], own[4],
				own[5]);
	return true;
}

/* Surround a ring's memory with inaccessible pages. */
static long map_guarded(const long args[6])
{
	size_t bytes = ((size_t)args[1] + PAGE - 1) & ~(size_t)(PAGE - 1);
	char *space = mmap(NULL, bytes + 2 * PAGE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(space, MAP_FAILED);
	return uaio_sys_raw(SYS_mmap, (long)(space + PAGE), args[1], args[2],
			    args[3] | MAP_FIXED, args[4], args[5]);
}

/*
 * Make a mapping inaccessible instead of unmapping it: its addresses must not be reused
 * (see `spaces`).
 */
static long retire(long at, long bytes)
{
	const long flags =
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	return uaio_sys_raw(SYS_mmap, at, bytes, PROT_NONE, flags, -1, 0) == at
		       ? 0
		       : -ENOMEM;
}

static bool is_in_arena(uint64_t addr, uint64_t bytes)
{
	return addr >= (uintptr_t)arena &&
	       bytes <= (uintptr_t)no_access - (uintptr_t)arena &&
	       addr <= (uintptr_t)no_access - bytes;
}

static bool jail(long nr, const long args[6], long *ret_res)
{
	enum { SPACE_MAX = 1 << 20, ADVICE_END = 100, PIPES_MAX = 40 };
	unsigned paths = paths_of(nr);

	if (paths)
		return call_with_paths(nr, args, paths, ret_res);
	switch (nr) {
	case SYS_mmap:
		if (!(args[3] & MAP_SHARED) || args[4] < 0)
			return false;
		*ret_res = map_guarded(args);
		return true;
	case SYS_pipe2:
		*ret_res = -EMFILE;
		return add_relaxed(&nr_pipes, 1) >= PIPES_MAX;
	case SYS_munmap: *ret_res = retire(args[0], args[1]); return true;
	case SYS_fallocate:
		*ret_res = -EFBIG;
		return (uint64_t)args[2] > SPACE_MAX ||
		       (uint64_t)args[3] > SPACE_MAX;
	case SYS_madvise:
		*ret_res = -ENOMEM;
		return args[2] >= ADVICE_END || args[2] < 0 ||
		       !is_in_arena((uint64_t)args[0], (uint64_t)args[1]);
	default: return false;
	}
}

/* The overwriting thread */

static uint32_t is_over; /* atomic */

static long overwrite(void *arg)
{
	struct dice dice = *(const struct dice *)arg;

	while (!load_relaxed(&is_over)) {
		switch (any(&dice, 8)) {
		case 0: overwrite_ring(&dice, &aside); break;
		case 1: overwrite_text(&dice); break;
		case 2:
		case 3:
		case 4:
			store_relaxed(word_at(alias, any(&dice, 1000)),
				      any_word(&dice));
			break;
		default: overwrite_sqe(&dice, &aside.sqes[any(&dice, ENTRIES)]);
		}
		if (any(&dice, 64) == 0)
			sched_yield();
	}
	return 0;
}

/*
 * The witness ring
 */

static uint32_t may_end; /* atomic */
static int numbered, own_file, own_pipe[2];
static struct uring witness;

static void put_witnesses(struct uring *client, uint64_t i, char *to)
{
	/*
	 * Read blocks of a file, bytes that a write has just stored, and a byte of a
	 * pipe.
	 */
	put_rw(client, IORING_OP_READ, numbered, to, SIZE,
	       (int64_t)(i % 4) * SIZE, 1);
	memset(to + SIZE, (int)i, SIZE);
	put_rw(client, IORING_OP_WRITE, own_file, to + SIZE, SIZE, 0, 2)
		->flags = IOSQE_IO_LINK;
	put_rw(client, IORING_OP_READ, own_file, to + 2 * SIZE, SIZE, 0, 3);
	put_rw(client, IORING_OP_READ, own_pipe[0], to + 3 * SIZE, 1, -1, 4);
	put(client, IORING_OP_NOP, -1, 5);
}

static long bear_witness(void *arg)
{
	static const int32_t results[] = { 0, SIZE, SIZE, SIZE, 1, 0 };
	struct uring *client = arg;
	char to[4 * SIZE];

	for (uint64_t i = 0; !load_relaxed(&may_end); i++) {
		char byte = (char)i;
		unsigned seen = 0;

		put_witnesses(client, i, to);
		submit(client, 0);
		assert_int_equal(write(own_pipe[1], &byte, 1), 1);
		for (unsigned j = 1; j <= 5; j++) {
			struct io_uring_cqe cqe = get(client);

			assert_in_range(cqe.user_data, 1, 5);
			assert_false(seen >> cqe.user_data & 1);
			seen |= 1u << cqe.user_data;
			assert_int_equal(cqe.res, results[cqe.user_data]);
			assert_int_equal(cqe.flags, 0);
		}
		assert_none(client);
		for (unsigned j = 0; j < SIZE; j++) {
			assert_int_equal(to[j], i % 4);
			assert_int_equal(to[2 * SIZE + j], byte);
		}
		assert_int_equal(to[3 * SIZE], byte);
		assert_int_equal(load_relaxed(client->sq_flags), 0);
	}
	return 0;
}

/* The client of the overwritten ring */

/* Write a plausible structure to memory of the client. Return: its address. */
static uint64_t a_structure(struct dice *dice, const void *from, size_t bytes)
{
	uint32_t at = 8 * any(dice, 100);
	const uint64_t *words = from;

	for (uint32_t i = 0; i < bytes / sizeof(*words); i++)
		store_relaxed(word_at(alias, at + i), words[i]);
	return (uintptr_t)word_at(arena, at);
}

static uint64_t a_time(struct dice *dice)
{
	static const struct __kernel_timespec times_[] = {
		{ 0, 1000 }, { 0, 50000 }, { 1000, 0 }, { 0, 0 }
	};

	return a_structure(dice, &times_[any(dice, 4)], sizeof(times_[0]));
}

static uint64_t some_vectors(struct dice *dice)
{
	struct iovec iovs[4];

	for (unsigned i = 0; i < 4; i++)
		iovs[i] = (struct iovec){ arena + any(dice, 64) * 512,
					  any(dice, 3) * 256 };
	return a_structure(dice, iovs, sizeof(iovs));
}

/*
 * Write a valid name of a file or an extended attribute to memory that is overwritten.
 * Return: its address.
 */
static uint64_t a_text(struct dice *dice, bool is_attribute)
{
	uint32_t i = any(dice, NR_TEXTS);
	char text[] = "user.a", *to = text_at(alias, i);
	const char *from = text + (is_attribute ? 0 : 5);

	text[5] = (char)('a' + any(dice, 3));
	for (size_t j = 0; j <= strlen(from); j++)
		store_relaxed(&to[j], from[j]);
	return (uintptr_t)text_at(arena, i);
}

/* Fill in the submission correctly, so that the library executes it. */
static void put_rightly(struct dice *dice, struct io_uring_sqe *sqe)
{
	const uint64_t data = (uintptr_t)arena + any(dice, 64) * UINT64_C(512);
	const uint64_t how[3] = { any(dice, 2) ? O_RDWR | O_CREAT : O_RDONLY };
	const uint64_t event[2] = { EPOLLIN };

	switch (sqe->opcode) {
	case IORING_OP_READV:
	case IORING_OP_WRITEV:
		sqe->addr = some_vectors(dice);
		sqe->len = any(dice, 5);
		sqe->off = any(dice, 16) * UINT64_C(512);
		break;
	case IORING_OP_READ_FIXED:
	case IORING_OP_WRITE_FIXED:
		sqe->buf_index = (uint16_t)any(dice, 3);
		/* fallthrough */
	case IORING_OP_READ:
	case IORING_OP_WRITE:
		sqe->addr = data;
		sqe->len = 256 * any(dice, 5);
		sqe->off = any(dice, 8) ? any(dice, 16) * UINT64_C(512)
					: (uint64_t)-1;
		break;
	case IORING_OP_POLL_ADD:
		sqe->poll32_events = POLLIN | any_bits(dice);
		sqe->len = any(dice, 2);
		break;
	case IORING_OP_POLL_REMOVE:
		sqe->addr = any(dice, 16);
		sqe->len = any(dice, 8);
		sqe->off = sqe->len & IORING_POLL_UPDATE_USER_DATA
				   ? any(dice, 16)
				   : 0;
		break;
	case IORING_OP_TIMEOUT:
		sqe->off = any(dice, 3);
		sqe->timeout_flags = 1u << any(dice, 7) & 0x6d;
		/* fallthrough */
	case IORING_OP_LINK_TIMEOUT:
		sqe->addr = a_time(dice);
		sqe->len = 1;
		break;
	case IORING_OP_TIMEOUT_REMOVE:
		sqe->addr = any(dice, 16);
		sqe->addr2 = a_time(dice);
		sqe->timeout_flags = any(dice, 2) ? IORING_TIMEOUT_UPDATE : 0;
		break;
	case IORING_OP_ASYNC_CANCEL:
		sqe->addr = any(dice, 16);
		sqe->cancel_flags = 1u << any(dice, 6);
		sqe->len = any(dice, 2) ? IORING_OP_READ : 0;
		break;
	case IORING_OP_FALLOCATE:
		sqe->addr = 512;
		sqe->off = any(dice, 8) * UINT64_C(512);
		break;
	case IORING_OP_FTRUNCATE: sqe->off = any(dice, 8192); break;
	case IORING_OP_MADVISE:
		sqe->addr = (uintptr_t)arena + any(dice, 16) * PAGE;
		sqe->len = PAGE;
		/* fallthrough */
	case IORING_OP_FADVISE: sqe->fadvise_advice = any(dice, 16); break;
	case IORING_OP_OPENAT:
		sqe->open_flags = (uint32_t)how[0];
		sqe->len = any(dice, 2) ? 0600 : 0;
		/* fallthrough */
	case IORING_OP_UNLINKAT:
	case IORING_OP_MKDIRAT:
		sqe->fd = AT_FDCWD;
		sqe->addr = a_text(dice, false);
		break;
	case IORING_OP_OPENAT2:
		sqe->fd = fds[DIRECTORY];
		sqe->addr = a_text(dice, false);
		sqe->addr2 = a_structure(dice, how, sizeof(how));
		sqe->len = sizeof(how);
		break;
	case IORING_OP_STATX:
		sqe->fd = AT_FDCWD;
		sqe->addr = a_text(dice, false);
		sqe->addr2 = data;
		sqe->len = STATX_BASIC_STATS;
		break;
	case IORING_OP_RENAMEAT:
	case IORING_OP_LINKAT:
		sqe->len = (uint32_t)AT_FDCWD;
		/* fallthrough */
	case IORING_OP_SYMLINKAT:
		sqe->fd = AT_FDCWD;
		sqe->addr = a_text(dice, false);
		sqe->addr2 = a_text(dice, false);
		break;
	case IORING_OP_GETXATTR:
	case IORING_OP_SETXATTR:
		sqe->addr3 = a_text(dice, false);
		/* fallthrough */
	case IORING_OP_FGETXATTR:
	case IORING_OP_FSETXATTR:
		sqe->addr = a_text(dice, true);
		sqe->addr2 = data;
		sqe->len = any(dice, 64);
		break;
	case IORING_OP_SPLICE:
		sqe->off = sqe->splice_off_in = (uint64_t)-1;
		/* fallthrough */
	case IORING_OP_TEE:
		sqe->splice_fd_in = fds[any(dice, 2) ? PIPE : PIPE + 2];
		sqe->fd = fds[any(dice, 2) ? PIPE + 1 : any(dice, 8)];
		sqe->len = any(dice, 64);
		break;
	case IORING_OP_EPOLL_CTL:
		sqe->fd = fds[EPOLL];
		sqe->len = 1 + any(dice, 3);
		sqe->off = (uint32_t)any_fd(dice);
		sqe->addr = a_structure(dice, event, sizeof(event));
		break;
	default: break;
	}
}

static void put_anything(struct dice *dice, struct io_uring_sqe *sqe)
{
	sqe->addr = any_address(dice);
	sqe->len = any_length(dice);
	sqe->off = any(dice, 2) ? any_address(dice) : any_number(dice);
	if (any(dice, 4) == 0)
		sqe->rw_flags = (int)any_bits(dice);
	if (any(dice, 2))
		sqe->addr3 = any_address(dice);
	if (any(dice, 4) == 0)
		sqe->splice_fd_in = any_fd(dice);
}

static void put_one(struct dice *dice, struct uring *client)
{
	struct io_uring_sqe *sqe =
		put(client, any_opcode(dice), any_fd(dice), any(dice, 16));

	if (any(dice, 4))
		put_rightly(dice, sqe);
	else
		put_anything(dice, sqe);
	if (any(dice, 3) == 0)
		sqe->flags = (uint8_t)(1u << any(dice, 7));
	if (sqe->flags & IOSQE_FIXED_FILE)
		sqe->fd = (int)any(dice, NAMED);
	for (unsigned nr = any(dice, 3); nr-- > 1;)
		overwrite_sqe(dice, sqe);
}

/* Consume all completions, and reset the ring's words so that the client can submit. */
static void resume(struct uring *client)
{
	uint32_t *array = sq_word(client, client->params.sq_off.array);

	client->prepared = load_acquire(client->sq_head);
	for (uint32_t i = 0; i < ENTRIES; i++)
		store_relaxed(&array[i], i);
	store_relaxed(client->cq_head, load_acquire(client->cq_tail));
	store_relaxed(client->sq_tail, client->prepared);
}

/*
 * Call io_uring_enter() with random arguments. The timeout of each wait is at most 20
 * us, or an invalid address, with which the call fails.
 */
static void enter_anyhow(struct dice *dice, const struct uring *client)
{
	static const struct __kernel_timespec soon = { .tv_nsec = 20000 };
	static const struct __kernel_timespec past = { .tv_sec = -1 };
	struct uaio_uring_wait_arg arg = {
		.sigmask = any(dice, 4) ? 0 : any_address(dice),
		.sigmask_bytes = any(dice, 4) ? 8 : any_length(dice),
		.min_wait_us = any(dice, 2) ? 0 : 5,
		.timeout = any(dice, 4) ? (uintptr_t)&soon : (uintptr_t)&past,
	};
	uint32_t flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
	const void *at = &arg;

	if (any(dice, 8) == 0)
		flags |= 1u << any(dice, 8);
	if (any(dice, 16) == 0)
		arg.timeout = (uintptr_t)no_access;
	if (any(dice, 16) == 0)
		at = no_access - any(dice, sizeof(arg));
	(void)uaio_uring_enter((uint32_t)client->fd, any(dice, 2 * ENTRIES),
			       any(dice, 8) ? 0 : any(dice, 4), flags, at,
			       any(dice, 32) ? sizeof(arg) : any(dice, 64));
}

/*
 * Arguments of io_uring_register() for files, with descriptors that the test allows.
 */
struct naming {
	int some[PLACES];
	struct io_uring_rsrc_update update;
	struct io_uring_rsrc_update2 update2;
	struct io_uring_rsrc_register all;
};

static void name_files(struct dice *dice, struct naming *naming)
{
	for (unsigned i = 0; i < PLACES; i++)
		naming->some[i] = any_fd(dice);
	naming->update = (struct io_uring_rsrc_update){
		.offset = any(dice, PLACES),
		.data = (uintptr_t)naming->some,
	};
	naming->update2 = (struct io_uring_rsrc_update2){
		.offset = any(dice, PLACES),
		.data = (uintptr_t)naming->some,
		.tags = any(dice, 2) ? 0 : any_address(dice),
		.nr = any(dice, PLACES + 1),
	};
	naming->all = (struct io_uring_rsrc_register){
		.nr = any(dice, PLACES + 1),
		.flags = any(dice, 2),
		.data = (uintptr_t)naming->some,
		.tags = any(dice, 2) ? 0 : any_address(dice),
	};
}

static void register_anything(struct dice *dice, const struct uring *client)
{
	uint64_t at = any_address(dice);
	uint32_t opcode = any(dice, 32), nr = any(dice, PLACES + 1);
	struct naming naming;
	struct {
		uint64_t addr;
		int32_t fd;
		uint32_t flags;
		struct __kernel_timespec timeout;
		uint64_t rest[4];
	} cancel = {
		.addr = any(dice, 16),
		.fd = any_fd(dice),
		.flags = any(dice, 64),
		.timeout = { 0, 1000 * any(dice, 2) },
	};

	name_files(dice, &naming);
	switch (opcode) {
	/*
	 * Take files only from `naming`: random words in memory could name any
	 * descriptor.
	 */
	case IORING_REGISTER_FILES: at = (uintptr_t)naming.some; break;
	case IORING_REGISTER_EVENTFD:
	case IORING_REGISTER_EVENTFD_ASYNC:
		at = (uintptr_t)naming.some;
		nr = 1;
		break;
	case IORING_REGISTER_FILES_UPDATE:
		at = (uintptr_t)&naming.update;
		break;
	case IORING_REGISTER_FILES2:
		at = (uintptr_t)&naming.all;
		nr = sizeof(naming.all);
		break;
	case IORING_REGISTER_FILES_UPDATE2:
		at = (uintptr_t)&naming.update2;
		nr = sizeof(naming.update2);
		break;
	/*
	 * `cancel` has a short timeout, as a wait could take for ever. Set no limits
	 * of workers: with low limits no request could continue.
	 */
	case IORING_REGISTER_SYNC_CANCEL: at = (uintptr_t)&cancel; break;
	case IORING_REGISTER_IOWQ_MAX_WORKERS: return;
	default:
		if (any(dice, 4) == 0)
			nr = any(dice, 2) ? any_length(dice) : any(dice, 200);
	}
	if (any(dice, 8) == 0)
		at = (uintptr_t)no_access;
	(void)uaio_uring_register((uint32_t)client->fd, opcode,
				  (void *)(uintptr_t)at, nr);
}

/*
 * Let requests that wait for pipes or the eventfd continue: one call writes to each of
 * them, the next call reads all from each. Between two calls a waiting splice finds
 * data, or room for data.
 */
static void stir(void)
{
	static const uint64_t one = 1;
	static char block[16 * PAGE];
	static unsigned turn;
	bool is_write = turn++ % 2;

	for (unsigned i = 0; i < NR_ELEMENTS(stirs); i++)
		(void)!(is_write ? write(stirs[i][1], &one, sizeof(one))
				 : read(stirs[i][0], block, sizeof(block)));
	for (unsigned i = 0; i < 2; i++)
		(void)(is_write ? send(sockets[i], &one, 8, MSG_DONTWAIT)
				: recv(sockets[i], block, sizeof(block),
				       MSG_DONTWAIT));
}

static uint64_t nr_rings(void)
{
	struct uaio_counters counters = { 0 };

	uaio_counters_read(&counters);
	return counters.nr_contexts;
}

/*
 * Return: whether fd is open, and is not the library's. The library may be opening
 * descriptors, so quiesce it.
 */
static bool is_ours(int fd)
{
	bool is_ours;

	uaio_ownfds_quiesce();
	is_ours = fcntl(fd, F_GETFD) >= 0 && !uaio_ownfd_has(fd);
	uaio_ownfds_resume();
	return is_ours;
}

/* Close the descriptors that the client's submissions have opened. */
static void close_opened(const bool was_open[FIRST_FD])
{
	store_relaxed(&nr_pipes, 0);
	for (int fd = 0; fd < FIRST_FD; fd++)
		if (!was_open[fd] && is_ours(fd))
			unit_close(fd);
}

/*
 * Reopen descriptors that requests have closed. Requests may open files at such
 * descriptors meanwhile: then dup2() replaces these files, except at descriptors below
 * NAMED.
 */
static void fill(void)
{
	for (unsigned i = 0; i < nr_files; i++) {
		int fd;

		if (fcntl(fds[i], F_GETFD) >= 0)
			continue;
		if (fds[i] >= NAMED) {
			unit_dup2(files[i], fds[i]);
			continue;
		}
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd >= NAMED)
			assert_int_equal(close(fd), 0);
	}
}

/*
 * Reserved addresses, for one ring each: after the ring, GUARD_BYTES bytes stay
 * unmapped. No later ring gets these addresses, because ThreadSanitizer would take both
 * rings for the same memory.
 */
static char *spaces[2];

static char *reserve(void)
{
	char *space = mmap(NULL, 2 * GUARD_BYTES, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(space, MAP_FAILED);
	return space;
}

static void *map_at(char *at, size_t bytes, int fd, int64_t off)
{
	void *map = mmap(at, bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, fd, off);

	assert_ptr_equal(map, at);
	return map;
}

/*
 * Map the ring. put() does not write the array of submission indices; only resume()
 * does. So overwritten indices stay until then.
 */
static void map_in(struct uring *client, char *space)
{
	const struct io_uring_params params = client->params;
	const size_t rings_bytes =
		params.sq_off.array + params.sq_entries * sizeof(uint32_t);
	const size_t sqes_bytes =
		params.sq_entries * sizeof(struct io_uring_sqe);
	void *rings =
		map_at(space, rings_bytes, client->fd, IORING_OFF_SQ_RING);
	void *sqes = map_at(space + GUARD_BYTES, sqes_bytes, client->fd,
			    IORING_OFF_SQES);

	uring_at(client, client->fd, &params, rings, sqes);
	client->rings_bytes = rings_bytes;
	client->sqes_bytes = sqes_bytes;
	client->sq_array = NULL;
}

static void forget(char *space)
{
	const int flags =
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	assert_ptr_equal(mmap(space, 2 * GUARD_BYTES, PROT_NONE, flags, -1, 0),
			 space);
}

/* Make a ring that has registered files and buffers, which submissions can name. */
static void open_victim(struct dice *dice, struct uring *client)
{
	static const uint32_t flags[] = { 0, IORING_SETUP_SUBMIT_ALL,
					  IORING_SETUP_SQPOLL,
					  IORING_SETUP_IOPOLL };
	struct iovec iovs[2] = { { arena, PAGE }, { arena + PAGE, 512 } };
	uint32_t chosen = flags[any(dice, NR_ELEMENTS(flags))];

	/* Most rings have the flags that allow most operations. */
	if (any(dice, 4))
		chosen = IORING_SETUP_SUBMIT_ALL;
	client->params = (struct io_uring_params){ .flags = chosen };
	client->fd = (int)uaio_uring_setup(ENTRIES, &client->params);
	assert_true(client->fd >= 0);
	map_in(client, spaces[0]);
	resume(client);
	assert_int_equal(uaio_uring_register((uint32_t)client->fd,
					     IORING_REGISTER_BUFFERS, iovs, 2),
			 0);
	(void)uaio_uring_register((uint32_t)client->fd, IORING_REGISTER_FILES,
				  fds, 4);
	/*
	 * Register arrays of buffers in memory that is overwritten, and to which
	 * submissions also point.
	 */
	for (uint16_t i = 0; i < 2; i++) {
		const struct io_uring_buf_reg reg = {
			.ring_addr = (uintptr_t)word_at(arena, 0) + i * PAGE,
			.ring_entries = PAGE / sizeof(struct io_uring_buf),
			.bgid = i,
			.flags = i ? IOU_PBUF_RING_INC : 0,
		};

		assert_int_equal(uaio_uring_register((uint32_t)client->fd,
						     IORING_REGISTER_PBUF_RING,
						     (void *)(uintptr_t)&reg,
						     1),
				 0);
	}
	victim = client;
	aside = *client;
	map_in(&aside, spaces[1]);
	fds[nr_fds - 1] = client->fd;
}

static void live_an_epoch(struct dice *dice, struct uring *client)
{
	for (unsigned i = 0; i < unit_rounds(ROUNDS); i++) {
		for (uint32_t nr = 1 + any(dice, 6); nr; nr--)
			put_one(dice, client);
		(void)tell(client);
		if (any(dice, 4) == 0)
			overwrite_ring(dice, client);
		enter_anyhow(dice, client);
		if (any(dice, 8) == 0)
			register_anything(dice, client);
		if (any(dice, 4) == 0)
			stir();
		if (i % 32 == 0)
			fill();
		resume(client);
	}
}

/*
 * Close the ring. It is freed once its requests have completed; stir() lets them
 * continue.
 */
static void end_victim(struct uring *client)
{
	for (uint32_t i = 0; i < UAIO_URING_RINGFDS_MAX; i++) {
		struct io_uring_rsrc_update update = { .offset = i };

		(void)uaio_uring_register((uint32_t)client->fd,
					  IORING_UNREGISTER_RING_FDS, &update,
					  1);
	}
	forget(client->rings);
	forget(aside.rings);
	unit_close(client->fd);
	/* Two rings remain: the witness ring and the bystander. */
	while (nr_rings() > 2) {
		struct io_uring_params params = { 0 };
		int fd;

		stir();
		usleep(200);
		/* Making a ring frees the rings that have ended. */
		fd = (int)uaio_uring_setup(1, &params);
		assert_true(fd >= 0);
		unit_close(fd);
	}
}

static int open_in(const char *name, int flags)
{
	int fd = open(name, O_CREAT | O_CLOEXEC | flags, 0600);

	assert_true(fd >= 0);
	return fd;
}

static void add_file(int fd)
{
	assert_true(nr_files < NR_FILES);
	files[nr_files++] = fd;
}

static void add_fd(int fd)
{
	assert_true(nr_fds < NR_FDS);
	fds[nr_fds++] = fd;
}

/* Open an end of a pipe again, with O_NONBLOCK. */
static int open_again(int end, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", end);
	fd = open(path, flags | O_NONBLOCK | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void open_all(void)
{
	int direct =
		open("data", O_RDWR | O_CREAT | O_CLOEXEC | O_DIRECT, 0600);
	struct epoll_event event = { .events = EPOLLIN };

	epoll = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(pipe2(pipes[0], O_CLOEXEC), 0);
	assert_int_equal(pipe2(pipes[1], O_CLOEXEC | O_NONBLOCK), 0);
	/*
	 * Nonblocking, because a splice that waited for the socket would keep the pipe
	 * locked. Then stir() could not use the pipe.
	 */
	assert_int_equal(socketpair(AF_UNIX,
				    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
				    0, sockets),
			 0);
	counter = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0][0], &event),
			 0);
	for (unsigned i = 0; i < 2; i++) {
		stirs[i][0] = open_again(pipes[i][0], O_RDONLY);
		stirs[i][1] = open_again(pipes[i][1], O_WRONLY);
	}
	stirs[2][0] = stirs[2][1] = counter;
	/* Add the files in the order of the indices PIPE, EPOLL and DIRECTORY. */
	add_file(pipes[0][0]);
	add_file(pipes[0][1]);
	add_file(pipes[1][0]);
	add_file(pipes[1][1]);
	add_file(epoll);
	add_file(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	add_file(unit_file(true));
	add_file(open_in("data", O_RDWR));
	add_file(unit_numbered_file(false, 16));
	add_file(open_in("log", O_WRONLY | O_APPEND));
	add_file(direct >= 0 ? direct : open_in("data", O_RDWR));
	add_file(sockets[0]);
	add_file(sockets[1]);
	add_file(counter);
	add_file(open("/dev/null", O_RDWR | O_CLOEXEC));
	add_file(open("/dev/zero", O_RDWR | O_CLOEXEC));
	add_file(open(".", O_PATH | O_CLOEXEC));
	for (int fd = 0; fd < NAMED; fd++)
		add_file(open("/dev/null", O_RDWR | O_CLOEXEC));
	for (unsigned i = 0; i < nr_files - NAMED; i++)
		add_fd(FIRST_FD + (int)i);
	for (int fd = 0; fd < NAMED; fd++)
		add_fd(fd);
	fill();
	add_fd(AT_FDCWD);
	add_fd(-1);
	add_fd(INT_MIN);
	add_fd(INT_MAX);
	client_open(&bystander, ENTRIES, (struct io_uring_params){ 0 });
	add_fd(bystander.fd);
	add_fd(-1); /* reserved for the overwritten ring */
}

static void note_open(bool ret_was_open[FIRST_FD])
{
	for (int fd = 0; fd < FIRST_FD; fd++)
		ret_was_open[fd] = is_ours(fd);
}

static void close_all(void)
{
	fill();
	client_close(&bystander);
	for (unsigned i = 0; i < nr_files; i++) {
		/* Keep descriptors below NAMED, which are /dev/null. */
		if (fds[i] >= NAMED)
			unit_close(fds[i]);
		unit_close(files[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(close(stirs[i][0]), 0);
		assert_int_equal(close(stirs[i][1]), 0);
	}
	nr_fds = nr_files = 0;
}

static void run_epochs(struct dice *dice, unsigned nr)
{
	bool was_open[FIRST_FD];

	open_all();
	note_open(was_open);
	for (unsigned i = 0; i < nr; i++) {
		struct dice others = { dice->state ^ 0x9e3779b97f4a7c15u };
		struct unit_thread thread;
		struct uring client;

		unit_restart_alarm();
		fill();
		open_victim(dice, &client);
		store_relaxed(&is_over, 0);
		unit_thread_start(&thread, overwrite, &others);
		live_an_epoch(dice, &client);
		store_relaxed(&is_over, 1);
		(void)unit_thread_join(&thread);
		end_victim(&client);
		close_opened(was_open);
	}
	close_all();
}

/* Return: whether at most *arg objects from the library's slabs are in use. */
static bool are_back(void *arg)
{
	return load_relaxed(&uaio_slabs_nr_out) <= *(uint64_t *)arg;
}

static int overwrite_in_jail(void)
{
	/*
	 * At the end a few more slab objects may be in use than after the first epoch,
	 * because the witness ring uses some.
	 */
	enum { FEW = 32 };
	struct dice dice = { first_seed };
	struct unit_footprint before;
	struct unit_thread thread;
	const char *leak;
	uint64_t nr_out;

	(void)signal(SIGPIPE, SIG_IGN);
	/*
	 * Submissions may name small slot numbers as descriptors, so open /dev/null at
	 * descriptors below NAMED.
	 */
	for (int fd = 0; fd < NAMED; fd++)
		assert_int_equal(dup2(open("/dev/null", O_RDWR), fd), fd);
	assert_int_equal(unit_engine(NULL), 0);
	assert_int_equal(unit_setup(NULL), 0);
	make_arena();
	spaces[0] = reserve();
	spaces[1] = reserve();
	unit_hook(jail);
	numbered = unit_numbered_file(true, 4);
	own_file = unit_file(true);
	assert_int_equal(pipe2(own_pipe, O_CLOEXEC), 0);
	client_open(&witness, 8, (struct io_uring_params){ 0 });
	unit_thread_start(&thread, bear_witness, &witness);
	unit_footprint(&before);
	run_epochs(&dice, 1);
	nr_out = load_relaxed(&uaio_slabs_nr_out) + FEW;
	run_epochs(&dice, EPOCHS * times - 1);
	leak = unit_find_leak(&before, UNIT_PATIENCE_MS);
	if (leak)
		print_error("left behind: %s\n", leak);
	assert_null(leak);
	store_relaxed(&may_end, 1);
	(void)unit_thread_join(&thread);
	unit_await(are_back, &nr_out);
	client_close(&witness);
	return 0;
}

static void remove_folder(const char *name)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "rm -rf '%s'", name);
	assert_int_equal(system(command), 0);
}

static int overwrite_in_folder(void)
{
	char name[] = "uring-corrupt-XXXXXX";

	assert_non_null(mkdtemp(name));
	assert_int_equal(chdir(name), 0);
	overwrite_in_jail();
	assert_int_equal(chdir(".."), 0);
	remove_folder(name);
	return 0;
}

static void whatever_a_client_writes_hurts_nobody(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(overwrite_in_folder), 0);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_a_client_writes_hurts_nobody),
	};

	if (argc > 1) {
		times = (unsigned)atoi(argv[1]);
		first_seed = argc > 2 ? strtoull(argv[2], NULL, 0)
				      : (uint64_t)uaio_now_ns();
		print_message("seed %llu\n", (unsigned long long)first_seed);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
