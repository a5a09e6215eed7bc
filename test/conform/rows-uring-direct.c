/* SPDX-License-Identifier: MIT */
/*
 * Opening and closing files in a ring's table of registered files, and other changes of
 * the table
 */
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <unistd.h>

#include "uring-places.h"

/* Names that the headers of Debian 12 lack. */
enum {
	OP_FIXED_FD_INSTALL = 54,
	FIXED_FD_NO_CLOEXEC = 1,
};

static long unset_files(const struct uring *ring)
{
	return uring_register(ring->fd, IORING_UNREGISTER_FILES, NULL, 0);
}

static void without_table(void)
{
	struct uring ring = new_uring(8, 0);

	open_at("place", &ring, 0);
	open_at("any", &ring, ANY);
	open_of(&ring, "not-there", O_RDONLY, 0);
	try_sqe("not_there", &ring);
	open_of(&ring, "new", O_RDWR | O_CREAT, 0);
	try_sqe("new", &ring);
	note("is_made", access("new", F_OK) == 0);
	open_of(&ring, "/dev/zero", O_CLOEXEC, 0);
	try_sqe("cloexec", &ring);
	close_at("close", &ring, 0);
	close_at("close_any", &ring, -2);
}

static void places(void)
{
	struct uring ring = new_uring(8, 0);

	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	open_at("first", &ring, 0);
	read_at("read_first", &ring, 0);
	read_at("read_second", &ring, 1);
	open_at("any", &ring, ANY);
	open_at("replaces", &ring, 0);
	open_at("last", &ring, NR_PLACES - 1);
	open_at("beyond", &ring, NR_PLACES);
	open_at("far_beyond", &ring, 1 << 30);
	close_at("close", &ring, 0);
	close_at("again", &ring, 0);
	close_at("close_beyond", &ring, NR_PLACES);
	read_at("read_closed", &ring, 0);
	open_of(&ring, "/dev/zero", O_RDONLY, 2)->flags = IOSQE_ASYNC;
	try_sqe("async", &ring);
	read_at("read_async", &ring, 2);
	close_of(&ring, 2)->flags = IOSQE_ASYNC;
	try_sqe("close_async", &ring);
}

static void no_number(void)
{
	struct uring ring = new_uring(8, 0);
	int before = dup(0), after;

	close(before);
	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	open_at("open", &ring, 0);
	after = dup(0);
	note("number_taken", after != before);
}

static void by_openat2(void)
{
	struct open_how how = { .flags = O_RDWR | O_CREAT, .mode = 0600 };
	struct uring ring = new_uring(8, 0);
	int i;

	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	for (i = 0; i < 4; i++) {
		struct io_uring_sqe *sqe =
			sqe_rw(&ring, IORING_OP_OPENAT2, AT_FDCWD, "f",
			       sizeof(how), 0);

		sqe->addr2 = (uintptr_t)&how;
		sqe->file_index = i == 1 ? IORING_FILE_INDEX_ALLOC : 3;
		if (i == 2)
			how.flags |= O_CLOEXEC;
		if (i == 3)
			sqe->len = 8;
		try_sqe("open", &ring);
	}
	sqe_rw(&ring, IORING_OP_WRITE, 2, "abc", 3, 0)->flags =
		IOSQE_FIXED_FILE;
	try_sqe("write", &ring);
	read_at("read", &ring, 0);
}

static void close_arguments(void)
{
	struct uring ring = new_uring(8, 0);

	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	open_at("open", &ring, 0);
	close_of(&ring, 0)->fd = 3;
	try_sqe("fd", &ring);
	close_of(&ring, 0)->flags = IOSQE_FIXED_FILE;
	try_sqe("fixed", &ring);
	close_of(&ring, 0)->len = 1;
	try_sqe("len", &ring);
	close_of(&ring, 0)->buf_index = 1;
	try_sqe("buf_index", &ring);
	close_of(&ring, 0)->ioprio = 1;
	try_sqe("ioprio", &ring);
	close_of(&ring, -2);
	try_sqe("any", &ring);
	close_of(&ring, 0)->addr3 = 1;
	try_sqe("addr3", &ring);
}

