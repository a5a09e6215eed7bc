/* SPDX-License-Identifier: MIT */
/*
 * Provided buffers, in lists and arrays: which buffer a request selects, and which
 * buffers remain
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "uring.h"

/* An opcode that the headers of Debian 12 lack. */
enum {
	OP_READ_MULTISHOT = 49,
};

enum { BUFFERS = 8, BYTES = 32, ENTRIES = 8, AREA = 65536 };

static char memory[BUFFERS][BYTES];
static struct io_uring_buf_ring *array;

static void *new_area(void)
{
	void *area = mmap(NULL, AREA, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	REQUIRE(area != MAP_FAILED);
	return area;
}

static struct io_uring_sqe *provide(struct uring *ring, int group, int first,
				    int nr, uint32_t bytes)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_PROVIDE_BUFFERS, nr, memory[first],
		       bytes, (uint64_t)first);

	sqe->buf_group = (uint16_t)group;
	return sqe;
}

static struct io_uring_sqe *take_away(struct uring *ring, int group, int nr)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_REMOVE_BUFFERS, nr);

	sqe->buf_group = (uint16_t)group;
	return sqe;
}

static struct io_uring_sqe *read_to(struct uring *ring, int group, int fd,
				    size_t len)
{
	struct io_uring_sqe *sqe =
		sqe_rw(ring, IORING_OP_READ, fd, NULL, len, 0);

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = (uint16_t)group;
	return sqe;
}

static long set_array(const struct uring *ring, int group, uint32_t entries,
		      int flags)
{
	struct buf_reg reg = { .ring_addr = (uintptr_t)array,
			       .ring_entries = entries,
			       .bgid = (uint16_t)group,
			       .flags = (uint16_t)flags };

	return uring_register(ring->fd, IORING_REGISTER_PBUF_RING, &reg, 1);
}

static long unset_array(const struct uring *ring, int group)
{
	struct buf_reg reg = { .bgid = (uint16_t)group };

	return uring_register(ring->fd, IORING_UNREGISTER_PBUF_RING, &reg, 1);
}

static void append(int bid, void *addr, uint32_t bytes)
{
	uint16_t tail = array->tail;
	/*
	 * Set the members one by one: in the first entry of the array, the reserved
	 * member holds the ring's tail.
	 */
	struct io_uring_buf *buf =
		(struct io_uring_buf *)array + (tail & (ENTRIES - 1));

	buf->addr = (uintptr_t)addr;
	buf->len = bytes;
	buf->bid = (uint16_t)bid;
	__atomic_store_n(&array->tail, (uint16_t)(tail + 1), __ATOMIC_RELEASE);
}

static void append_some(int first, int nr, uint32_t bytes)
{
	int i;

	for (i = first; i < first + nr; i++)
		append(i, memory[i], bytes);
}

/* Creates a ring that has an array of buffers as buffer group 3. */
static struct uring prepare(int flags)
{
	struct uring ring = new_uring(16, 0);

	array = new_area();
	REQUIRE(set_array(&ring, 3, ENTRIES, flags) == 0);
	return ring;
}

static void note_head(const char *key, const struct uring *ring, int group)
{
	struct buf_status status = { .group = (uint32_t)group };
	long ret = uring_register(ring->fd, REGISTER_PBUF_STATUS, &status, 1);
	char name[64];

	snprintf(name, sizeof(name), "%s.head", key);
	note(name, ret < 0 ? ret : (long)status.head);
}

static void try_all(const char *key, struct uring *ring)
{
	char name[64];

	try_sqe(key, ring);
	snprintf(name, sizeof(name), "%s.left", key);
	take_away(ring, 1, 1);
	try_sqe(name, ring);
}

static void mistakes_of_providing(void)
{
	struct uring ring = new_uring(16, 0);
	char *area = new_area();
	struct io_uring_sqe *sqe;

	provide(&ring, 1, 0, 0, BYTES);
	try_all("none", &ring);
	provide(&ring, 1, 0, -1, BYTES);
	try_all("-1", &ring);
	provide(&ring, 1, 0, 65537, BYTES);
	try_all("65537", &ring);
	provide(&ring, 1, 0, 1, 0);
	try_all("no_bytes", &ring);
	provide(&ring, 1, 0, 1, BYTES)->off = 65536;
	try_all("id_65536", &ring);
	provide(&ring, 1, 0, 2, BYTES)->off = 65535;
	try_all("id_65535_and_next", &ring);
	provide(&ring, 1, 0, 1, BYTES)->off = 65535;
	try_all("id_65535", &ring);
	provide(&ring, 1, 0, 1, BYTES)->addr = (uintptr_t)KERNEL_ADDRESS;
	try_all("kernel", &ring);
	provide(&ring, 1, 0, 2, ~0u)->addr = ~0ull - 4;
	try_all("overflow", &ring);
	provide(&ring, 1, 0, 1, BYTES)->addr = 0;
	try_all("null", &ring);
	sqe = provide(&ring, 1, 0, 1, BYTES);
	sqe->rw_flags = 1;
	try_all("flags", &ring);
	sqe = provide(&ring, 1, 0, 1, BYTES);
	sqe->splice_fd_in = 1;
	try_all("splice_fd_in", &ring);
	provide(&ring, 1, 0, 1, BYTES)->ioprio = 1;
	try_all("ioprio", &ring);
	provide(&ring, 1, 0, 1, BYTES)->flags = IOSQE_BUFFER_SELECT;
	try_all("select", &ring);
	provide(&ring, 1, 0, 1, BYTES)->flags = IOSQE_FIXED_FILE;
	try_all("fixed", &ring);
	provide(&ring, 1, 0, 1, BYTES)->flags = IOSQE_ASYNC;
	try_all("async", &ring);
	provide(&ring, 1, 0, 1, BYTES)->addr3 = 1;
	try_all("addr3", &ring);
	sqe = provide(&ring, 1, 0, 4000, 1);
	sqe->addr = (uintptr_t)area;
	try_all("many", &ring);
	take_away(&ring, 1, 65536);
	try_sqe("many_removed", &ring);
	sqe = provide(&ring, 1, 0, 65535, 1);
	sqe->addr = (uintptr_t)area;
	try_sqe("65535", &ring);
	provide(&ring, 1, 0, 1, BYTES);
	try_sqe("one_more", &ring);
	take_away(&ring, 1, 65536);
	try_sqe("removed", &ring);
	sqe = provide(&ring, 1, 0, 65536, 1);
	sqe->addr = (uintptr_t)area;
	try_sqe("65536", &ring);
	take_away(&ring, 1, 65536);
	try_sqe("all", &ring);
}

