/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/fuse.h>
#include <linux/futex.h>
#include <malloc.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "slowfs-private.h"
#include "clock.h"

enum {
	NR_FILES = 16,
	FILE_BYTES = 64 << 20,
	CALL_BYTES = SLOWFS_CALL_BYTES, /* largest read or write, in bytes */
	CALL_PAGES = CALL_BYTES / 4096,
	REQUEST_BYTES = CALL_BYTES + (1 << 14),
	ROOT = FUSE_ROOT_ID,
};

struct held {
	struct held *next;
	enum slowfs_op op;
	struct slowfs_fault fault;
	int64_t due_ns;
	struct fuse_in_header *request; /* owns */
};

static struct {
	struct slowfs *fs;
	int fd; /* /dev/fuse */
	struct file {
		char name[64]; /* empty: slot unused */
		char *data;    /* owns: FILE_BYTES, mapped */
		uint64_t size;
	} files[NR_FILES];
	struct held *first, **end;
} server;

static void answer(const struct fuse_in_header *request, int error,
		   const void *data, size_t bytes)
{
	struct fuse_out_header out = {
		.len = (uint32_t)(sizeof(out) + bytes),
		.error = error,
		.unique = request->unique,
	};
	struct iovec iov[] = { { &out, sizeof(out) }, { (void *)data, bytes } };

	/* ENOENT: the caller no longer waits for the answer. */
	if (writev(server.fd, iov, 2) < 0)
		assert(errno == ENOENT);
}

static struct file *file_of(uint64_t node)
{
	return &server.files[node - ROOT - 1];
}

static uint64_t node_of(const struct file *file)
{
	return (uint64_t)(file - server.files) + ROOT + 1;
}

static struct file *find(const char *name)
{
	for (struct file *file = server.files; file < server.files + NR_FILES;
	     file++)
		if (!strcmp(file->name, name))
			return file;
	return NULL;
}

static struct fuse_attr attr_of(uint64_t node)
{
	struct fuse_attr attr = {
		.ino = node,
		.mode = node == ROOT ? S_IFDIR | 0755 : S_IFREG | 0644,
		.nlink = 1,
		.blksize = 4096,
	};

	if (node != ROOT)
		attr.size = file_of(node)->size;
	return attr;
}

static struct fuse_entry_out entry_of(const struct file *file)
{
	return (struct fuse_entry_out){
		.nodeid = node_of(file),
		.attr = attr_of(node_of(file)),
	};
}

static void do_init(const struct fuse_in_header *request)
{
	const struct fuse_init_in *in = (const void *)(request + 1);
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = in->max_readahead,
		.flags = FUSE_BIG_WRITES | FUSE_PARALLEL_DIROPS |
			 FUSE_MAX_PAGES | server.fs->init_flags,
		.max_background = server.fs->background_max,
		.max_write = CALL_BYTES,
		.max_pages = CALL_PAGES,
	};

	__atomic_store_n(&server.fs->minor, in->minor, __ATOMIC_SEQ_CST);
	answer(request, 0, &out, sizeof(out));
}

static void do_getattr(const struct fuse_in_header *request)
{
	struct fuse_attr_out out = { .attr = attr_of(request->nodeid) };

	answer(request, 0, &out, sizeof(out));
}

static void do_setattr(const struct fuse_in_header *request)
{
	const struct fuse_setattr_in *in = (const void *)(request + 1);

	if (in->valid & FATTR_SIZE) {
		assert(in->size <= FILE_BYTES);
		file_of(request->nodeid)->size = in->size;
	}
	do_getattr(request);
}

static void do_lookup(const struct fuse_in_header *request)
{
	struct file *file = find((const char *)(request + 1));
	struct fuse_entry_out out;

	if (!file) {
		answer(request, -ENOENT, NULL, 0);
		return;
	}
	out = entry_of(file);
	answer(request, 0, &out, sizeof(out));
}