static void chains(void)
{
	struct uring ring = new_uring(8, 0);

	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	open_of(&ring, "/dev/zero", O_RDONLY, 1)->flags = IOSQE_IO_LINK;
	read_of(&ring, 1)->flags |= IOSQE_IO_LINK;
	close_of(&ring, 1)->flags = IOSQE_IO_LINK;
	read_of(&ring, 1)->flags |= IOSQE_IO_HARDLINK;
	open_of(&ring, "/dev/zero", O_RDONLY, ANY);
	note_result("submit", uring_submit(&ring));
	note_cqes("cqe", &ring, 5);
	open_of(&ring, "/dev/zero", O_RDONLY, NR_PLACES)->flags = IOSQE_IO_LINK;
	read_of(&ring, 1);
	note_result("submit", uring_submit(&ring));
	note_cqes("broken", &ring, 2);
	open_of(&ring, "/dev/zero", O_RDONLY, 5);
	read_of(&ring, 5)->flags |= IOSQE_IO_DRAIN;
	close_of(&ring, 5)->flags = IOSQE_IO_DRAIN;
	note_result("submit", uring_submit(&ring));
	note_cqes("drained", &ring, 3);
	open_of(&ring, "/dev/zero", O_RDONLY, 4)->flags =
		IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK;
	read_of(&ring, 4);
	note_result("submit", uring_submit(&ring));
	note_cqes("skipped", &ring, 1);
}

static long limit(const struct uring *ring, uint32_t off, uint32_t len)
{
	struct io_uring_file_index_range range = { .off = off, .len = len };

	return uring_register(ring->fd, IORING_REGISTER_FILE_ALLOC_RANGE,
			      &range, 0);
}

static void ranges(void)
{
	struct io_uring_file_index_range range = { .resv = 1 };
	const uint32_t opcode = IORING_REGISTER_FILE_ALLOC_RANGE;
	struct uring ring = new_uring(8, 0);

	note_result("no_table", limit(&ring, 0, 0));
	note_result("no_table_1", limit(&ring, 0, 1));
	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	note_result("null", uring_register(ring.fd, opcode, NULL, 0));
	note_result("kernel",
		    uring_register(ring.fd, opcode, KERNEL_ADDRESS, 0));
	note_result("resv", uring_register(ring.fd, opcode, &range, 0));
	range.resv = 0;
	note_result("nr", uring_register(ring.fd, opcode, &range, 1));
	note_result("beyond", limit(&ring, 4, 5));
	note_result("wraps", limit(&ring, -1u, 2));
	note_result("empty", limit(&ring, NR_PLACES, 0));
	open_at("none", &ring, ANY);
	note_result("range", limit(&ring, 2, 3));
	open_at("any", &ring, ANY);
	open_at("any", &ring, ANY);
	open_at("any", &ring, ANY);
	open_at("any", &ring, ANY);
	open_at("outside", &ring, 7);
}

/*
 * The kernel searches for a free slot from a hint on. Opening a file in a slot sets the
 * hint to the next slot; closing a slot sets the hint to that slot.
 */
static void hints(void)
{
	struct uring ring = new_uring(8, 0);
	int i;

	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	for (i = 0; i < NR_PLACES; i++)
		open_at("fill", &ring, ANY);
	open_at("full", &ring, ANY);
	close_at("close", &ring, 2);
	close_at("close", &ring, 5);
	open_at("last_closed", &ring, ANY);
	open_at("then", &ring, ANY);
	close_at("close", &ring, 5);
	close_at("close", &ring, 2);
	open_at("place", &ring, 2);
	open_at("after", &ring, ANY);
	close_at("close", &ring, 1);
	close_at("close", &ring, 6);
	open_at("replace", &ring, 3);
	open_at("not_moved", &ring, ANY);
	note_result("range", limit(&ring, 0, 4));
	close_at("close", &ring, 3);
	close_at("outside", &ring, 7);
	open_at("from_start", &ring, ANY);
	open_at("from_start", &ring, ANY);
	open_at("from_start", &ring, ANY);
}

static void hints_of_updates(void)
{
	struct uring ring = new_uring(8, 0);
	int32_t zero = open("/dev/zero", O_RDONLY);
	int32_t fds[4] = { zero, -1, zero, -1 };
	struct io_uring_rsrc_update update = { .offset = 2,
					       .data = (uintptr_t)fds };

	REQUIRE(uring_register(ring.fd, IORING_REGISTER_FILES, fds, 4) == 0);
	open_at("any", &ring, ANY);
	open_at("any", &ring, ANY);
	open_at("full", &ring, ANY);
	fds[0] = -1;
	note_result("remove",
		    uring_register(ring.fd, IORING_REGISTER_FILES_UPDATE,
				   &update, 1));
	open_at("removed", &ring, ANY);
	fds[0] = fds[1] = -1;
	update.offset = 0;
	note_result("two", uring_register(ring.fd, IORING_REGISTER_FILES_UPDATE,
					  &update, 2));
	open_at("second", &ring, ANY);
	open_at("first", &ring, ANY);
}

