/* SPDX-License-Identifier: MIT */
/* Shared by tests of system calls as requests: a directory, and requests on files in it */
#ifndef UAIO_OP_TEST_CALL_H
#define UAIO_OP_TEST_CALL_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "op/args.h"
#include "op/op.h"
#include "unit.h"

/* The directory is on a disk, because files there have extended attributes. */
static char directory[] = "./uaio-call-XXXXXX";
static int dir;

static inline int make_directory(void **state)
{
	assert_non_null(mkdtemp(directory));
	dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	return unit_engine(state);
}

static inline int remove_directory(void **state)
{
	(void)state;
	close(dir);
	return rmdir(directory);
}

/*
 * Create a file with this name in the directory.
 * Return: its descriptor.
 */
static inline int named_file(const char *name)
{
	int fd = openat(dir, name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

/*
 * Which thread executes a request. AS_IT_LIKES: the library decides. BY_WORKER: a
 * worker.
 */
enum way { AS_IT_LIKES, BY_WORKER, NR_WAYS };

/*
 * Submit sqe, and overwrite its arguments afterwards, as a client may.
 * Return: the request's result, or the error with which it is refused.
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

/* Return: a request of an operation with one path. */
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