static void do_create(const struct fuse_in_header *request)
{
	const struct fuse_create_in *in = (const void *)(request + 1);
	struct file *file = find("");
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out = { .open = { .open_flags = server.fs->open_flags } };

	assert(file);
	snprintf(file->name, sizeof(file->name), "%s", (const char *)(in + 1));
	file->data = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert(file->data != MAP_FAILED);
	out.entry = entry_of(file);
	answer(request, 0, &out, sizeof(out));
}

static void do_unlink(const struct fuse_in_header *request)
{
	struct file *file = find((const char *)(request + 1));

	if (!file) {
		answer(request, -ENOENT, NULL, 0);
		return;
	}
	munmap(file->data, FILE_BYTES);
	*file = (struct file){ .name = "" };
	answer(request, 0, NULL, 0);
}

static void do_open(const struct fuse_in_header *request)
{
	struct fuse_open_out out = { .open_flags = server.fs->open_flags };

	answer(request, 0, &out, sizeof(out));
}

static void do_read(const struct fuse_in_header *request, uint32_t bytes_max)
{
	const struct fuse_read_in *in = (const void *)(request + 1);
	const struct file *file = file_of(request->nodeid);
	uint64_t end =
		in->offset + (in->size < bytes_max ? in->size : bytes_max);

	if (end > file->size)
		end = file->size;
	if (in->offset >= end)
		answer(request, 0, NULL, 0);
	else
		answer(request, 0, file->data + in->offset, end - in->offset);
}

static void do_write(const struct fuse_in_header *request, uint32_t bytes_max)
{
	const struct fuse_write_in *in = (const void *)(request + 1);
	struct file *file = file_of(request->nodeid);
	struct fuse_write_out out = {
		.size = in->size < bytes_max ? in->size : bytes_max,
	};
	uint64_t end = in->offset + out.size;

	assert(end <= FILE_BYTES);
	memcpy(file->data + in->offset, in + 1, out.size);
	if (end > file->size)
		file->size = end;
	answer(request, 0, &out, sizeof(out));
}

/* Delayed calls, and calls that fail */

/* Return: whether the request's range includes the byte at off. */
static bool goes_over(const struct fuse_in_header *request, uint64_t off)
{
	/*
	 * struct fuse_write_in begins with the same members, so this cast is right for
	 * writes, too.
	 */
	const struct fuse_read_in *in = (const void *)(request + 1);

	return (request->opcode == FUSE_READ ||
		request->opcode == FUSE_WRITE) &&
	       in->offset <= off && off < in->offset + in->size;
}

static struct slowfs_fault fault_of(const struct fuse_in_header *request,
				    enum slowfs_op op)
{
	struct slowfs_fault found = { .bytes = UINT32_MAX };

	for (unsigned i = 0; i < FAULTS_MAX; i++) {
		struct fault *fault = &server.fs->faults[i];

		if (!__atomic_load_n(&fault->is_there, __ATOMIC_SEQ_CST) ||
		    fault->op != op)
			continue;
		if (fault->off != NOWHERE) {
			if (goes_over(request, fault->off))
				found = fault->what;
		} else if (--fault->nr_left == 0) {
			found = fault->what;
			__atomic_store_n(&fault->is_there, 0, __ATOMIC_SEQ_CST);
		}
	}
	return found;
}