static void update_with(const char *key, struct uring *ring, uint64_t off,
			int32_t *fds, uint32_t nr)
{
	sqe_rw(ring, IORING_OP_FILES_UPDATE, -1, fds, nr, off);
	try_sqe(key, ring);
}

static void updates(void)
{
	struct uring ring = new_uring(8, 0);
	int32_t zero = open("/dev/zero", O_RDONLY);
	int32_t fds[4] = { zero, -1, IORING_REGISTER_FILES_SKIP, 77777 };
	int i;

	update_with("no_table", &ring, 0, fds, 1);
	update_with("no_table_any", &ring, -1u, fds, 1);
	REQUIRE(make_table(&ring, 4) == 0);
	update_with("three", &ring, 0, fds, 3);
	update_with("fourth_is_closed", &ring, 0, fds, 4);
	update_with("closed", &ring, 3, fds + 3, 1);
	update_with("too_many", &ring, 1, fds, 4);
	update_with("wraps", &ring, -2u, fds, 4);
	update_with("high", &ring, 1ull << 32, fds, 1);
	update_with("kernel", &ring, 0, (void *)(uintptr_t)KERNEL_ADDRESS, 1);
	read_at("first", &ring, 0);
	read_at("second", &ring, 1);
	fds[0] = ring.fd;
	update_with("ring", &ring, 0, fds, 1);
	read_at("first_is_gone", &ring, 0);
	for (i = 0; i < 4; i++)
		fds[i] = zero;
	fds[2] = -1;
	update_with("any", &ring, -1u, fds, 4);
	for (i = 0; i < 2; i++)
		note("chosen", fds[i]);
	fds[2] = zero;
	update_with("any_more", &ring, -1u, fds + 2, 2);
	update_with("any_full", &ring, -1u, fds + 3, 1);
	for (i = 2; i < 4; i++)
		note("chosen", fds[i] == zero ? -1 : fds[i]);
	update_with("kernel_any", &ring, -1u, (void *)(uintptr_t)KERNEL_ADDRESS,
		    1);
}

static void update_arguments(void)
{
	struct uring ring = new_uring(8, 0);
	int32_t fds[1] = { -1 };
	struct io_uring_sqe *sqe;
	int i;

	REQUIRE(make_table(&ring, 4) == 0);
	for (i = 0; i < 8; i++) {
		static const char *const names[] = { "len",       "fixed",
						     "rw_flags",  "splice_fd",
						     "buf_index", "addr3",
						     "select",    "ioprio" };

		sqe = sqe_rw(&ring, IORING_OP_FILES_UPDATE, -1, fds, i > 0, 0);
		if (i == 1)
			sqe->flags = IOSQE_FIXED_FILE;
		if (i == 2)
			sqe->rw_flags = 1;
		if (i == 3)
			sqe->splice_fd_in = 1;
		if (i == 4)
			sqe->buf_index = 1;
		if (i == 5)
			sqe->addr3 = 1;
		if (i == 6)
			sqe->flags = IOSQE_BUFFER_SELECT;
		if (i == 7)
			sqe->ioprio = 1;
		try_sqe(names[i], &ring);
	}
}

static int install(struct uring *ring, int place, uint32_t flags)
{
	struct io_uring_sqe *sqe = sqe_of(ring, OP_FIXED_FD_INSTALL, place);
	uint64_t user_data = sqe->user_data;
	struct io_uring_cqe cqe;

	sqe->flags = IOSQE_FIXED_FILE;
	sqe->rw_flags = (int)flags;
	REQUIRE(uring_submit(ring) == 1);
	REQUIRE(uring_find(ring, user_data, &cqe));
	return cqe.res;
}

