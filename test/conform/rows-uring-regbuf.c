/* SPDX-License-Identifier: MIT */
/* Registered buffers: cloned to another ring, sparse tables, and vectors. */
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "uring.h"

/* Names that the headers of Debian 12 lack. */
enum {
	REGISTER_CLONE_BUFFERS = 30,
	SRC_REGISTERED = 1,
	DST_REPLACE = 2,
};

struct clone_buffers {
	uint32_t src_fd;
	uint32_t flags;
	uint32_t src_off;
	uint32_t dst_off;
	uint32_t nr;
	uint32_t pad[3];
};

static char memory[8][4096];

static long clone(const struct uring *ring, struct clone_buffers what)
{
	return uring_register(ring->fd, REGISTER_CLONE_BUFFERS, &what, 1);
}

/* Prints for each of the first ten slots which memory is registered there. */
static void note_buffers(struct uring *ring)
{
	int zero = open("/dev/zero", O_RDONLY), place, i;
	struct io_uring_cqe cqe;

	for (place = 0; place < 10; place++) {
		long found = -1;

		for (i = 0; i < 8; i++) {
			struct io_uring_sqe *sqe =
				sqe_rw(ring, IORING_OP_READ_FIXED, zero,
				       memory[i], 4096, 0);
			uint64_t user_data = sqe->user_data;

			sqe->buf_index = (uint16_t)place;
			REQUIRE(uring_submit(ring) == 1);
			REQUIRE(uring_find(ring, user_data, &cqe));
			if (cqe.res == 4096)
				found = i;
		}
		note("buffer", found);
	}
	close(zero);
}

static struct uring ring_with_buffers(void)
{
	struct uring ring = new_uring(8, 0);
	struct iovec iovs[4];
	int i;

	for (i = 0; i < 4; i++)
		iovs[i] = (struct iovec){ i == 2 ? NULL : memory[i],
					  i == 2 ? 0 : 4096 };
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_BUFFERS, iovs, 4) == 0);
	return ring;
}

static void clone_arguments(void)
{
	struct uring to = new_uring(8, 0), empty = new_uring(8, 0);
	struct uring from = ring_with_buffers();
	struct uring alone = new_uring(8, IORING_SETUP_SINGLE_ISSUER);
	uint32_t src = (uint32_t)from.fd;
	int file = file_of("f", 100, O_RDWR);

#define CLONE(...) clone(&to, (struct clone_buffers){ __VA_ARGS__ })
	note_result("null",
		    uring_register(to.fd, REGISTER_CLONE_BUFFERS, NULL, 1));
	note_result("kernel", uring_register(to.fd, REGISTER_CLONE_BUFFERS,
					     KERNEL_ADDRESS, 1));
	note_result("nr_0", uring_register(to.fd, REGISTER_CLONE_BUFFERS,
					   KERNEL_ADDRESS, 0));
	note_result("no_buffers", CLONE(.src_fd = (uint32_t)empty.fd));
	note_result("alone", CLONE(.src_fd = (uint32_t)alone.fd));
	note_result("no_buffers_off",
		    CLONE(.src_fd = (uint32_t)empty.fd, .src_off = 1));
	note_result("no_buffers_nr",
		    CLONE(.src_fd = (uint32_t)empty.fd, .nr = 1));
	note_result("file", CLONE(.src_fd = (uint32_t)file));
	note_result("closed", CLONE(.src_fd = 77777));
	note_result("flag", CLONE(.src_fd = src, .flags = 4));
	note_result("pad", CLONE(.src_fd = src, .pad = { 0, 0, 1 }));
	note_result("itself", CLONE(.src_fd = (uint32_t)to.fd));
	note_result("src_off", CLONE(.src_fd = src, .src_off = 1));
	note_result("dst_off", CLONE(.src_fd = src, .dst_off = 1));
	note_result("nr_5", CLONE(.src_fd = src, .nr = 5));
	note_result("nr_5_at_4", CLONE(.src_fd = src, .nr = 5, .src_off = 4));
	note_result("over_end", CLONE(.src_fd = src, .nr = 4, .src_off = 1));
	note_result("wraps", CLONE(.src_fd = src, .nr = 2, .src_off = -1u));
	note_result("dst_wraps", CLONE(.src_fd = src, .nr = 2, .dst_off = -1u));
	note_result("dst_far",
		    CLONE(.src_fd = src, .nr = 2, .dst_off = (1 << 14) - 1));
	note_result("not_registered",
		    CLONE(.src_fd = 3, .flags = SRC_REGISTERED));
	note_result("right", CLONE(.src_fd = src));
	note_result("twice", CLONE(.src_fd = src));
	note_result("twice_pad", CLONE(.src_fd = src, .pad = { 1 }));
	note_result("twice_closed", CLONE(.src_fd = 77777));
	note_result("replace_none",
		    CLONE(.src_fd = (uint32_t)empty.fd, .flags = DST_REPLACE));
#undef CLONE
}

