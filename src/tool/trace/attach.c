/* SPDX-License-Identifier: MIT */
#include "tool/trace/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "trace/ask.h"

static struct uaio_trace_ask *ask_of(const struct uaio_attached *attached)
{
	return (struct uaio_trace_ask *)(void *)&attached->page->control;
}

static bool has_our_namespace(const struct uaio_page *page)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 &&
	       page->identity.pid_namespace == st.st_ino;
}

/* The ring and its descriptor */

/*
 * Return: the process's file-system group id; -1 if unknown. When the process opens a
 * descriptor in /proc of another process, the kernel compares this id with the ids of
 * that process.
 */
static gid_t gid_of(int pid)
{
	char path[64], line[256];
	unsigned gid = 0;
	bool is_found = false;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && !is_found && fgets(line, sizeof(line), file))
		is_found = sscanf(line, "Gid: %*u %*u %*u %u", &gid) == 1;
	if (file)
		(void)fclose(file);
	return is_found ? (gid_t)gid : (gid_t)-1;
}

/*
 * The traced process opens the ring as /proc/PID/fd/FD, where PID is the process that
 * holds the ring open. The kernel permits this only if both processes have the same
 * user. So this child of the tool, the holder, changes to the user of the traced
 * process, and keeps the ring open until the tool ends.
 */
static void hold(uid_t uid, gid_t gid, pid_t parent, int ready)
{
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ||
	    write(ready, "", 1) != 1)
		_exit(1);
	for (int fd = 0; fd < 3; fd++)
		(void)close(fd);
	(void)close(ready);
	for (;;)
		(void)pause();
}

/* Return: 0, or -errno. */
static int start_holder(struct uaio_attached *attached)
{
	pid_t parent = getpid();
	int ends[2], error = -EPERM;
	char byte;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	attached->holder = fork();
	if (attached->holder == 0) {
		(void)close(ends[0]);
		hold(attached->uid, gid_of(attached->pid), parent, ends[1]);
	}
	if (attached->holder < 0)
		error = -errno;
	(void)close(ends[1]);
	if (attached->holder > 0 && read(ends[0], &byte, 1) == 1)
		error = 0;
	(void)close(ends[0]);
	return error;
}

/* Return: 0, or -errno. */
static int make_ring(struct uaio_attached *attached)
{
	attached->ring_fd = uaio_records_open(&attached->ring);
	if (attached->ring_fd < 0)
		return attached->ring_fd;
	attached->holder = getpid();
	return geteuid() == attached->uid ? 0 : start_holder(attached);
}

/* The page */

static void close_page(struct uaio_attached *attached)
{
	if (attached->page)
		(void)munmap(attached->page, sizeof(*attached->page));
	if (attached->page_fd >= 0)
		(void)close(attached->page_fd);
	attached->page = NULL;
	attached->page_fd = -1;
}