static void mistakes_of_removing(void)
{
	struct uring ring = prepare(0);
	struct io_uring_sqe *sqe;

	take_away(&ring, 1, 1);
	try_sqe("no_group", &ring);
	take_away(&ring, 3, 1);
	try_sqe("array", &ring);
	provide(&ring, 3, 0, 1, BYTES);
	try_sqe("to_array", &ring);
	provide(&ring, 1, 0, 3, BYTES);
	try_sqe("provide", &ring);
	take_away(&ring, 1, 0);
	try_sqe("none", &ring);
	take_away(&ring, 1, 65537);
	try_sqe("65537", &ring);
	take_away(&ring, 1, -1);
	try_sqe("-1", &ring);
	take_away(&ring, 1, 1)->addr = 1;
	try_sqe("addr", &ring);
	take_away(&ring, 1, 1)->len = 1;
	try_sqe("len", &ring);
	take_away(&ring, 1, 1)->off = 1;
	try_sqe("off", &ring);
	take_away(&ring, 1, 1)->rw_flags = 1;
	try_sqe("flags", &ring);
	sqe = take_away(&ring, 1, 1);
	sqe->splice_fd_in = 1;
	try_sqe("splice_fd_in", &ring);
	take_away(&ring, 1, 1)->ioprio = 1;
	try_sqe("ioprio", &ring);
	take_away(&ring, 1, 2);
	try_sqe("two", &ring);
	take_away(&ring, 1, 2);
	try_sqe("rest", &ring);
	take_away(&ring, 1, 2);
	try_sqe("empty", &ring);
	note_result("instead", set_array(&ring, 1, ENTRIES, 0));
	note_result("unset", unset_array(&ring, 1));
	take_away(&ring, 1, 2);
	try_sqe("gone", &ring);
}

