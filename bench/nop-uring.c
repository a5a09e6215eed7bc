/* SPDX-License-Identifier: MIT */
/*
 * The io_uring variant of nop.c. The no-ops have IOSQE_ASYNC, so that threads of io-wq
 * execute them.
 */
#include <dirent.h>
#include <errno.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "nop.h"

static struct io_uring ring;

static void begin(const struct nop_plan *plan)
{
	/*
	 * io-wq counts no-ops as bounded work, because they have no file. Allow as many
	 * bounded workers as the library's variants have.
	 */
	unsigned limits[2] = { plan->nr_fixed + 1, 0 };
	int ret = io_uring_queue_init(NOP_RING_ENTRIES, &ring, 0);

	if (ret < 0)
		nop_fail("io_uring_queue_init", ret);
	ret = io_uring_register_iowq_max_workers(&ring, limits);
	if (ret < 0)
		nop_fail("io_uring_register_iowq_max_workers", ret);
}

static void submit(unsigned depth)
{
	int ret;

	for (unsigned i = 0; i < depth; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

		if (!sqe)
			nop_fail("io_uring_get_sqe", -EAGAIN);
		io_uring_prep_nop(sqe);
		sqe->flags |= IOSQE_ASYNC;
		sqe->user_data = i;
	}
	ret = io_uring_submit(&ring);
	if (ret != (int)depth)
		nop_fail("io_uring_submit", ret < 0 ? ret : -EAGAIN);
}

static void round_of(unsigned depth)
{
	unsigned long long missing = 0;

	submit(depth);
	for (unsigned i = 0; i < depth; i++) {
		struct io_uring_cqe *cqe;
		int ret;

		do
			ret = io_uring_wait_cqe(&ring, &cqe);
		while (ret == -EINTR);
		if (ret < 0 || cqe->res != 0)
			nop_fail("io_uring_wait_cqe", ret < 0 ? ret : cqe->res);
		missing += i - cqe->user_data;
		io_uring_cqe_seen(&ring, cqe);
	}
	if (missing)
		nop_fail("not one event for each request", -EPROTO);
}

/*
 * name: an entry of /proc/self/task.
 * Return: whether this thread belongs to io-wq.
 */
static bool is_iowq(const char *name)
{
	char path[300], comm[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", name);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(comm, sizeof(comm), file))
		comm[0] = '\0';
	fclose(file);
	return !strncmp(comm, "iou-wrk-", strlen("iou-wrk-"));
}

static void print(unsigned depth)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	unsigned nr = 0;

	(void)depth;
	if (!tasks)
		nop_fail("/proc/self/task", -errno);
	while ((task = readdir(tasks)))
		nr += is_iowq(task->d_name);
	closedir(tasks);
	printf(", \"workers\": %u", nr);
}

static void end(void)
{
	io_uring_queue_exit(&ring);
}

const struct nop_side nop_uring = {
	.begin = begin,
	.round = round_of,
	.print = print,
	.end = end,
};