static void installs(void)
{
	struct uring ring = new_uring(8, 0);
	int fd, lowest = dup(0), i;

	close(lowest);
	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	open_at("open", &ring, 2);
	fd = install(&ring, 2, 0);
	note("is_lowest", fd == lowest);
	note("flags", fcntl(fd, F_GETFD));
	note_result("read", read(fd, buf, 5));
	fd = install(&ring, 2, FIXED_FD_NO_CLOEXEC);
	note("flags", fcntl(fd, F_GETFD));
	note_result("empty", install(&ring, 1, 0));
	note_result("beyond", install(&ring, NR_PLACES, 0));
	note_result("unknown", install(&ring, 2, 2));
	for (i = 0; i < 8; i++) {
		static const char *const names[] = { "not_fixed", "off",
						     "addr",      "len",
						     "buf_index", "splice_fd",
						     "addr3",     "ioprio" };
		struct io_uring_sqe *sqe =
			sqe_of(&ring, OP_FIXED_FD_INSTALL, 2);

		sqe->flags = i ? IOSQE_FIXED_FILE : 0;
		sqe->off = i == 1;
		sqe->addr = i == 2;
		sqe->len = i == 3;
		sqe->buf_index = i == 4;
		sqe->splice_fd_in = i == 5;
		sqe->addr3 = i == 6;
		sqe->ioprio = i == 7;
		try_sqe(names[i], &ring);
	}
	close_at("close", &ring, 2);
	note_result("read_on", read(fd, buf, 5));
}

/*
 * FIXED_FD_INSTALL with a personality fails, whether or not the SQE is otherwise valid.
 */
static void install_as_another(void)
{
	static const char *const names[] = { "right", "not_fixed", "flags",
					     "off",   "empty",     "unknown" };
	struct uring ring = new_uring(8, 0);

	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	open_at("open", &ring, 2);
	note_result(
		"personality",
		uring_register(ring.fd, IORING_REGISTER_PERSONALITY, NULL, 0));
	for (int i = 0; i < 6; i++) {
		struct io_uring_sqe *sqe =
			sqe_of(&ring, OP_FIXED_FD_INSTALL, i == 4 ? 1 : 2);

		sqe->flags = (uint8_t)(i == 1 ? 0 : IOSQE_FIXED_FILE);
		sqe->rw_flags = i == 2 ? 2 : 0;
		sqe->off = i == 3;
		sqe->personality = i == 5 ? 9 : 1;
		try_sqe(names[i], &ring);
	}
}

static void install_without_room(void)
{
	struct uring ring = new_uring(8, 0);
	struct rlimit rlimit;
	int lowest = dup(0);

	close(lowest);
	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	open_at("open", &ring, 0);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &rlimit) == 0);
	rlimit.rlim_cur = (rlim_t)lowest;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &rlimit) == 0);
	note_result("install", install(&ring, 0, 0));
}

static void kept_while_used(void)
{
	struct uring ring = new_uring(8, 0);
	int32_t fds[2];
	uint64_t user_data;
	struct io_uring_cqe cqe;

	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	REQUIRE(pipe(fds) == 0);
	update_with("put", &ring, 0, fds, 2);
	close(fds[0]);
	close(fds[1]);
	user_data = read_of(&ring, 0)->user_data;
	note_result("submit", uring_submit(&ring));
	open_at("replace", &ring, 0);
	read_at("zero", &ring, 0);
	sqe_rw(&ring, IORING_OP_WRITE, 1, "abc", 3, -1)->flags =
		IOSQE_FIXED_FILE;
	note_result("submit", uring_submit(&ring));
	REQUIRE(uring_find(&ring, user_data, &cqe));
	note_cqe("read", &cqe);
}

static void last_end_closed(void)
{
	struct uring ring = new_uring(8, 0);
	int32_t fds[2];

	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	REQUIRE(pipe(fds) == 0);
	update_with("put", &ring, 0, fds + 1, 1);
	close(fds[1]);
	sqe_rw(&ring, IORING_OP_READ, fds[0], buf, 10, -1);
	note_result("submit", uring_submit(&ring));
	note_ready("open", &ring);
	close_of(&ring, 0);
	note_result("close", uring_submit(&ring));
	note_cqes("cqe", &ring, 2);
}

static void gone_table(void)
{
	struct uring ring = new_uring(8, 0);

	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	open_at("open", &ring, 0);
	note_result("unset", unset_files(&ring));
	read_at("read", &ring, 0);
	close_at("close", &ring, 0);
	open_at("open_again", &ring, 0);
	REQUIRE(make_table(&ring, 2) == 0);
	open_at("beyond", &ring, 2);
	open_at("any", &ring, ANY);
}

/*
 * A splice that is linked after other requests looks up both its files when it starts.
 */