static void mistakes_with_arrays(void)
{
	struct uring ring = new_uring(16, 0);
	struct buf_reg reg = { .ring_entries = ENTRIES, .bgid = 3 };
	struct buf_status status = { .group = 3 };
	struct buf_reg bad;
	uint32_t nr;

	array = new_area();
	reg.ring_addr = (uintptr_t)array;
#define TRY(key, call, from, n) \
	note_result(key, uring_register(ring.fd, IORING_##call, from, n))
	TRY("null", REGISTER_PBUF_RING, NULL, 1);
	TRY("nr_0", REGISTER_PBUF_RING, &reg, 0);
	TRY("nr_2", REGISTER_PBUF_RING, &reg, 2);
	TRY("kernel", REGISTER_PBUF_RING, KERNEL_ADDRESS, 1);
	for (nr = 0; nr < 3; nr++) {
		bad = reg;
		bad.resv[nr] = 1;
		TRY("reserved", REGISTER_PBUF_RING, &bad, 1);
	}
	bad = reg;
	bad.flags = 4;
	TRY("flags", REGISTER_PBUF_RING, &bad, 1);
	bad = reg;
	bad.flags = 0x8000;
	TRY("flags_high", REGISTER_PBUF_RING, &bad, 1);
	bad = reg;
	bad.ring_addr = 0;
	TRY("no_memory", REGISTER_PBUF_RING, &bad, 1);
	bad = reg;
	bad.ring_addr += 16;
	TRY("not_a_page", REGISTER_PBUF_RING, &bad, 1);
	bad = reg;
	bad.ring_addr = (uintptr_t)KERNEL_ADDRESS & ~4095ul;
	TRY("of_kernel", REGISTER_PBUF_RING, &bad, 1);
	bad = reg;
	bad.ring_addr = ~4095ul;
	TRY("last_page", REGISTER_PBUF_RING, &bad, 1);
	bad = reg;
	bad.ring_addr = 4096;
	TRY("unmapped", REGISTER_PBUF_RING, &bad, 1);
	REQUIRE(mprotect(array, 4096, PROT_READ) == 0);
	TRY("read_only", REGISTER_PBUF_RING, &reg, 1);
	REQUIRE(mprotect(array, 4096, PROT_READ | PROT_WRITE) == 0);
	for (nr = 0; nr <= 65537; nr = nr ? nr * 3 : 3) {
		char key[32];

		bad = reg;
		bad.ring_entries = nr;
		snprintf(key, sizeof(key), "entries_%u", nr);
		TRY(key, REGISTER_PBUF_RING, &bad, 1);
	}
	bad = reg;
	bad.ring_entries = 65536;
	TRY("entries_65536", REGISTER_PBUF_RING, &bad, 1);
	bad.ring_addr += 16;
	bad.ring_entries = 3;
	bad.flags = 4;
	TRY("all", REGISTER_PBUF_RING, &bad, 1);
	TRY("unset_none", UNREGISTER_PBUF_RING, &reg, 1);
	note_result("status_none",
		    uring_register(ring.fd, REGISTER_PBUF_STATUS, &status, 1));
	TRY("right", REGISTER_PBUF_RING, &reg, 1);
	TRY("twice", REGISTER_PBUF_RING, &reg, 1);
	provide(&ring, 1, 0, 1, BYTES);
	try_sqe("provide", &ring);
	bad = reg;
	bad.bgid = 1;
	TRY("list", REGISTER_PBUF_RING, &bad, 1);
	TRY("unset_list", UNREGISTER_PBUF_RING, &bad, 1);
	bad.bgid = 2;
	TRY("unset_other", UNREGISTER_PBUF_RING, &bad, 1);
	TRY("unset_null", UNREGISTER_PBUF_RING, NULL, 1);
	TRY("unset_nr_0", UNREGISTER_PBUF_RING, &reg, 0);
	TRY("unset_kernel", UNREGISTER_PBUF_RING, KERNEL_ADDRESS, 1);
	bad = reg;
	bad.flags = 1;
	TRY("unset_flags", UNREGISTER_PBUF_RING, &bad, 1);
	for (nr = 0; nr < 3; nr++) {
		bad = reg;
		bad.resv[nr] = 1;
		TRY("unset_reserved", UNREGISTER_PBUF_RING, &bad, 1);
		TRY("right", REGISTER_PBUF_RING, &reg, 1);
	}
#undef TRY
#define TRY(key, from, n) \
	note_result(key, uring_register(ring.fd, REGISTER_PBUF_STATUS, from, n))
	TRY("status", &status, 1);
	TRY("status_null", NULL, 1);
	TRY("status_nr_0", &status, 0);
	TRY("status_nr_2", &status, 2);
	TRY("status_kernel", KERNEL_ADDRESS, 1);
	status.resv[7] = 1;
	TRY("status_reserved", &status, 1);
	status = (struct buf_status){ .group = 1 };
	TRY("status_list", &status, 1);
	status = (struct buf_status){ .group = 65539 };
	TRY("status_high", &status, 1);
#undef TRY
	note_result("unset", unset_array(&ring, 3));
	note_result("unset_again", unset_array(&ring, 3));
	note_result("again", set_array(&ring, 3, 1, 0));
	note_result("large", set_array(&ring, 4, 4096, 0));
}

static void lists(void)
{
	struct uring ring = new_uring(16, 0);
	int fd = file_of("f", 100, O_RDWR);

	read_to(&ring, 1, fd, 10);
	try_sqe("no_group", &ring);
	provide(&ring, 1, 0, 3, BYTES);
	try_sqe("provide", &ring);
	read_to(&ring, 1, fd, 10);
	try_sqe("ten", &ring);
	note_text("bytes", memcmp(memory[0], memory[1], 10) ? "read" : "none");
	read_to(&ring, 1, fd, 0);
	try_sqe("whole", &ring);
	provide(&ring, 1, 5, 1, 8);
	try_sqe("provide_small", &ring);
	read_to(&ring, 1, fd, 1000);
	try_sqe("more", &ring);
	read_to(&ring, 1, fd, 1000);
	try_sqe("small", &ring);
	read_to(&ring, 1, fd, 1000);
	try_sqe("empty", &ring);
	read_to(&ring, 2, fd, 1000);
	try_sqe("other", &ring);
}

/*
 * Prints what remains of the buffer group. Of a list, it prints which buffers remain,
 * and removes them. Of an array (group 3), it prints the head, and registers an empty
 * array in its place.
 */
static void note_fate(const char *key, struct uring *ring, int group)
{
	char name[64];

	if (group == 3) {
		note_head(key, ring, 3);
		unset_array(ring, 3);
		array = new_area();
		REQUIRE(set_array(ring, 3, ENTRIES, 0) == 0);
		return;
	}
	snprintf(name, sizeof(name), "%s.left", key);
	take_away(ring, 1, 100);
	try_sqe(name, ring);
}

/* Provides two buffers to the group. */
static void two_of(struct uring *ring, int group)
{
	if (group == 3) {
		append_some(0, 2, BYTES);
		return;
	}
	provide(ring, 1, 0, 2, BYTES);
	try_sqe("provide", ring);
}

static void fates(int group)
{
	struct uring ring = prepare(0);
	int fd = file_of("f", 100, O_RDWR), writes = open("f", O_WRONLY);
	int ends[2], dir = open(".", O_RDONLY), zero = open("/dev/zero", 0);
	struct io_uring_sqe *sqe;

	REQUIRE(pipe(ends) == 0);
	if (group == 1) {
		provide(&ring, 1, 0, 1, BYTES);
		try_sqe("provide", &ring);
		take_away(&ring, 1, 1);
		try_sqe("remove", &ring);
	}
#define TRY(key, fd, len)                       \
	do {                                    \
		two_of(&ring, group);           \
		read_to(&ring, group, fd, len); \
		try_sqe(key, &ring);            \
		note_fate(key, &ring, group);   \
	} while (0)
	TRY("file", fd, 10);
	two_of(&ring, group);
	read_to(&ring, group, fd, 10)->off = 100;
	try_sqe("end", &ring);
	note_fate("end", &ring, group);
	two_of(&ring, group);
	read_to(&ring, group, fd, 10)->off = 95;
	try_sqe("short", &ring);
	note_fate("short", &ring, group);
	two_of(&ring, group);
	read_to(&ring, group, fd, 10)->off = (uint64_t)-2;
	try_sqe("offset", &ring);
	note_fate("offset", &ring, group);
	two_of(&ring, group);
	read_to(&ring, group, fd, 10)->rw_flags = 1 << 20;
	try_sqe("flags", &ring);
	note_fate("flags", &ring, group);
	two_of(&ring, group);
	read_to(&ring, group, fd, 10)->ioprio = 0xffff;
	try_sqe("ioprio", &ring);
	note_fate("ioprio", &ring, group);
	TRY("write_only", writes, 10);
	TRY("closed", 77777, 10);
	TRY("directory", dir, 10);
	TRY("zero", zero, 10);
	REQUIRE(write(ends[1], memory, 5) == 5);
	TRY("pipe", ends[0], 10);
	TRY("pipe_write_end", ends[1], 10);
	REQUIRE(write(ends[1], memory, 5) == 5);
	two_of(&ring, group);
	sqe = read_to(&ring, group, ends[0], 10);
	sqe->flags |= IOSQE_ASYNC;
	try_sqe("pipe_async", &ring);
	note_fate("pipe_async", &ring, group);
	two_of(&ring, group);
	read_to(&ring, group, ends[0], 10)->rw_flags = 8; /* RWF_NOWAIT */
	try_sqe("pipe_nowait", &ring);
	note_fate("pipe_nowait", &ring, group);
	two_of(&ring, group);
	sqe = read_to(&ring, group, fd, 10);
	sqe->flags |= IOSQE_ASYNC;
	try_sqe("file_async", &ring);
	note_fate("file_async", &ring, group);
	close(ends[1]);
	TRY("pipe_end", ends[0], 10);
#undef TRY
}

static void fates_in_lists(void)
{
	fates(1);
}

static void fates_in_arrays(void)
{
	fates(3);
}

/* Buffers at addresses to which the client may not write. */
static void bad_memory(void)
{
	struct uring ring = prepare(0);
	int fd = file_of("f", 100, O_RDWR), ends[2];
	struct io_uring_sqe *sqe;

	REQUIRE(pipe(ends) == 0);
	REQUIRE(write(ends[1], memory, 5) == 5);
	append(9, (void *)4096, BYTES);
	read_to(&ring, 3, ends[0], 10);
	try_sqe("pipe", &ring);
	note_head("pipe", &ring, 3);
	read_to(&ring, 3, fd, 10);
	try_sqe("file", &ring);
	note_head("file", &ring, 3);
	append(9, KERNEL_ADDRESS, BYTES);
	read_to(&ring, 3, ends[0], 10);
	try_sqe("kernel_pipe", &ring);
	note_head("kernel_pipe", &ring, 3);
	read_to(&ring, 3, fd, 10);
	try_sqe("kernel_file", &ring);
	note_head("kernel_file", &ring, 3);
	sqe = provide(&ring, 1, 0, 2, BYTES);
	sqe->addr = 4096;
	try_sqe("provide", &ring);
	read_to(&ring, 1, ends[0], 10);
	try_sqe("list_pipe", &ring);
	read_to(&ring, 1, fd, 10);
	try_sqe("list_file", &ring);
	take_away(&ring, 1, 2);
	try_sqe("left", &ring);
}

static void arrays(void)
{
	struct uring ring = prepare(0);
	int fd = file_of("f", 100, O_RDWR), i;

	read_to(&ring, 3, fd, 10);
	try_sqe("empty", &ring);
	append_some(0, 3, BYTES);
	append(700, memory[3], 8);
	append(65535, memory[4], 0);
	for (i = 0; i < 6; i++) {
		char key[32];

		snprintf(key, sizeof(key), "read_%d", i);
		read_to(&ring, 3, fd, i == 1 ? 0 : i == 2 ? 1000 : 10);
		try_sqe(key, &ring);
		note_head(key, &ring, 3);
	}
	for (i = 0; i < 20; i++) {
		append(i, memory[0], 1);
		read_to(&ring, 3, fd, 1);
		uring_submit(&ring);
	}
	note_cqes("round", &ring, 20);
	note_head("round", &ring, 3);
	/* Adds more buffers than the array has entries. */
	for (i = 0; i < 12; i++)
		append(i, memory[0], 1);
	read_to(&ring, 3, fd, 1);
	try_sqe("too_many", &ring);
}

static void some(const char *key, struct uring *ring, int group, int first,
		 int nr)
{
	if (group == 3) {
		append_some(first, nr, BYTES);
		return;
	}
	provide(ring, 1, first, nr, BYTES);
	try_sqe(key, ring);
}

static void waiting(int group)
{
	struct uring ring = prepare(0);
	struct io_uring_sqe *sqe;
	int ends[2], others[2];
	uint64_t target;

	REQUIRE(pipe(ends) == 0 && pipe(others) == 0);
	some("provide", &ring, group, 0, 2);
	read_to(&ring, group, ends[0], 10);
	read_to(&ring, group, others[0], 10);
	note_result("submitted", uring_submit(&ring));
	note("ready", uring_settle(&ring));
	note_head("waiting", &ring, 3);
	REQUIRE(write(others[1], "abc", 3) == 3);
	note_cqes("second", &ring, 1);
	note_head("second", &ring, 3);
	REQUIRE(write(ends[1], "abcde", 5) == 5);
	note_cqes("first", &ring, 1);
	note_head("first", &ring, 3);
	read_to(&ring, group, ends[0], 10);
	try_sqe("none", &ring);
	/* Cancel a read that waits. */
	some("provide_one", &ring, group, 3, 1);
	target = read_to(&ring, group, ends[0], 10)->user_data;
	uring_submit(&ring);
	sqe = sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1);
	sqe->addr = target;
	uring_submit(&ring);
	note_cqes("cancelled", &ring, 2);
	note_head("cancelled", &ring, 3);
	/*
	 * While a read waits, take away the only buffer. From a list (group 1), remove
	 * the buffer. From an array, let a read of another pipe select the buffer.
	 */
	some("provide_another", &ring, group, 4, 1);
	read_to(&ring, group, ends[0], 10);
	uring_submit(&ring);
	if (group == 1) {
		take_away(&ring, 1, 10);
		try_sqe("remove", &ring);
	} else {
		REQUIRE(write(others[1], "abc", 3) == 3);
		read_to(&ring, 3, others[0], 10);
		try_sqe("other", &ring);
		read_to(&ring, 3, others[0], 10);
		note_result("other_waits", uring_submit(&ring));
		note_result("unset", unset_array(&ring, 3));
	}
	REQUIRE(write(ends[1], "abcde", 5) == 5);
	note_cqes("last", &ring, 1);
}

static void waiting_for_lists(void)
{
	waiting(1);
}

static void waiting_for_arrays(void)
{
	waiting(3);
}

static void links(void)
{
	struct uring ring = prepare(0);
	int fd = file_of("f", 100, O_RDWR), ends[2];

	REQUIRE(pipe(ends) == 0);
	provide(&ring, 1, 0, 1, BYTES)->flags = IOSQE_IO_LINK;
	read_to(&ring, 1, fd, 10);
	note_result("provided", uring_submit(&ring));
	note_cqes("provided", &ring, 2);
	provide(&ring, 1, 0, 1, BYTES)->flags = IOSQE_IO_LINK;
	REQUIRE(write(ends[1], "abcde", 5) == 5);
	read_to(&ring, 1, ends[0], 10);
	note_result("for_pipe", uring_submit(&ring));
	note_cqes("for_pipe", &ring, 2);
	append_some(0, 8, BYTES);
	read_to(&ring, 3, fd, 1000)->flags |= IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("whole", uring_submit(&ring));
	note_cqes("whole", &ring, 2);
	read_to(&ring, 3, fd, 0)->flags |= IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("whole_0", uring_submit(&ring));
	note_cqes("whole_0", &ring, 2);
	read_to(&ring, 3, fd, 10)->flags |= IOSQE_IO_LINK;
	ring.sqes[(ring.prepared - 1) & ring.sq_mask].off = 95;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("short", uring_submit(&ring));
	note_cqes("short", &ring, 2);
	REQUIRE(write(ends[1], memory, BYTES) == BYTES);
	read_to(&ring, 3, ends[0], 1000)->flags |= IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("pipe", uring_submit(&ring));
	note_cqes("pipe", &ring, 2);
	REQUIRE(write(ends[1], memory, 5) == 5);
	read_to(&ring, 3, ends[0], 0)->flags |= IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("pipe_short", uring_submit(&ring));
	note_cqes("pipe_short", &ring, 2);
	take_away(&ring, 7, 1)->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("remove", uring_submit(&ring));
	note_cqes("remove", &ring, 2);
	read_to(&ring, 7, fd, 10)->flags |= IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("no_buffer", uring_submit(&ring));
	note_cqes("no_buffer", &ring, 2);
	read_to(&ring, 3, fd, 10)->flags |= IOSQE_IO_DRAIN;
	note_result("drain", uring_submit(&ring));
	note_cqes("drain", &ring, 1);
	note_head("drain", &ring, 3);
}

static void skipping(void)
{
	struct uring ring = prepare(0);
	int fd = file_of("f", 100, O_RDWR);

	append_some(0, 8, BYTES);
	read_to(&ring, 3, fd, 10)->flags |= IOSQE_CQE_SKIP_SUCCESS;
	read_to(&ring, 3, fd, 1000)->flags |= IOSQE_CQE_SKIP_SUCCESS;
	ring.sqes[(ring.prepared - 1) & ring.sq_mask].off = 95;
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("skipped", uring_submit(&ring));
	note_cqes("skipped", &ring, 2);
	note_head("skipped", &ring, 3);
}

static void vectors(void)
{
	struct uring ring = prepare(0);
	int fd = file_of("f", 100, O_RDWR), ends[2], i;
	struct iovec iov[2] = { { NULL, 10 }, { NULL, 10 } };
	static const struct {
		const char *key;
		size_t bytes;
		uint32_t nr;
	} tries[] = {
		{ "ten", 10, 1 },       { "none", 10, 0 },
		{ "two", 10, 2 },       { "whole", 0, 1 },
		{ "more", 1000, 1 },    { "huge", ~0ul, 1 },
		{ "4g", 1ul << 32, 1 }, { NULL, 0, 0 },
	};

	REQUIRE(pipe(ends) == 0);
	append_some(0, 8, BYTES);
	for (i = 0; tries[i].key; i++) {
		iov[0].iov_len = tries[i].bytes;
		read_to(&ring, 3, fd, 10);
		ring.sqes[(ring.prepared - 1) & ring.sq_mask].opcode =
			IORING_OP_READV;
		ring.sqes[(ring.prepared - 1) & ring.sq_mask].addr =
			(uintptr_t)iov;
		ring.sqes[(ring.prepared - 1) & ring.sq_mask].len = tries[i].nr;
		try_sqe(tries[i].key, &ring);
		note_head(tries[i].key, &ring, 3);
	}
	read_to(&ring, 3, fd, 1)->opcode = IORING_OP_READV;
	try_sqe("null", &ring);
	iov[0].iov_len = 3;
	sqe_rw(&ring, IORING_OP_READV, ends[0], iov, 1, 0)->flags =
		IOSQE_BUFFER_SELECT;
	ring.sqes[(ring.prepared - 1) & ring.sq_mask].buf_group = 3;
	uring_submit(&ring);
	/*
	 * Change the iovec, which must have no effect: the kernel copied it when the
	 * request was submitted.
	 */
	iov[0].iov_len = 5;
	REQUIRE(write(ends[1], "abcde", 5) == 5);
	note_cqes("pipe", &ring, 1);
}

static void note_entry(const char *key, int place)
{
	const struct io_uring_buf *buf =
		(const struct io_uring_buf *)array + place;
	char text[64];

	snprintf(text, sizeof(text), "%ld+%u",
		 buf->addr ? (long)(buf->addr - (uintptr_t)memory) : -1L,
		 buf->len);
	note_text(key, text);
}

static void incremental(void)
{
	struct uring ring = prepare(PBUF_RING_INC);
	int fd = file_of("f", 100, O_RDWR), ends[2], i;
	static const struct {
		int from;
		uint32_t len;
		int64_t off;
	} tries[] = {
		{ 'f', 10, 0 },  { 'f', 10, 95 }, { 'f', 10, 100 },
		{ 'p', 10, 0 },  { 'p', 2, 0 },   { 'p', 0, 0 },
		{ 'e', 10, 0 },  { 'f', 0, 0 },   { 'p', 100, 0 },
		{ 'f', 100, 0 }, { 'p', 10, 0 },  { 'f', 31, 0 },
		{ 'p', 1, 0 },   { 'f', 0, 90 },  { 0, 0, 0 },
	};

	REQUIRE(pipe(ends) == 0);
	append_some(0, 6, BYTES);
	for (i = 0; tries[i].from; i++) {
		char key[32], name[64];

		snprintf(key, sizeof(key), "%d_%c", i, tries[i].from);
		if (tries[i].from == 'p')
			REQUIRE(write(ends[1], "abcdef", 6) == 6);
		read_to(&ring, 3,
			tries[i].from == 'f'   ? fd
			: tries[i].from == 'p' ? ends[0]
					       : ends[1],
			tries[i].len)
			->off = (uint64_t)tries[i].off;
		try_sqe(key, &ring);
		note_head(key, &ring, 3);
		snprintf(name, sizeof(name), "%s.first", key);
		note_entry(name, 0);
		snprintf(name, sizeof(name), "%s.second", key);
		note_entry(name, 1);
		snprintf(name, sizeof(name), "%s.third", key);
		note_entry(name, 2);
	}
}

static void incremental_waiting(void)
{
	struct uring ring = prepare(PBUF_RING_INC);
	static const int bytes[] = { 6, 26, 6, 20 };
	int ends[2], others[2];
	unsigned i;

	REQUIRE(pipe(ends) == 0 && pipe(others) == 0);
	append_some(0, 3, BYTES);
	/*
	 * A read of the pipe `others` waits all the time. In each step a read of the
	 * pipe `ends` waits, and then data is written to `ends`.
	 */
	read_to(&ring, 3, others[0], 10);
	uring_submit(&ring);
	for (i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		char key[32];

		read_to(&ring, 3, ends[0], 32);
		uring_submit(&ring);
		REQUIRE(write(ends[1], memory, (size_t)bytes[i]) == bytes[i]);
		snprintf(key, sizeof(key), "%u", i);
		note_cqes(key, &ring, 1);
		note_head(key, &ring, 3);
		note_entry("first", 0);
		note_entry("second", 1);
	}
	REQUIRE(write(others[1], memory, 12) == 12);
	note_cqes("other", &ring, 1);
	note_head("other", &ring, 3);
	read_to(&ring, 3, ends[0], 32);
	uring_submit(&ring);
	close(ends[1]);
	note_cqes("end", &ring, 1);
	note_head("end", &ring, 3);
	note_entry("third", 2);
}

/*
 * Several reads fill one buffer in turn. Meanwhile the client makes the array of
 * buffers inaccessible, unmaps it, and maps other memory there.
 */
static void taken_away(void)
{
	enum { ARRAY_BYTES = 4096 };
	struct uring ring = prepare(PBUF_RING_INC);
	int ends[2];

	REQUIRE(pipe(ends) == 0);
	append_some(0, 1, BYTES);
	for (int i = 0; i < 5; i++) {
		char key[32];

		if (i == 1)
			REQUIRE(mprotect(array, ARRAY_BYTES, PROT_READ) == 0);
		if (i == 2)
			REQUIRE(mprotect(array, ARRAY_BYTES, PROT_NONE) == 0);
		if (i == 3)
			REQUIRE(munmap(array, ARRAY_BYTES) == 0);
		if (i == 4)
			REQUIRE(mmap(array, ARRAY_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
				     -1, 0) == (void *)array);
		REQUIRE(write(ends[1], "abcdef", 6) == 6);
		read_to(&ring, 3, ends[0], 6);
		snprintf(key, sizeof(key), "%d", i);
		try_sqe(key, &ring);
		note_head(key, &ring, 3);
	}
	note_entry("not_written", 0);
}

static struct io_uring_sqe *shots_to(struct uring *ring, int group, int fd)
{
	struct io_uring_sqe *sqe = read_to(ring, group, fd, 0);

	sqe->opcode = OP_READ_MULTISHOT;
	return sqe;
}

static void mistakes_of_shots(void)
{
	struct uring ring = prepare(0);
	int fd = file_of("f", 100, O_RDWR), zero = open("/dev/zero", 0);
	int ends[2];

	REQUIRE(pipe(ends) == 0);
	shots_to(&ring, 3, ends[0]);
	try_sqe("no_buffer", &ring);
	append_some(0, 4, BYTES);
	shots_to(&ring, 3, fd);
	try_sqe("file", &ring);
	shots_to(&ring, 3, zero);
	try_sqe("zero", &ring);
	shots_to(&ring, 3, ends[1]);
	try_sqe("write_end", &ring);
	shots_to(&ring, 3, 77777);
	try_sqe("closed", &ring);
	shots_to(&ring, 3, ends[0])->flags = 0;
	try_sqe("no_select", &ring);
	shots_to(&ring, 3, ends[0])->len = 10;
	try_sqe("len", &ring);
	shots_to(&ring, 3, ends[0])->addr = 4096;
	try_sqe("addr", &ring);
	shots_to(&ring, 3, ends[0])->rw_flags = 1 << 20;
	try_sqe("flags", &ring);
	shots_to(&ring, 3, ends[0])->ioprio = 0xffff;
	try_sqe("ioprio", &ring);
	shots_to(&ring, 7, fd);
	try_sqe("file_without_group", &ring);
	note_head("all", &ring, 3);
}

/* Prints each shot (completion) of a multishot read, and how the read ends. */
static void shots(int group, int flags)
{
	struct uring ring = prepare(flags);
	struct io_uring_sqe *sqe;
	int ends[2], others[2], i;
	uint64_t target;

	REQUIRE(pipe(ends) == 0 && pipe(others) == 0);
	some("provide", &ring, group, 0, 4);
	REQUIRE(write(ends[1], "abcde", 5) == 5);
	target = shots_to(&ring, group, ends[0])->user_data;
	note_result("submitted", uring_submit(&ring));
	note_cqes("there", &ring, 1);
	for (i = 0; i < 2; i++) {
		REQUIRE(write(ends[1], "abcde", 5) == 5);
		note_cqes("shot", &ring, 1);
	}
	sqe = sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1);
	sqe->addr = target;
	uring_submit(&ring);
	note_cqes("cancelled", &ring, 2);
	note_head("cancelled", &ring, 3);
	shots_to(&ring, group, others[0]);
	note_result("submitted", uring_submit(&ring));
	REQUIRE(write(others[1], memory, 2 * BYTES + 5) == 2 * BYTES + 5);
	note_cqes("too_much", &ring, flags ? 3 : 2);
	note_head("too_much", &ring, 3);
	some("provide_more", &ring, group, 4, 2);
	REQUIRE(write(ends[1], "abcde", 5) == 5);
	shots_to(&ring, group, ends[0]);
	note_result("submitted", uring_submit(&ring));
	note_cqes("last", &ring, 1);
	close(ends[1]);
	note_cqes("end", &ring, 1);
	note_head("end", &ring, 3);
}

