/* SPDX-License-Identifier: MIT */
/* Registered files: tables, updates, tags, and what keeps a file open */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "uring.h"

static char buf[100];

static long set_files(const struct uring *ring, const int32_t *fds, uint32_t nr)
{
	return uring_register(ring->fd, IORING_REGISTER_FILES, fds, nr);
}

static long unset_files(const struct uring *ring)
{
	return uring_register(ring->fd, IORING_UNREGISTER_FILES, NULL, 0);
}

static long update_files(const struct uring *ring, uint32_t offset,
			 const int32_t *fds, uint32_t nr)
{
	struct io_uring_rsrc_update update = { .offset = offset,
					       .data = (uintptr_t)fds };

	return uring_register(ring->fd, IORING_REGISTER_FILES_UPDATE, &update,
			      nr);
}

static long read_of(const char *key, struct uring *ring, int number)
{
	sqe_rw(ring, IORING_OP_READ, number, buf, 10, 0)->flags =
		IOSQE_FIXED_FILE;
	return try_sqe(key, ring);
}

static void arguments(void)
{
	struct uring ring = new_uring(4, 0);
	int32_t fds[3] = { file_of("f", 100, O_RDWR), -1, 77777 };

	note_result("unset_none", unset_files(&ring));
	note_result("null", set_files(&ring, NULL, 1));
	note_result("nr_0", set_files(&ring, fds, 0));
	note_result("kernel", set_files(&ring, KERNEL_ADDRESS, 1));
	note_result("closed", set_files(&ring, fds, 3));
	fds[2] = -2;
	note_result("-2", set_files(&ring, fds, 3));
	note_result("right", set_files(&ring, fds, 2));
	note_result("twice", set_files(&ring, fds, 2));
	note_result("unset_arg",
		    uring_register(ring.fd, IORING_UNREGISTER_FILES, fds, 0));
	note_result("unset_nr",
		    uring_register(ring.fd, IORING_UNREGISTER_FILES, NULL, 1));
	note_result("unset", unset_files(&ring));
	note_result("unset_again", unset_files(&ring));
}

static void too_many(void)
{
	struct rlimit limit = { 64, 64 };
	int32_t *fds = calloc(70000, sizeof(*fds));
	struct uring ring = new_uring(4, 0);
	int i;

	for (i = 0; i < 70000; i++)
		fds[i] = -1;
	note_result("70000", set_files(&ring, fds, 70000));
	unset_files(&ring);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	note_result("limit", set_files(&ring, fds, 64));
	unset_files(&ring);
	note_result("beyond_limit", set_files(&ring, fds, 65));
}

static void of_rings(void)
{
	struct uring ring = new_uring(4, 0), second = new_uring(4, 0);
	int32_t fds[1] = { ring.fd };

	note_result("itself", set_files(&ring, fds, 1));
	unset_files(&ring);
	fds[0] = second.fd;
	note_result("other", set_files(&ring, fds, 1));
}

static void kept_open(void)
{
	struct uring ring = new_uring(4, 0);
	int32_t fds[1] = { file_of("f", 100, O_RDWR) };
	int pipes[2];

	REQUIRE(set_files(&ring, fds, 1) == 0);
	close(fds[0]);
	read_of("file", &ring, 0);
	note("is_it", is_pattern(buf, 10, 0));
	unset_files(&ring);
	REQUIRE(pipe(pipes) == 0);
	fds[0] = pipes[1];
	REQUIRE(set_files(&ring, fds, 1) == 0);
	close(pipes[1]);
	/*
	 * The table of registered files keeps the pipe's writer open, so the poll ends
	 * only when the table is unregistered.
	 */
	sqe_of(&ring, IORING_OP_POLL_ADD, pipes[0])->poll32_events = POLLIN;
	note_result("submit", uring_submit(&ring));
	note_ready("open", &ring);
	note_result("unset", unset_files(&ring));
	note_cqes("hung_up", &ring, 1);
}

static void number_used_again(void)
{
	struct uring ring = new_uring(4, 0);
	int32_t fds[1] = { file_of("f", 100, O_RDWR) };

	REQUIRE(set_files(&ring, fds, 1) == 0);
	close(fds[0]);
	note("same_number", open("/dev/zero", O_RDONLY) == fds[0]);
	read_of("file", &ring, 0);
	note("is_it", is_pattern(buf, 10, 0));
}

