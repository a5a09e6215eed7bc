/* SPDX-License-Identifier: MIT */
/* Registered files that one ring sends to another. */
#include <fcntl.h>

#include "uring-places.h"

/* A flag that the headers of Debian 12 lack. */
enum { MSG_RING_FLAGS_PASS = 2 };

/*
 * Prepares a request on `ring` that sends the file in slot from_place to slot to_place
 * of the ring `to`.
 */
static struct io_uring_sqe *send_of(struct uring *ring, const struct uring *to,
				    int from_place, int to_place)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_MSG_RING, to->fd,
		       (void *)(uintptr_t)IORING_MSG_SEND_FD, 0, 4711);

	sqe->addr3 = (uint64_t)from_place;
	sqe->file_index = to_place == ANY ? IORING_FILE_INDEX_ALLOC
					  : (uint32_t)to_place + 1;
	return sqe;
}

/* Prints the completion that a request of another ring has posted in `ring`. */
static void note_told(const char *key, struct uring *ring)
{
	struct io_uring_cqe cqe;

	if (!uring_settle(ring) || !uring_take(ring, &cqe)) {
		note_text(key, "nothing");
		return;
	}
	note_cqe(key, &cqe);
	note("data", (long)cqe.user_data);
}

static void sent_files(void)
{
	struct uring from = new_uring(8, 0), to = new_uring(8, 0);

	send_of(&from, &to, 0, 0);
	try_sqe("no_tables", &from);
	REQUIRE(make_table(&from, NR_PLACES) == 0);
	open_at("open", &from, 3);
	send_of(&from, &to, 3, 0);
	try_sqe("no_table", &from);
	send_of(&from, &to, 3, ANY);
	try_sqe("no_table_any", &from);
	send_of(&from, &to, 3, 1 << 30);
	try_sqe("no_table_far", &from);
	REQUIRE(make_table(&to, NR_PLACES) == 0);
	note_told("nothing_yet", &to);
	send_of(&from, &to, 3, 2);
	try_sqe("send", &from);
	note_told("told", &to);
	read_at("read", &to, 2);
	send_of(&from, &to, 3, ANY);
	try_sqe("any", &from);
	note_told("told", &to);
	send_of(&from, &to, 3, 0)->msg_ring_flags = IORING_MSG_RING_CQE_SKIP;
	try_sqe("untold", &from);
	note_told("not_told", &to);
	close_at("close", &from, 3);
	read_at("read", &to, 0);
	send_of(&from, &to, 3, 1);
	try_sqe("empty", &from);
	send_of(&from, &to, NR_PLACES, 1);
	try_sqe("beyond", &from);
}

static void sent_arguments(void)
{
	struct uring from = new_uring(8, 0), to = new_uring(8, 0);
	struct uring off = new_uring(8, IORING_SETUP_R_DISABLED);

	REQUIRE(make_table(&from, NR_PLACES) == 0);
	REQUIRE(make_table(&to, NR_PLACES) == 0);
	REQUIRE(make_table(&off, NR_PLACES) == 0);
	open_at("open", &from, 0);
	send_of(&from, &from, 0, 1);
	try_sqe("itself", &from);
	send_of(&from, &off, 0, 1);
	try_sqe("disabled", &from);
	send_of(&from, &to, 0, 1)->len = 1;
	try_sqe("len", &from);
	send_of(&from, &to, 0, NR_PLACES);
	try_sqe("beyond", &from);
	send_of(&from, &to, 0, 1)->file_index = 0;
	try_sqe("place_0", &from);
	send_of(&from, &to, 0, 1)->msg_ring_flags = MSG_RING_FLAGS_PASS;
	try_sqe("pass", &from);
	note_told("told", &to);
	send_of(&from, &to, 0, 1)->msg_ring_flags = 4;
	try_sqe("flag", &from);
	send_of(&from, &to, 0, 1)->flags = IOSQE_ASYNC;
	try_sqe("async", &from);
	note_told("told", &to);
	send_of(&from, &to, 5, 1)->len = 1;
	try_sqe("empty_len", &from);
	send_of(&from, &from, 5, 1);
	try_sqe("empty_itself", &from);
	send_of(&from, &off, 5, 1);
	try_sqe("empty_disabled", &from);
}

const struct row rows_uring_pass[] = {
	ROW("a registered file is sent to another ring", sent_files),
	ROW("sending a registered file, argument by argument", sent_arguments),
	NO_ROW,
};