static void shots_to_a_list(void)
{
	shots(1, 0);
}

static void shots_to_an_array(void)
{
	shots(3, 0);
}

static void shots_little_by_little(void)
{
	shots(3, PBUF_RING_INC);
}

/* With IOSQE_ASYNC, a worker begins the multishot read before there is data. */
static void shots_by_a_worker(void)
{
	struct uring ring = prepare(0);
	int fd = eventfd(0, EFD_NONBLOCK), i;
	const uint64_t value = 1;

	REQUIRE(fd >= 0);
	some("provide", &ring, 1, 0, 4);
	shots_to(&ring, 1, fd)->flags |= IOSQE_ASYNC;
	note_result("submitted", uring_submit(&ring));
	/*
	 * Wait, so that the worker makes its first attempt to read before the data
	 * arrives. The program cannot see whether the worker has tried. A later attempt
	 * has the same result.
	 */
	usleep(20000);
	for (i = 0; i < 3; i++) {
		REQUIRE(write(fd, &value, sizeof(value)) == sizeof(value));
		note_cqes("shot", &ring, 1);
	}
}

/*
 * Arrays of buffers in the ring's memory, which the client maps (IOU_PBUF_RING_MMAP).
 */
static void mapped(void)
{
	struct uring ring = new_uring(16, 0);
	int fd = file_of("f", 100, O_RDWR);
	const uint64_t offset = 0x80000000ul | 5ul << 16;
	char *first;

	array = (void *)7;
	note_result("register", set_array(&ring, 5, ENTRIES, PBUF_RING_MMAP));
	note_result("again", set_array(&ring, 5, ENTRIES, PBUF_RING_MMAP));
	read_to(&ring, 5, fd, 10);
	try_sqe("empty", &ring);
	array = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_POPULATE, ring.fd, (off_t)offset);
	REQUIRE(array != MAP_FAILED);
	note("tail", array->tail);
	append_some(0, 3, BYTES);
	read_to(&ring, 5, fd, 10);
	try_sqe("read", &ring);
	note_head("read", &ring, 5);
	first = (char *)array;
	note_result("unset", unset_array(&ring, 5));
	read_to(&ring, 5, fd, 10);
	try_sqe("gone", &ring);
	note_result("incremental", set_array(&ring, 5, ENTRIES,
					     PBUF_RING_MMAP | PBUF_RING_INC));
	array = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
		     (off_t)offset);
	REQUIRE(array != MAP_FAILED);
	REQUIRE(munmap(first, 4096) == 0);
	note("tail", array->tail);
	append_some(0, 3, BYTES);
	read_to(&ring, 5, fd, 10);
	try_sqe("ten", &ring);
	note_entry("ten", 0);
	note_result("largest", set_array(&ring, 2047, 32768, PBUF_RING_MMAP));
	array = mmap(NULL, 32768 * 16, PROT_READ | PROT_WRITE, MAP_SHARED,
		     ring.fd, (off_t)(0x80000000ul | 2047ul << 16));
	REQUIRE(array != MAP_FAILED);
	note("tail", array->tail);
	append_some(0, 1, BYTES);
	read_to(&ring, 2047, fd, 10);
	try_sqe("of_largest", &ring);
	close(ring.fd);
	note("tail", array->tail);
}