static void updates(void)
{
	struct uring ring = new_uring(4, 0);
	int32_t fds[4] = { -1, -1, -1, -1 };
	int32_t one = file_of("f", 100, O_RDWR), zero;
	int32_t two[2];

	zero = open("/dev/zero", O_RDONLY);
	note_result("no_table", update_files(&ring, 0, &one, 1));
	REQUIRE(set_files(&ring, fds, 4) == 0);
	read_of("empty", &ring, 2);
	note_result("fill", update_files(&ring, 2, &one, 1));
	read_of("filled", &ring, 2);
	note_result("replace", update_files(&ring, 2, &zero, 1));
	read_of("replaced", &ring, 2);
	note("is_zero", buf[5] == 0);
	two[0] = -1;
	two[1] = IORING_REGISTER_FILES_SKIP;
	note_result("remove", update_files(&ring, 2, two, 2));
	read_of("removed", &ring, 2);
	two[0] = one;
	two[1] = 77777;
	note_result("second_closed", update_files(&ring, 0, two, 2));
	read_of("first_is_there", &ring, 0);
	two[0] = 77777;
	note_result("first_closed", update_files(&ring, 0, two, 2));
	two[0] = -3;
	note_result("-3", update_files(&ring, 0, two, 1));
	read_of("first_now", &ring, 0);
}

static void update_arguments(void)
{
	struct uring ring = new_uring(4, 0);
	int32_t fds[4] = { -1, -1, -1, -1 };
	struct io_uring_rsrc_update update = { .data = (uintptr_t)fds };
	const uint32_t opcode = IORING_REGISTER_FILES_UPDATE;

	REQUIRE(set_files(&ring, fds, 4) == 0);
	note_result("nr_0", uring_register(ring.fd, opcode, &update, 0));
	note_result("nr_5", uring_register(ring.fd, opcode, &update, 5));
	note_result("null", uring_register(ring.fd, opcode, NULL, 1));
	update.resv = 1;
	note_result("resv", uring_register(ring.fd, opcode, &update, 1));
	update.resv = 0;
	update.offset = 4;
	note_result("beyond", uring_register(ring.fd, opcode, &update, 1));
	update.offset = -1u;
	note_result("wraps", uring_register(ring.fd, opcode, &update, 2));
	update.offset = 3;
	note_result("over_end", uring_register(ring.fd, opcode, &update, 2));
	update.data = (uintptr_t)KERNEL_ADDRESS;
	note_result("kernel", uring_register(ring.fd, opcode, &update, 1));
}

static void tags(void)
{
	struct uring ring = new_uring(8, 0);
	int32_t fds[2] = { file_of("f", 100, O_RDWR), -1 };
	uint64_t values[2] = { 31, 0 };
	struct io_uring_rsrc_register reg = { .nr = 2,
					      .data = (uintptr_t)fds,
					      .tags = (uintptr_t)values };
	struct io_uring_rsrc_update2 update = { .data = (uintptr_t)fds,
						.tags = (uintptr_t)values,
						.nr = 1 };
	struct io_uring_cqe cqe;

	note_result("size",
		    uring_register(ring.fd, IORING_REGISTER_FILES2, &reg, 8));
	note_result("register", uring_register(ring.fd, IORING_REGISTER_FILES2,
					       &reg, sizeof(reg)));
	values[0] = 32;
	note_result("update",
		    uring_register(ring.fd, IORING_REGISTER_FILES_UPDATE2,
				   &update, sizeof(update)));
	REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
	note("tag", (long)cqe.user_data);
	note_cqe("cqe", &cqe);
	read_of("still", &ring, 0);
	note_result("unset", unset_files(&ring));
	REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
	note("tag", (long)cqe.user_data);
	note_ready("besides", &ring);
	fds[0] = -1;
	note_result("tag_of_none",
		    uring_register(ring.fd, IORING_REGISTER_FILES2, &reg,
				   sizeof(reg)));
}

static void tag_waits(void)
{
	struct uring ring = new_uring(8, 0);
	uint64_t value = 41;
	int fds[2];
	int32_t table[1];
	struct io_uring_rsrc_register reg = { .nr = 1,
					      .data = (uintptr_t)table,
					      .tags = (uintptr_t)&value };
	struct io_uring_cqe cqe;
	int i;

	REQUIRE(pipe(fds) == 0);
	table[0] = fds[0];
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_FILES2, &reg,
			       sizeof(reg)) == 0);
	sqe_rw(&ring, IORING_OP_READ, 0, buf, 10, 0)->flags = IOSQE_FIXED_FILE;
	note_result("submit", uring_submit(&ring));
	note_result("unset", unset_files(&ring));
	note_ready("in_use", &ring);
	REQUIRE(write(fds[1], "abc", 3) == 3);
	for (i = 0; i < 2; i++) {
		REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
		note(cqe.user_data == value ? "tag" : "read", cqe.res);
	}
}