static void clones(void)
{
	struct uring from = ring_with_buffers(), to = new_uring(8, 0);
	struct clone_buffers what = { .src_fd = (uint32_t)from.fd };

	note_result("clone", clone(&to, what));
	note_buffers(&to);
	what.flags = DST_REPLACE;
	what.nr = 1;
	what.src_off = 3;
	what.dst_off = 1;
	note_result("inside", clone(&to, what));
	note_buffers(&to);
	what.nr = 2;
	what.src_off = 0;
	what.dst_off = 5;
	note_result("beyond", clone(&to, what));
	note_buffers(&to);
	what = (struct clone_buffers){ .src_fd = (uint32_t)from.fd,
				       .flags = DST_REPLACE };
	note_result("all", clone(&to, what));
	note_buffers(&to);
	what = (struct clone_buffers){ .src_fd = (uint32_t)to.fd,
				       .flags = DST_REPLACE,
				       .nr = 2,
				       .dst_off = 1 };
	note_result("itself", clone(&to, what));
	note_buffers(&to);
	note_result("unset", uring_register(from.fd, IORING_UNREGISTER_BUFFERS,
					    NULL, 0));
	note_buffers(&to);
}

static void clone_of_registered(void)
{
	struct uring from = ring_with_buffers(), to = new_uring(8, 0);
	struct io_uring_rsrc_update update = { .offset = -1u,
					       .data = (uint32_t)from.fd };
	struct clone_buffers what = { .flags = SRC_REGISTERED };

	note_result(
		"register",
		uring_register(from.fd, IORING_REGISTER_RING_FDS, &update, 1));
	what.src_fd = update.offset;
	note_result("clone", clone(&to, what));
	note_buffers(&to);
	what.src_fd++;
	what.flags |= DST_REPLACE;
	note_result("other", clone(&to, what));
	what.src_fd = 16;
	note_result("beyond", clone(&to, what));
}

static void clone_with_tags(void)
{
	struct uring from = new_uring(8, 0), to = new_uring(8, 0);
	struct iovec iov = { memory[0], 4096 };
	uint64_t tag = 31;
	struct io_uring_rsrc_register reg = { .nr = 1,
					      .data = (uintptr_t)&iov,
					      .tags = (uintptr_t)&tag };
	struct clone_buffers what = { .src_fd = (uint32_t)from.fd };
	struct io_uring_cqe cqe;

	REQUIRE(uring_register(from.fd, IORING_REGISTER_BUFFERS2, &reg,
			       sizeof(reg)) == 0);
	tag = 32;
	REQUIRE(uring_register(to.fd, IORING_REGISTER_BUFFERS2, &reg,
			       sizeof(reg)) == 0);
	what.flags = DST_REPLACE;
	note_result("clone", clone(&to, what));
	REQUIRE(uring_wait(&to, 1) && uring_take(&to, &cqe));
	note("tag", (long)cqe.user_data);
	note_result("unset", uring_register(from.fd, IORING_UNREGISTER_BUFFERS,
					    NULL, 0));
	REQUIRE(uring_wait(&from, 1) && uring_take(&from, &cqe));
	note("tag", (long)cqe.user_data);
	note_result("unset",
		    uring_register(to.fd, IORING_UNREGISTER_BUFFERS, NULL, 0));
	note_ready("besides", &to);
	note_ready("besides", &from);
}