/* Registers and unregisters arrays. One array exists until its ring is closed. */
static void lives(void)
{
	struct uring ring = prepare(0);
	int fd = file_of("f", 100, O_RDWR), i;

	append_some(0, 4, BYTES);
	read_to(&ring, 3, fd, 1);
	try_sqe("first", &ring);
	note_result("unset", unset_array(&ring, 3));
	note_result("again", set_array(&ring, 3, ENTRIES, 0));
	read_to(&ring, 3, fd, 1);
	try_sqe("from_the_start", &ring);
	provide(&ring, 4, 0, 2, BYTES);
	try_sqe("list", &ring);
	for (i = 0; i < 3; i++) {
		read_to(&ring, 4, fd, 1);
		try_sqe("of_list", &ring);
	}
	note_result("array_for_list", set_array(&ring, 4, ENTRIES, 0));
	read_to(&ring, 4, fd, 1);
	try_sqe("of_array", &ring);
	note_result("group_65535", set_array(&ring, 65535, ENTRIES, 0));
	read_to(&ring, 65535, fd, 1);
	try_sqe("of_65535", &ring);
	close(ring.fd);
	ring = new_uring(4, 0);
	read_to(&ring, 3, fd, 1);
	try_sqe("other_ring", &ring);
}

const struct row rows_uring_buffers[] = {
	ROW("mistakes of providing buffers", mistakes_of_providing),
	ROW("mistakes of removing buffers", mistakes_of_removing),
	ROW("mistakes with arrays of buffers", mistakes_with_arrays),
	ROW("buffers of a list are used in their order", lists),
	ROW("buffers of an array are used in their order", arrays),
	ROW("which requests use up a buffer of a list", fates_in_lists),
	ROW("which requests use up a buffer of an array", fates_in_arrays),
	ROW("buffers that cannot be written", bad_memory),
	ROW("a read that waits has no buffer of a list", waiting_for_lists),
	ROW("a read that waits has no buffer of an array", waiting_for_arrays),
	ROW("requests in chains select buffers", links),
	ROW("a short read with CQE_SKIP_SUCCESS posts a completion", skipping),
	ROW("vectored reads select buffers", vectors),
	ROW("a buffer is used up little by little", incremental),
	ROW("reads that wait use a buffer little by little",
	    incremental_waiting),
	ROW("a buffer is used up although its array is unmapped", taken_away),
	ROW("mistakes of multishot reads", mistakes_of_shots),
	ROW("each shot of a read has a buffer of a list", shots_to_a_list),
	ROW("each shot of a read has a buffer of an array", shots_to_an_array),
	ROW("shots of a read share a buffer", shots_little_by_little),
	ROW("a multishot read that a worker begins", shots_by_a_worker),
	ROW("an array is mapped from the ring", mapped),
	ROW("groups come and go", lives),
	NO_ROW,
};