static void spliced(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_sqe *sqe;
	int ends[2], i;

	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	REQUIRE(pipe(ends) == 0);
	for (i = 0; i < 3; i++) {
		/*
		 * Before the splice starts, the chain opens a file in slot 1 (i = 0),
		 * or opens and closes it (i = 1). With i = 2 the slot is empty from the
		 * start.
		 */
		if (i < 2)
			open_of(&ring, "/dev/zero", O_RDONLY, 1)->flags =
				IOSQE_IO_LINK;
		if (i == 1)
			close_of(&ring, 1)->flags = IOSQE_IO_LINK;
		sqe = sqe_rw(&ring, IORING_OP_SPLICE, ends[1], NULL, 100, -1);
		sqe->splice_fd_in = 1;
		sqe->splice_off_in = (uint64_t)-1;
		sqe->splice_flags = SPLICE_F_FD_IN_FIXED;
		note_result("submit", uring_submit(&ring));
		note_cqes("in", &ring, i == 1 ? 3 : i == 0 ? 2 : 1);
		if (i == 0)
			close_at("close", &ring, 1);
	}
	open_of(&ring, "/dev/null", O_WRONLY, 4)->flags = IOSQE_IO_LINK;
	sqe = sqe_rw(&ring, IORING_OP_SPLICE, 4, NULL, 50, -1);
	sqe->splice_fd_in = ends[0];
	sqe->splice_off_in = (uint64_t)-1;
	sqe->flags = IOSQE_FIXED_FILE;
	note_result("submit", uring_submit(&ring));
	note_cqes("out", &ring, 2);
}

static void pipe_into(const char *key, struct uring *ring, uint32_t file_index,
		      bool has_memory, int flags)
{
	int32_t fds[2] = { -7, -7 };
	struct io_uring_sqe *sqe = sqe_of(ring, OP_PIPE, 0);

	sqe->addr = has_memory ? (uintptr_t)fds : 0;
	sqe->file_index = file_index;
	sqe->rw_flags = flags;
	try_sqe(key, ring);
	note("reader", fds[0]);
	note("writer", fds[1]);
}

static void pipes(void)
{
	const uint32_t any = IORING_FILE_INDEX_ALLOC;
	struct uring ring = new_uring(8, 0);

	pipe_into("no_table", &ring, 1, true, 0);
	pipe_into("no_table_any", &ring, any, true, 0);
	REQUIRE(make_table(&ring, NR_PLACES) == 0);
	pipe_into("places", &ring, 3, true, 0);
	sqe_rw(&ring, IORING_OP_WRITE, 3, "abc", 3, -1)->flags =
		IOSQE_FIXED_FILE;
	try_sqe("write", &ring);
	read_at("read", &ring, 2);
	pipe_into("any", &ring, any, true, O_NONBLOCK);
	pipe_into("over_end", &ring, NR_PLACES, true, 0);
	close_at("is_empty", &ring, NR_PLACES - 1);
	pipe_into("cloexec", &ring, 3, true, O_CLOEXEC);
	pipe_into("null", &ring, 3, false, 0);
	close_at("is_empty", &ring, 2);
	pipe_into("any", &ring, any, true, 0);
	pipe_into("any", &ring, any, true, 0);
	close_at("one", &ring, 5);
	pipe_into("any_one", &ring, any, true, 0);
	open_at("still_free", &ring, ANY);
}

const struct row rows_uring_direct[] = {
	ROW("opening into no table", without_table),
	ROW("opening into slots", places),
	ROW("a file opened into a table has no descriptor", no_number),
	ROW("opening into slots by OPENAT2", by_openat2),
	ROW("closing slots, argument by argument", close_arguments),
	ROW("a chain opens, reads and closes files", chains),
	ROW("a range of slots to choose from", ranges),
	ROW("which slot is chosen", hints),
	ROW("which slot is chosen after updates", hints_of_updates),
	ROW("a request updates the table", updates),
	ROW("a request that updates the table, argument by argument",
	    update_arguments),
	ROW("files of the table get descriptors", installs),
	ROW("no descriptor for another identity", install_as_another),
	ROW("no descriptor is free for a file of the table",
	    install_without_room),
	ROW("a file is replaced while it is used", kept_while_used),
	ROW("closing a slot closes the file", last_end_closed),
	ROW("slots of an unregistered table", gone_table),
	ROW("pipes into slots", pipes),
	ROW("the files of a splice are found when it starts", spliced),
	NO_ROW,
};
