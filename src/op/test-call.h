/* SPDX-License-Identifier: MIT */
/* What tests of calls have in common: a folder of their own, and its requests. */
#ifndef UAIO_OP_TEST_CALL_H
#define UAIO_OP_TEST_CALL_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "op/args.h"
#include "op/op.h"
#include "unit.h"

static char folder[] = "./uaio-call-XXXXXX"; /* on a disk, with attributes */
static int dir;

static inline int make_folder(void **state)
{
	assert_non_null(mkdtemp(folder));
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	return unit_engine(state);
}

static inline int remove_folder(void **state)
{
	(void)state;
	close(dir);
	return rmdir(folder);
}

/* A file in the folder, with a name, as long as it is open. */
static inline int named_file(const char *name)
{
	int fd = openat(dir, name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

/* How a request is to be executed. */
enum way { AS_IT_LIKES, BY_WORKER, NR_WAYS };

/*
 * Return: the result of sqe, or the error with which it is refused. The client
 * does not look at its arguments after it has submitted them.
 */
static inline int64_t make(struct uaio_sqe sqe, struct uaio_args args,
			   enum way way)
{
	uint64_t handle = unit_context(1);
	int64_t ret;

	sqe.is_async = way == BY_WORKER;
	if (uaio_optab[sqe.op].copies == UAIO_COPIES_ARGS)
		sqe.args = &args;
	ret = unit_submit_sqe(handle, &sqe);
	memset(&args, 0xff, sizeof(args));
	if (ret == 0)
		ret = unit_reap_one(handle);
	unit_destroy(handle);
	return ret;
}

#define NO_ARGS ((struct uaio_args){ .fd = 0 })

/* A request of an operation with one path. */
static inline struct uaio_sqe on_path(enum uaio_op op, const char *path,
				      uint32_t flags)
{
	return (struct uaio_sqe){
		.op = (uint8_t)op,
		.fd = dir,
		.call_flags = flags,
		.path = path,
		.len = strlen(path) + 1,
	};
}

#endif /* UAIO_OP_TEST_CALL_H */
