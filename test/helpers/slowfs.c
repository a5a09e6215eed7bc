/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "slowfs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fuse.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	NR_FILES = 16,
	FILE_BYTES = 8 << 20,
	WRITE_BYTES = 1 << 17,
	REQUEST_BYTES = WRITE_BYTES + (1 << 14),
	ROOT = FUSE_ROOT_ID,
	DEADLINE_S = 60,
};

/* Shared by the server and its clients. */
struct slowfs {
	/* immutable after the start */
	pid_t server;
	int poke; /* an eventfd: look at is_holding again */
	char folder[PATH_MAX];

	/* atomic, futex words */
	uint32_t is_holding[SLOWFS_NR_OPS];
	uint32_t nr_held[SLOWFS_NR_OPS];
	uint32_t nr_done[SLOWFS_NR_OPS];
};

/*
 * The server
 */

struct held {
	struct held *next;
	enum slowfs_op op;
	struct fuse_in_header *request; /* owns */
};

static struct {
	struct slowfs *fs;
	int fd; /* /dev/fuse */
	struct file {
		char name[64]; /* empty: no such file */
		char *data;    /* owns */
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

	/* ENOENT: nobody waits for it any more. */
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
		.flags = FUSE_BIG_WRITES | FUSE_PARALLEL_DIROPS,
		.max_background = UINT16_MAX,
		.max_write = WRITE_BYTES,
	};

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
	} out = { .open = { .open_flags = FOPEN_DIRECT_IO } };

	assert(file);
	snprintf(file->name, sizeof(file->name), "%s", (const char *)(in + 1));
	file->data = calloc(1, FILE_BYTES);
	assert(file->data);
	out.entry = entry_of(file);
	answer(request, 0, &out, sizeof(out));
}

static void do_open(const struct fuse_in_header *request)
{
	struct fuse_open_out out = { .open_flags = FOPEN_DIRECT_IO };

	answer(request, 0, &out, sizeof(out));
}

static void do_read(const struct fuse_in_header *request)
{
	const struct fuse_read_in *in = (const void *)(request + 1);
	const struct file *file = file_of(request->nodeid);
	uint64_t end = in->offset + in->size;

	if (end > file->size)
		end = file->size;
	if (in->offset >= end)
		answer(request, 0, NULL, 0);
	else
		answer(request, 0, file->data + in->offset, end - in->offset);
}

static void do_write(const struct fuse_in_header *request)
{
	const struct fuse_write_in *in = (const void *)(request + 1);
	struct file *file = file_of(request->nodeid);
	struct fuse_write_out out = { .size = in->size };
	uint64_t end = in->offset + in->size;

	assert(end <= FILE_BYTES);
	memcpy(file->data + in->offset, in + 1, in->size);
	if (end > file->size)
		file->size = end;
	answer(request, 0, &out, sizeof(out));
}