/* Return: 0, or -errno. */
static int open_page(struct uaio_attached *attached,
		     const struct uaio_page *page)
{
	struct stat st;
	void *map;

	attached->page_fd =
		open(page->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (attached->page_fd < 0)
		return -errno;
	if (fstat(attached->page_fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size < UAIO_LIVE_BLOCKS_AT)
		return -ESRCH;
	map = mmap(NULL, sizeof(*attached->page), PROT_READ | PROT_WRITE,
		   MAP_SHARED, attached->page_fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	attached->page = map;
	attached->born_ns = page->identity.born_ns;
	/* The process may have executed another program, which has another page. */
	return attached->page->identity.born_ns == attached->born_ns ? 0
								     : -ESRCH;
}

/*
 * Set a flag for each thread of the process, so that the thread checks whether a tool
 * asks for a trace. If a thread starts later, its process sets the thread's flag, or
 * the next call of this function sets it.
 */
static void tell_threads(const struct uaio_attached *attached)
{
	const uint32_t one = 1;
	struct uaio_live_block block;
	const size_t head = offsetof(struct uaio_live_block, nr_completed);

	for (unsigned i = 0; i < UAIO_LIVE_BLOCKS; i++) {
		off_t at =
			UAIO_LIVE_BLOCKS_AT + (off_t)i * UAIO_LIVE_BLOCK_BYTES;

		if (pread(attached->page_fd, &block, head, at) != (ssize_t)head)
			break;
		if (block.pid && !block.is_traced)
			(void)!pwrite(
				attached->page_fd, &one, sizeof(one),
				at + (off_t)offsetof(struct uaio_live_block,
						     is_traced));
	}
}

/* Asking */

static bool is_dead(uint32_t pid)
{
	return kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/* Return: whether the process has reported by -ESRCH that the slot's tool is gone. */
static bool is_given_up(const struct uaio_trace_asker *asker)
{
	/* [MB:trace-ask] acquire: this thread sees the error. Pairs with look_at(). */
	return load_acquire(&asker->answered) == load_relaxed(&asker->number) &&
	       load_relaxed(&asker->error) == -ESRCH;
}

/*
 * Take a slot of the page, by which a tool asks for a trace.
 * Return: false if another tool uses the slot.
 */
static bool take_place(struct uaio_attached *attached, unsigned place)
{
	struct uaio_trace_asker *asker = &ask_of(attached)->askers[place];
	uint32_t was = load_relaxed(&asker->pid);

	if (was && !is_dead(was) && !is_given_up(asker))
		return false;
	/*
	 * [MB:trace-asker] acquire: this thread sees `number` as the slot's previous
	 * tool wrote it. Pairs with withdraw().
	 */
	return cas_acquire(&asker->pid, &was, (uint32_t)attached->holder);
}

/* Return: 0, or -EBUSY. */
static int ask(struct uaio_attached *attached)
{
	struct uaio_trace_ask *ask = ask_of(attached);
	struct uaio_trace_asker *asker;

	for (attached->place = 0; attached->place < UAIO_TRACE_ASKERS;
	     attached->place++)
		if (take_place(attached, attached->place))
			break;
	if (attached->place == UAIO_TRACE_ASKERS)
		return -EBUSY;
	asker = &ask->askers[attached->place];
	store_relaxed(&asker->fd, (uint32_t)attached->ring_fd);
	attached->number = load_relaxed(&asker->number) + 1;
	attached->number += !attached->number;
	/* [MB:trace-ask] release: write `fd` before `number`. Pairs with look_at(). */
	store_release(&asker->number, attached->number);
	/*
	 * [MB:trace-ask] release: write `number` before nr_changes. Pairs with look().
	 */
	add_release(&ask->nr_changes, 1);
	tell_threads(attached);
	attached->state = UAIO_ATTACH_ASKED;
	return 0;
}

static void withdraw(const struct uaio_attached *attached)
{
	struct uaio_trace_ask *ask = ask_of(attached);
	uint32_t mine = (uint32_t)attached->holder;

	/*
	 * [MB:trace-asker] release: the slot's next tool sees `number`. Pairs with
	 * take_place().
	 */
	(void)cas_release(&ask->askers[attached->place].pid, &mine, 0);
	/*
	 * [MB:trace-ask] release: free the slot before nr_changes grows. Pairs with
	 * look().
	 */
	add_release(&ask->nr_changes, 1);
	tell_threads(attached);
}

int uaio_attach(struct uaio_attached *ret, const struct uaio_page *page)
{
	int error;

	*ret = (struct uaio_attached){
		.pid = page->pid,
		.uid = page->identity.uid,
		.pidfd = (int)syscall(SYS_pidfd_open, page->pid, 0),
		.page_fd = -1,
		.ring_fd = -1,
	};
	error = has_our_namespace(page) ? make_ring(ret) : -EXDEV;
	if (!error)
		error = open_page(ret, page);
	if (!error)
		error = ask(ret);
	if (error) {
		close_page(ret);
		uaio_attach_free(ret);
	}
	return error;
}

/* The process's answer */

static bool is_over(const struct uaio_attached *attached)
{
	struct pollfd fd = { .fd = attached->pidfd, .events = POLLIN };

	if (attached->pidfd < 0)
		return is_dead((uint32_t)attached->pid);
	return poll(&fd, 1, 0) > 0;
}

static enum uaio_attach_state answer(struct uaio_attached *attached)
{
	const struct uaio_trace_asker *asker =
		&ask_of(attached)->askers[attached->place];

	/* [MB:trace-ask] acquire: this thread sees the error. Pairs with look_at(). */
	if (load_acquire(&asker->answered) != attached->number)
		return UAIO_ATTACH_ASKED;
	attached->error = load_relaxed(&asker->error);
	return attached->error ? UAIO_ATTACH_REFUSED : UAIO_ATTACH_TRACED;
}

/*
 * Called if the process has executed another program. As soon as this program has a
 * page, ask it for a trace.
 */
static void ask_again(struct uaio_attached *attached)
{
	struct uaio_pages pages;

	if (uaio_pages_read(&pages, true) < 0)
		return;
	for (unsigned i = 0; i < pages.nr; i++) {
		const struct uaio_page *page = &pages.pages[i];

		if (page->pid != attached->pid ||
		    page->identity.born_ns == attached->born_ns ||
		    page->identity.uid != attached->uid)
			continue;
		close_page(attached);
		attached->error = open_page(attached, page);
		if (!attached->error)
			attached->error = ask(attached);
		if (attached->error) {
			close_page(attached);
			attached->state = UAIO_ATTACH_REFUSED;
		}
	}
	uaio_pages_free(&pages);
}

enum uaio_attach_state uaio_attach_look(struct uaio_attached *attached)
{
	bool has_left;

	if (attached->state == UAIO_ATTACH_OVER ||
	    attached->state == UAIO_ATTACH_REFUSED)
		return attached->state;
	/* relaxed: only a hint; is_over() reports the end of the process */
	has_left = load_relaxed(&attached->page->identity.state) ==
		   UAIO_LIVE_LEAVING;
	if (is_over(attached)) {
		attached->state = UAIO_ATTACH_OVER;
	} else if (has_left) {
		attached->state = UAIO_ATTACH_LEFT;
		ask_again(attached);
	} else {
		tell_threads(attached);
		attached->state = answer(attached);
	}
	return attached->state;
}

/* The end of the trace */

void uaio_attach_end(struct uaio_attached *attached)
{
	if (attached->page)
		withdraw(attached);
	close_page(attached);
	attached->state = UAIO_ATTACH_OVER;
}

void uaio_attach_free(struct uaio_attached *attached)
{
	if (attached->holder > 0 && attached->holder != getpid()) {
		(void)kill(attached->holder, SIGKILL);
		(void)waitpid(attached->holder, NULL, 0);
	}
	if (attached->ring)
		(void)munmap(attached->ring, sizeof(*attached->ring));
	if (attached->ring_fd >= 0)
		(void)close(attached->ring_fd);
	if (attached->pidfd >= 0)
		(void)close(attached->pidfd);
	attached->ring = NULL;
	attached->holder = 0;
	attached->ring_fd = attached->pidfd = -1;
}

const char *uaio_attach_why(int error)
{
	switch (error) {
	case -EXDEV: return "it is in a PID namespace of its own";
	case -EBUSY: return "it has as many tracers as it can have";
	case -ENOMEM: return "it has no memory for the ring";
	default: return strerror(-error);
	}
}