static void sparse(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_rsrc_register reg = {
		.nr = 4, .flags = IORING_RSRC_REGISTER_SPARSE
	};
	int32_t one = file_of("f", 100, O_RDWR);

	note_result("register", uring_register(ring.fd, IORING_REGISTER_FILES2,
					       &reg, sizeof(reg)));
	read_of("empty", &ring, 3);
	note_result("update", update_files(&ring, 3, &one, 1));
	read_of("filled", &ring, 3);
	unset_files(&ring);
	reg.data = 1;
	note_result("with_data", uring_register(ring.fd, IORING_REGISTER_FILES2,
						&reg, sizeof(reg)));
	reg.data = 0;
	reg.nr = 0;
	note_result("nr_0", uring_register(ring.fd, IORING_REGISTER_FILES2,
					   &reg, sizeof(reg)));
}

static void closed_in_chain(void)
{
	struct uring ring = new_uring(8, 0);
	int32_t fds[2] = { file_of("f", 100, O_RDWR), -1 };

	REQUIRE(set_files(&ring, fds, 2) == 0);
	sqe_rw(&ring, IORING_OP_READ, 0, buf, 10, 0)->flags =
		IOSQE_FIXED_FILE | IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_FSYNC, 0)->flags =
		IOSQE_FIXED_FILE | IOSQE_IO_LINK;
	sqe_rw(&ring, IORING_OP_READ, 1, buf, 10, 0)->flags = IOSQE_FIXED_FILE;
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 3);
}

/*
 * Record locks (fcntl), which the kernel drops when the process closes any descriptor
 * of the file
 */

static int locked;

static int is_locked(void)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(locked, F_GETLK, &all) == 0 && all.l_type != F_UNLCK;
}

static void lock(int fd)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	REQUIRE(fcntl(fd, F_SETLK, &all) == 0);
	locked = fd;
}

static void unset_while_locked(void)
{
	struct uring ring = new_uring(4, 0);
	int32_t fds[2] = { file_of("f", 100, O_RDWR), -1 };

	lock(fds[0]);
	note_result("register", set_files(&ring, fds, 2));
	read_of("read", &ring, 0);
	note_result("update", update_files(&ring, 0, &fds[1], 1));
	note("locked_after_update", in_child(is_locked));
	note_result("back", update_files(&ring, 0, &fds[0], 1));
	note_result("unset", unset_files(&ring));
	note("locked_after_unset", in_child(is_locked));
	close(dup(fds[0]));
	note("locked_after_close", in_child(is_locked));
}

static void spliced_while_locked(void)
{
	struct uring ring = new_uring(4, 0);
	int fd = file_of("f", 100, O_RDWR), ends[2], i;
	struct io_uring_sqe *sqe;

	REQUIRE(pipe(ends) == 0);
	lock(fd);
	for (i = 0; i < 3; i++) {
		sqe = sqe_of(&ring, IORING_OP_SPLICE, ends[1]);
		sqe->splice_fd_in = fd;
		sqe->splice_off_in = 0;
		sqe->off = (uint64_t)-1;
		sqe->len = 8;
		try_sqe("splice", &ring);
		note("locked", in_child(is_locked));
	}
}

const struct row rows_uring_fixed[] = {
	ROW("registering files, argument by argument", arguments),
	ROW("as many files as there may be", too_many),
	ROW("rings as fixed files", of_rings),
	ROW("a fixed file stays open", kept_open),
	ROW("a fixed file's descriptor is reused", number_used_again),
	ROW("fixed files are replaced", updates),
	ROW("replacing fixed files, argument by argument", update_arguments),
	ROW("fixed files with tags", tags),
	ROW("a tag is posted when no request uses the file", tag_waits),
	ROW("a sparse table of files", sparse),
	ROW("fixed files in a chain", closed_in_chain),
	ROW("a fixed file that is let go keeps its record locks",
	    unset_while_locked),
	ROW("a file that is spliced keeps its record locks",
	    spliced_while_locked),
	NO_ROW,
};