static void count(uint32_t *word, uint32_t change)
{
	__atomic_fetch_add(word, change, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void carry_out(const struct fuse_in_header *request, enum slowfs_op op)
{
	switch (op) {
	case SLOWFS_READ: do_read(request); break;
	case SLOWFS_WRITE: do_write(request); break;
	default: answer(request, 0, NULL, 0);
	}
	count(&server.fs->nr_done[op], 1);
}

static void hold(const struct fuse_in_header *request, enum slowfs_op op)
{
	struct held *held;

	if (!__atomic_load_n(&server.fs->is_holding[op], __ATOMIC_SEQ_CST)) {
		carry_out(request, op);
		return;
	}
	held = malloc(sizeof(*held));
	assert(held);
	held->request = malloc(request->len);
	assert(held->request);
	memcpy(held->request, request, request->len);
	held->op = op;
	held->next = NULL;
	*server.end = held;
	server.end = &held->next;
	count(&server.fs->nr_held[op], 1);
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

/* Somebody who waits was killed. */
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

static void let_go(void)
{
	struct held **link = &server.first;
	uint64_t unused;

	if (read(server.fs->poke, &unused, sizeof(unused)) < 0)
		return;
	while (*link) {
		struct held *held = *link;

		if (__atomic_load_n(&server.fs->is_holding[held->op],
				    __ATOMIC_SEQ_CST)) {
			link = &held->next;
			continue;
		}
		(void)take_out(link);
		carry_out(held->request, held->op);
		free_held(held);
	}
}

static void dispatch(const struct fuse_in_header *request)
{
	switch (request->opcode) {
	case FUSE_INIT: do_init(request); break;
	case FUSE_LOOKUP: do_lookup(request); break;
	case FUSE_GETATTR: do_getattr(request); break;
	case FUSE_SETATTR: do_setattr(request); break;
	case FUSE_CREATE: do_create(request); break;
	case FUSE_OPEN: do_open(request); break;
	case FUSE_READ: hold(request, SLOWFS_READ); break;
	case FUSE_WRITE: hold(request, SLOWFS_WRITE); break;
	case FUSE_FSYNC: hold(request, SLOWFS_SYNC); break;
	case FUSE_INTERRUPT: do_interrupt(request); break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET: break; /* have no answer */
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_OPENDIR:
	case FUSE_RELEASEDIR: answer(request, 0, NULL, 0); break;
	default: answer(request, -ENOSYS, NULL, 0);
	}
}

static _Noreturn void serve(void)
{
	static union {
		struct fuse_in_header header;
		char bytes[REQUEST_BYTES];
	} request;
	struct pollfd slots[] = { { .fd = server.fd, .events = POLLIN },
				  { .fd = server.fs->poke, .events = POLLIN } };

	server.end = &server.first;
	for (;;) {
		ssize_t got;

		if (poll(slots, 2, -1) < 0)
			continue;
		if (slots[1].revents)
			let_go();
		if (!slots[0].revents)
			continue;
		got = read(server.fd, &request, sizeof(request));
		if (got >= (ssize_t)sizeof(request.header))
			dispatch(&request.header);
		else if (got < 0 && errno == ENODEV)
			_exit(0); /* unmounted */
	}
}

/*
 * Its clients
 */

static int mount_at(const char *folder, int *ret_fd)
{
	char options[128];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other", fd,
		 getuid(), getgid());
	(void)mkdir(folder, 0755);
	if (mount("slowfs", folder, "fuse", MS_NOSUID | MS_NODEV, options)) {
		close(fd);
		return -1;
	}
	*ret_fd = fd;
	return 0;
}

struct slowfs *slowfs_start(const char *folder)
{
	pid_t starter = getpid(), server_pid;
	struct slowfs *fs;

	fs = mmap(NULL, sizeof(*fs), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert(fs != MAP_FAILED);
	snprintf(fs->folder, sizeof(fs->folder), "%s", folder);
	if (mount_at(folder, &server.fd))
		return NULL;
	fs->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert(fs->poke >= 0);
	server.fs = fs;
	server_pid = fork();
	assert(server_pid >= 0);
	if (server_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != starter)
			_exit(1);
		serve();
	}
	fs->server = server_pid;
	close(server.fd);
	return fs;
}

void slowfs_stop(struct slowfs *fs)
{
	kill(fs->server, SIGKILL);
	waitpid(fs->server, NULL, 0);
	(void)umount2(fs->folder, MNT_DETACH);
	close(fs->poke);
	munmap(fs, sizeof(*fs));
}

void slowfs_hold(struct slowfs *fs, enum slowfs_op op)
{
	__atomic_store_n(&fs->is_holding[op], 1, __ATOMIC_SEQ_CST);
}

void slowfs_release(struct slowfs *fs, enum slowfs_op op)
{
	uint64_t one = 1;

	__atomic_store_n(&fs->is_holding[op], 0, __ATOMIC_SEQ_CST);
	assert(write(fs->poke, &one, sizeof(one)) == sizeof(one));
}

void slowfs_await(struct slowfs *fs, enum slowfs_op op, unsigned nr)
{
	const struct timespec patience = { .tv_sec = DEADLINE_S };
	uint32_t now;

	while ((now = __atomic_load_n(&fs->nr_held[op], __ATOMIC_SEQ_CST)) <
	       nr) {
		if (syscall(SYS_futex, &fs->nr_held[op], FUTEX_WAIT, now,
			    &patience, NULL, 0) < 0 &&
		    errno == ETIMEDOUT) {
			fprintf(stderr, "slowfs: %u of %u calls are held\n",
				now, nr);
			abort();
		}
	}
}

unsigned slowfs_nr_done(struct slowfs *fs, enum slowfs_op op)
{
	return __atomic_load_n(&fs->nr_done[op], __ATOMIC_SEQ_CST);
}