static void sparse_buffers(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_rsrc_register reg = {
		.nr = 4, .flags = IORING_RSRC_REGISTER_SPARSE
	};
	struct iovec iov = { memory[1], 4096 };
	uint64_t tag = 5;
	struct io_uring_rsrc_update2 update = { .offset = 2,
						.data = (uintptr_t)&iov,
						.tags = (uintptr_t)&tag,
						.nr = 1 };

	note_result("register",
		    uring_register(ring.fd, IORING_REGISTER_BUFFERS2, &reg,
				   sizeof(reg)));
	note_buffers(&ring);
	note_result("update",
		    uring_register(ring.fd, IORING_REGISTER_BUFFERS_UPDATE,
				   &update, sizeof(update)));
	note_buffers(&ring);
	iov = (struct iovec){ 0 };
	note_result("tag_of_none",
		    uring_register(ring.fd, IORING_REGISTER_BUFFERS_UPDATE,
				   &update, sizeof(update)));
	tag = 0;
	note_result("remove",
		    uring_register(ring.fd, IORING_REGISTER_BUFFERS_UPDATE,
				   &update, sizeof(update)));
	note_result("tags", uring_settle(&ring));
}

static struct iovec vectors[1025];

static struct io_uring_sqe *vectors_of(struct uring *ring, int opcode, int fd,
				       uint32_t nr)
{
	return sqe_rw(ring, opcode, fd, vectors, nr, 0);
}

static void fill_vectors(void)
{
	for (int i = 0; i < 1025; i++)
		vectors[i] = (struct iovec){ memory[0] + 3 * i, 3 };
}

static void try_vectors(const char *key, struct uring *ring, int opcode, int fd,
			struct iovec third)
{
	fill_vectors();
	vectors[2] = third;
	vectors_of(ring, opcode, fd, 4);
	try_sqe(key, ring);
}

static void vectored(int opcode)
{
	struct uring ring = ring_with_buffers();
	int fd = file_of("f", 8192, O_RDWR);

	fill_vectors();
	vectors_of(&ring, opcode, fd, 4);
	try_sqe("four", &ring);
	vectors_of(&ring, opcode, fd, 0);
	try_sqe("none", &ring);
	vectors_of(&ring, opcode, fd, 1024);
	try_sqe("1024", &ring);
	vectors_of(&ring, opcode, fd, 1025);
	try_sqe("1025", &ring);
	vectors_of(&ring, opcode, fd, 4)->buf_index = 1;
	try_sqe("other_buffer", &ring);
	vectors_of(&ring, opcode, fd, 4)->buf_index = 2;
	try_sqe("no_buffer", &ring);
	vectors_of(&ring, opcode, fd, 4)->addr = 0;
	try_sqe("null", &ring);
	vectors_of(&ring, opcode, fd, 4)->flags = IOSQE_BUFFER_SELECT;
	try_sqe("select", &ring);
	vectors_of(&ring, opcode, 77777, 4);
	try_sqe("closed", &ring);
	vectors_of(&ring, opcode, fd, 4)->ioprio = 1;
	try_sqe("ioprio", &ring);
	vectors_of(&ring, opcode, fd, 4)->rw_flags = 1 << 20;
	try_sqe("flag", &ring);
	try_vectors("empty", &ring, opcode, fd, (struct iovec){ memory[0], 0 });
	try_vectors("zero", &ring, opcode, fd, (struct iovec){ NULL, 0 });
	try_vectors("all", &ring, opcode, fd,
		    (struct iovec){ memory[0], 4096 });
	try_vectors("over_end", &ring, opcode, fd,
		    (struct iovec){ memory[0], 4097 });
	try_vectors("beyond", &ring, opcode, fd,
		    (struct iovec){ memory[1], 1 });
	try_vectors("negative", &ring, opcode, fd,
		    (struct iovec){ memory[0], -1ul });
	try_vectors("wraps", &ring, opcode, fd,
		    (struct iovec){ (void *)-8ul, 16 });
}

static void vectors_read(void)
{
	struct uring ring = ring_with_buffers();
	int fd = file_of("f", 8192, O_RDWR);

	fill_vectors();
	vectors_of(&ring, OP_READV_FIXED, fd, 8)->flags = IOSQE_ASYNC;
	try_sqe("read", &ring);
	note("is_it", is_pattern(memory[0], 24, 0));
	vectored(OP_READV_FIXED);
}

static void vectors_written(void)
{
	vectored(OP_WRITEV_FIXED);
}

const struct row rows_uring_regbuf[] = {
	ROW("cloning buffers, argument by argument", clone_arguments),
	ROW("buffers of another ring", clones),
	ROW("buffers of a ring by its place", clone_of_registered),
	ROW("cloned buffers have no tags", clone_with_tags),
	ROW("a sparse table of buffers", sparse_buffers),
	ROW("vectors into a registered buffer", vectors_read),
	ROW("vectors out of a registered buffer", vectors_written),
	NO_ROW,
};