static void count(uint32_t *word, uint32_t change)
{
	__atomic_fetch_add(word, change, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void carry_out(const struct fuse_in_header *request, enum slowfs_op op,
		      struct slowfs_fault fault)
{
	/* Count before answering, so that the caller finds its call counted. */
	count(&server.fs->nr_done[op], 1);
	if (fault.error)
		answer(request, -fault.error, NULL, 0);
	else if (op == SLOWFS_READ)
		do_read(request, fault.bytes);
	else if (op == SLOWFS_WRITE)
		do_write(request, fault.bytes);
	else if (op == SLOWFS_ATTRIBUTES)
		do_getattr(request);
	else
		answer(request, 0, NULL, 0);
}

static bool is_holding(enum slowfs_op op)
{
	return __atomic_load_n(&server.fs->is_holding[op], __ATOMIC_SEQ_CST);
}

static void note_held(enum slowfs_op op)
{
	struct slowfs *fs = server.fs;
	uint32_t nr;

	count(&fs->nr_held[op], 1);
	nr = __atomic_load_n(&fs->nr_held[op], __ATOMIC_SEQ_CST);
	if (nr > __atomic_load_n(&fs->most_held[op], __ATOMIC_SEQ_CST))
		__atomic_store_n(&fs->most_held[op], nr, __ATOMIC_SEQ_CST);
}

static void hold(const struct fuse_in_header *request, enum slowfs_op op)
{
	struct slowfs_fault fault = fault_of(request, op);
	uint32_t us =
		__atomic_load_n(&server.fs->delay_us[op], __ATOMIC_SEQ_CST);
	struct held *held;

	if (!us && !is_holding(op)) {
		carry_out(request, op, fault);
		return;
	}
	held = malloc(sizeof(*held));
	assert(held);
	held->request = malloc(request->len);
	assert(held->request);
	memcpy(held->request, request, request->len);
	held->op = op;
	held->fault = fault;
	held->due_ns = now_ns() + us * 1000ll;
	held->next = NULL;
	*server.end = held;
	server.end = &held->next;
	note_held(op);
}

static struct held *take_out(struct held **link)
{
	struct held *held = *link;

	*link = held->next;
	if (!*link)
		server.end = link;
	count(&server.fs->nr_held[held->op], (uint32_t)-1);
	return held;
}

static void free_held(struct held *held)
{
	free(held->request);
	free(held);
}

/*
 * FUSE_INTERRUPT: the process that waits for a held call was killed, so answer that
 * call with EINTR.
 */
static void do_interrupt(const struct fuse_in_header *request)
{
	const struct fuse_interrupt_in *in = (const void *)(request + 1);
	struct held **link = &server.first;

	while (*link && (*link)->request->unique != in->unique)
		link = &(*link)->next;
	if (*link) {
		struct held *held = take_out(link);

		answer(held->request, -EINTR, NULL, 0);
		free_held(held);
	}
}

/*
 * For each operation: the offset that the test has released, or NOWHERE. The server
 * answers the held calls whose range includes this offset.
 */
struct places {
	uint64_t off[SLOWFS_NR_OPS];
};

/*
 * Return: whether to answer the held call now: its offset was released, or its delay is
 * over and its operation is no longer held.
 */
static bool is_due(const struct held *held, int64_t now,
		   const struct places *places)
{
	uint64_t off = places->off[held->op];

	if (off != NOWHERE && goes_over(held->request, off))
		return true;
	return held->due_ns <= now && !is_holding(held->op);
}

static void answer_due(const struct places *places)
{
	struct held **link = &server.first;
	int64_t now = now_ns();

	while (*link) {
		struct held *held = *link;

		if (!is_due(held, now, places)) {
			link = &held->next;
			continue;
		}
		(void)take_out(link);
		carry_out(held->request, held->op, held->fault);
		free_held(held);
	}
}

static void let_go(void)
{
	struct slowfs *fs = server.fs;
	struct places places;

	for (int op = 0; op < SLOWFS_NR_OPS; op++)
		places.off[op] =
			__atomic_load_n(&fs->let_go[op], __ATOMIC_SEQ_CST);
	answer_due(&places);
	/*
	 * slowfs_release_at() waits until nr_let_go changes, so tell it that the calls
	 * at its offset were answered.
	 */
	for (int op = 0; op < SLOWFS_NR_OPS; op++)
		if (places.off[op] != NOWHERE) {
			__atomic_store_n(&fs->let_go[op], NOWHERE,
					 __ATOMIC_SEQ_CST);
			count(&fs->nr_let_go[op], 1);
		}
}

/*
 * Return: the time until the first delayed call becomes due; NULL if there is none.
 * Calls of an operation that is held do not count.
 */
static const struct timespec *next_due(struct timespec *ret_rest)
{
	int64_t first = INT64_MAX, rest;

	for (const struct held *held = server.first; held; held = held->next)
		if (held->due_ns < first && !is_holding(held->op))
			first = held->due_ns;
	if (first == INT64_MAX)
		return NULL;
	rest = first - now_ns();
	if (rest < 0)
		rest = 0;
	ret_rest->tv_sec = rest / 1000000000;
	ret_rest->tv_nsec = rest % 1000000000;
	return ret_rest;
}

/*
 * Return: the id of the process to which the thread belongs; 0 if the thread has ended.
 */
static uint32_t process_of(uint32_t tid)
{
	char path[32], line[128];
	unsigned process = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%u/status", tid);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "Tgid: %u", &process) == 1)
			break;
	if (status)
		fclose(status);
	return process;
}

static void note_caller(const struct fuse_in_header *request)
{
	/*
	 * Record the caller only if the test wants it: reading /proc takes longer than
	 * serving the call.
	 */
	if (server.fs->notes_callers && request->opcode < OPCODES_MAX)
		server.fs->callers[request->opcode] = (struct slowfs_caller){
			.uid = request->uid,
			.gid = request->gid,
			.process = process_of(request->pid),
		};
}

static void dispatch(const struct fuse_in_header *request)
{
	note_caller(request);
	switch (request->opcode) {
	case FUSE_INIT: do_init(request); break;
	case FUSE_LOOKUP: do_lookup(request); break;
	case FUSE_GETATTR: hold(request, SLOWFS_ATTRIBUTES); break;
	case FUSE_SETATTR: do_setattr(request); break;
	case FUSE_CREATE: do_create(request); break;
	case FUSE_UNLINK: do_unlink(request); break;
	case FUSE_OPEN: do_open(request); break;
	case FUSE_READ: hold(request, SLOWFS_READ); break;
	case FUSE_WRITE: hold(request, SLOWFS_WRITE); break;
	case FUSE_FSYNC: hold(request, SLOWFS_SYNC); break;
	case FUSE_INTERRUPT: do_interrupt(request); break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET: break; /* the kernel expects no answer */
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_OPENDIR:
	case FUSE_RELEASEDIR: answer(request, 0, NULL, 0); break;
	default: answer(request, -ENOSYS, NULL, 0);
	}
}

_Noreturn void slowfs_serve(struct slowfs *fs, int fd)
{
	static union {
		struct fuse_in_header header;
		char bytes[REQUEST_BYTES];
	} request;
	struct pollfd slots[] = { { .fd = fd, .events = POLLIN },
				  { .fd = fs->poke, .events = POLLIN } };

	server.fs = fs;
	server.fd = fd;
	server.end = &server.first;
	prctl(PR_SET_TIMERSLACK, 1);
	/*
	 * Make malloc keep freed memory: to get it from the kernel again would take
	 * longer than serving a call.
	 */
	mallopt(M_MMAP_THRESHOLD, INT_MAX);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	for (;;) {
		struct timespec rest;
		uint64_t unused;
		ssize_t got;

		if (ppoll(slots, 2, next_due(&rest), NULL) < 0)
			continue;
		if (slots[1].revents)
			(void)!read(fs->poke, &unused, sizeof(unused));
		let_go();
		if (!slots[0].revents)
			continue;
		got = read(fd, &request, sizeof(request));
		if (got >= (ssize_t)sizeof(request.header))
			dispatch(&request.header);
		else if (got < 0 && errno == ENODEV)
			_exit(0); /* the file system was unmounted */
	}
}
