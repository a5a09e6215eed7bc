/* SPDX-License-Identifier: MIT */
/*
 * Provided buffers: a buffer is used by only one request at a time, and no buffer is
 * lost.
 */
#undef NDEBUG
#include "uring/kbuf.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "options/config.h"

#define RING_ENTRIES 64
#include "test-uring.h"

enum {
	GROUP = 7,
	NR_BUFS = 8,
	BYTES = 16,
	ARRAY_BYTES = 4096,
	SELECTED = IORING_CQE_F_BUFFER,
	MORE_OF_IT = IORING_CQE_F_BUF_MORE,
};

static char memory[NR_BUFS][BYTES];
static struct io_uring_buf_ring *array;
static int ends[2];

static uint32_t flags_of(unsigned bid)
{
	return SELECTED | bid << IORING_CQE_BUFFER_SHIFT;
}

static uint32_t min_left_of_array, reserved_of_array;

static long call_array(uint32_t opcode, uint16_t flags)
{
	struct io_uring_buf_reg reg = {
		.ring_addr = opcode == IORING_REGISTER_PBUF_RING
				     ? (uintptr_t)array
				     : 0,
		.ring_entries = NR_BUFS,
		.bgid = GROUP,
		.flags = flags,
		.min_left = min_left_of_array,
		.resv[0] = reserved_of_array,
	};

	return uaio_uring_register((uint32_t)client.fd, opcode, &reg, 1);
}

static void append(unsigned bid)
{
	uint16_t tail = load_relaxed(&array->tail);
	struct io_uring_buf *buf =
		(struct io_uring_buf *)array + (tail & (NR_BUFS - 1));

	store_relaxed(&buf->addr, (uintptr_t)memory[bid]);
	store_relaxed(&buf->len, (uint32_t)BYTES);
	store_relaxed(&buf->bid, (uint16_t)bid);
	store_release(&array->tail, (uint16_t)(tail + 1));
}

/* Make a pipe, and an array to which nr buffers are added. */
static void begin(unsigned nr, uint16_t flags)
{
	array = mmap(NULL, ARRAY_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(array, MAP_FAILED);
	assert_int_equal(call_array(IORING_REGISTER_PBUF_RING, flags), 0);
	for (unsigned i = 0; i < nr; i++)
		append(i);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
}

static void end(void)
{
	assert_int_equal(munmap(array, ARRAY_BYTES), 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static struct io_uring_sqe *put_read(int fd, uint32_t len, uint64_t user_data)
{
	struct io_uring_sqe *sqe =
		put_rw(&client, IORING_OP_READ, fd, NULL, len, 0, user_data);

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	return sqe;
}

static void assert_read(uint64_t user_data, int32_t res, uint32_t flags)
{
	struct io_uring_cqe cqe = get(&client);

	assert_cqe(&cqe, user_data, res, flags);
}

static uint32_t head(void)
{
	struct io_uring_buf_status status = { .buf_group = GROUP };

	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_PBUF_STATUS,
					     &status, 1),
			 0);
	return status.head;
}

static void a_list_gives_its_buffers_in_order(void **state)
{
	int fd = unit_numbered_file(false, 3);

	(void)state;
	put_rw(&client, IORING_OP_PROVIDE_BUFFERS, 3, memory, BYTES, 40, 1)
		->buf_group = GROUP;
	for (unsigned i = 0; i < 4; i++)
		put_read(fd, i, 2 + i)->off = (uint64_t)i % 3 * SIZE;
	put(&client, IORING_OP_REMOVE_BUFFERS, 1, 6)->buf_group = GROUP;
	submit(&client, 6);
	assert_got(&client, 1, 0);
	assert_read(2, BYTES, flags_of(40));
	assert_read(3, 1, flags_of(41));
	assert_read(4, 2, flags_of(42));
	assert_read(5, -ENOBUFS, 0);
	assert_got(&client, 6, 0);
	assert_int_equal(memory[1][0], 1);
	assert_int_equal(memory[2][0], 2);
	unit_close(fd);
}

static void a_read_has_its_buffer_when_it_reads(void **state)
{
	int others[2];

	(void)state;
	begin(2, 0);
	assert_int_equal(pipe2(others, O_CLOEXEC), 0);
	put_read(ends[0], 0, 1);
	put_read(others[0], 3, 2);
	submit(&client, 0);
	assert_none(&client);
	assert_int_equal(head(), 0);
	assert_int_equal(write(others[1], "abcd", 4), 4);
	assert_read(2, 3, flags_of(0));
	assert_int_equal(head(), 1);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_read(1, 1, flags_of(1));
	assert_int_equal(memory[0][2], 'c');
	assert_int_equal(memory[1][0], 'x');
	put_read(ends[0], 0, 3);
	submit(&client, 1);
	assert_read(3, -ENOBUFS, 0);
	unit_close(others[0]);
	unit_close(others[1]);
	end();
}

static void a_worker_keeps_the_buffer_that_it_waits_with(void **state)
{
	(void)state;
	begin(2, 0);
	uaio_config.force_worker = true;
	put_read(ends[0], 0, 1);
	submit(&client, 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_read(1, 1, flags_of(0));
	uaio_config.force_worker = false;
	assert_int_equal(head(), 1);
	end();
}

static void what_has_no_buffers_any_more_ends(void **state)
{
	(void)state;
	begin(2, 0);
	put_read(ends[0], 0, 1);
	submit(&client, 0);
	assert_none(&client);
	assert_int_equal(call_array(IORING_UNREGISTER_PBUF_RING, 0), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_read(1, -ENOBUFS, 0);
	end();
}

/*
 * The client unmaps an array of buffers, or reuses its memory for something else,
 * although the group still uses it. In the kernel the array would continue to work.
 */

static void read_one(uint64_t user_data, int32_t res, uint32_t flags)
{
	put_read(ends[0], 5, user_data);
	submit(&client, 0);
	assert_int_equal(write(ends[1], "abcde", 5), 5);
	assert_read(user_data, res, flags);
}

static void an_array_that_was_unmapped_is_empty(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		begin(2, i ? IOU_PBUF_RING_INC : 0);
		put_read(ends[0], 0, 1);
		submit(&client, 0);
		assert_none(&client);
		assert_int_equal(call_array(IORING_UNREGISTER_PBUF_RING, 0), 0);
		assert_int_equal(call_array(IORING_REGISTER_PBUF_RING,
					    i ? IOU_PBUF_RING_INC : 0),
				 0);
		assert_int_equal(mprotect(array, ARRAY_BYTES, PROT_NONE), 0);
		assert_int_equal(write(ends[1], "x", 1), 1);
		assert_read(1, -ENOBUFS, 0);
		assert_int_equal(call_array(IORING_UNREGISTER_PBUF_RING, 0), 0);
		end();
	}
}

/*
 * After an array was unmapped, requests select only entries that the library had read
 * ahead.
 */
static void an_array_that_is_unmapped_is_used_as_it_was(void **state)
{
	static const int prots[] = { PROT_READ, PROT_NONE };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		begin(2, IOU_PBUF_RING_INC);
		read_one(1, 5, flags_of(0) | MORE_OF_IT);
		assert_int_equal(mprotect(array, ARRAY_BYTES, prots[i]), 0);
		for (unsigned j = 0; j < 2; j++)
			read_one(2, 5, flags_of(0) | MORE_OF_IT);
		put_read(ends[0], 5, 3);
		submit(&client, 0);
		assert_int_equal(write(ends[1], "z", 1), 1);
		assert_read(3, 1, flags_of(0));
		assert_memory_equal(memory[0], "abcdeabcdeabcdez", BYTES);
		for (unsigned j = 0; j < 3; j++)
			read_one(4, 5, flags_of(1) | MORE_OF_IT);
		read_one(5, 1, flags_of(1));
		read_one(6, -ENOBUFS, 0);
		assert_int_equal(call_array(IORING_UNREGISTER_PBUF_RING, 0), 0);
		end();
	}
}

/*
 * The memory that is mapped at the array's address now belongs to the program, so the
 * library does not write it.
 */
static void what_is_in_an_arrays_place_is_left_alone(void **state)
{
	static char expected[ARRAY_BYTES];

	(void)state;
	memset(expected, 0xee, sizeof(expected));
	begin(2, IOU_PBUF_RING_INC);
	read_one(1, 5, flags_of(0) | MORE_OF_IT);
	assert_ptr_equal(mmap(array, ARRAY_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 array);
	memset(array, 0xee, ARRAY_BYTES);
	for (unsigned j = 0; j < 2; j++)
		read_one(2, 5, flags_of(0) | MORE_OF_IT);
	read_one(3, 1, flags_of(0));
	assert_memory_equal(array, expected, ARRAY_BYTES);
	assert_int_equal(call_array(IORING_UNREGISTER_PBUF_RING, 0), 0);
	end();
}

/* The array shows the unused part of a buffer, and the next request continues there. */
static void what_remains_is_in_the_array(void **state)
{
	const struct io_uring_buf *buf;

	(void)state;
	begin(2, IOU_PBUF_RING_INC);
	buf = (const struct io_uring_buf *)array;
	read_one(1, 5, flags_of(0) | MORE_OF_IT);
	assert_int_equal(load_relaxed(&buf->addr), (uintptr_t)memory[0] + 5);
	assert_int_equal(load_relaxed(&buf->len), BYTES - 5);
	assert_int_equal(call_array(IORING_UNREGISTER_PBUF_RING, 0), 0);
	assert_int_equal(
		call_array(IORING_REGISTER_PBUF_RING, IOU_PBUF_RING_INC), 0);
	read_one(2, 5, flags_of(0) | MORE_OF_IT);
	assert_memory_equal(memory[0], "abcdeabcde", 10);
	end();
}

/* atomic: how often the library has checked whether memory is writable */
static unsigned nr_probes;

static bool count_probes(long nr, const long args[6], long *ret_res)
{
	enum { COMMAND = 127, WAKE_OP = 5 };

	(void)ret_res;
	if (nr == SYS_futex && (args[1] & COMMAND) == WAKE_OP)
		add_relaxed(&nr_probes, 1);
	return false;
}

/*
 * Several reads that are executed in one run (ready/run.c) probe only once whether the
 * memory of their array of provided buffers is writable.
 */
static void reads_that_waited_probe_their_array_once(void **state)
{
	enum { NR = 6 };

	(void)state;
	begin(2, IOU_PBUF_RING_INC);
	for (unsigned i = 0; i < NR; i++)
		put_read(ends[0], 2, i);
	submit(&client, 0);
	store_relaxed(&nr_probes, 0);
	unit_hook(count_probes);
	assert_int_equal(write(ends[1], "aabbccddeeff", 2 * NR), 2 * NR);
	for (unsigned i = 0; i < NR; i++)
		assert_read(i, 2, flags_of(0) | MORE_OF_IT);
	unit_hook(NULL);
	assert_int_equal(load_relaxed(&nr_probes), 1);
	assert_memory_equal(memory[0], "aabbccddeeff", 2 * NR);
	assert_int_equal(call_array(IORING_UNREGISTER_PBUF_RING, 0), 0);
	end();
}

/* Linux 7.1: once a buffer has fewer than min_left bytes left, it counts as used up. */
static void a_buffer_with_too_little_left_is_used_up(void **state)
{
	const struct io_uring_buf *buf;

	(void)state;
	min_left_of_array = 6;
	begin(3, IOU_PBUF_RING_INC);
	buf = (const struct io_uring_buf *)array;
	read_one(1, 5, flags_of(0) | MORE_OF_IT);
	read_one(2, 5, flags_of(0) | MORE_OF_IT);
	assert_int_equal(load_relaxed(&buf->len), BYTES - 10);
	assert_int_equal(head(), 0);
	read_one(3, 5, flags_of(0));
	assert_int_equal(load_relaxed(&buf->len), 0);
	assert_int_equal(head(), 1);
	read_one(4, 5, flags_of(1) | MORE_OF_IT);
	/*
	 * A new array for the same group number has no min_left: its buffers are used
	 * to the last byte.
	 */
	assert_int_equal(call_array(IORING_UNREGISTER_PBUF_RING, 0), 0);
	min_left_of_array = 0;
	store_relaxed(&array->tail, (uint16_t)0);
	append(2);
	assert_int_equal(
		call_array(IORING_REGISTER_PBUF_RING, IOU_PBUF_RING_INC), 0);
	for (unsigned i = 0; i < 3; i++)
		read_one(5, 5, flags_of(2) | MORE_OF_IT);
	read_one(6, 1, flags_of(2));
	assert_int_equal(call_array(IORING_UNREGISTER_PBUF_RING, 0), 0);
	min_left_of_array = 6;
	assert_int_equal(call_array(IORING_REGISTER_PBUF_RING, 0), -EINVAL);
	reserved_of_array = 1;
	assert_int_equal(
		call_array(IORING_REGISTER_PBUF_RING, IOU_PBUF_RING_INC),
		-EINVAL);
	min_left_of_array = reserved_of_array = 0;
	end();
}

/*
 * The library reads entries of an array ahead. Requests use each of them once, also
 * where the array wraps around.
 */
static void an_array_is_used_in_its_order(void **state)
{
	unsigned bid;

	(void)state;
	begin(3, 0);
	for (unsigned round = 0; round < 5 * NR_BUFS; round++) {
		put_read(ends[0], 0, round);
		submit(&client, 0);
		assert_int_equal(write(ends[1], "x", 1), 1);
		bid = round < 3 ? round : round * 3 % NR_BUFS;
		assert_read(round, 1, flags_of(bid));
		append((round + 3) * 3 % NR_BUFS);
	}
	end();
}

static void an_array_is_in_the_rings_own_memory(void **state)
{
	const off_t off = (off_t)(IORING_OFF_PBUF_RING |
				  (uint64_t)GROUP << IORING_OFF_PBUF_SHIFT);
	struct rlimit limit, low;
	struct uring first = client;

	(void)state;
	begin(0, 0);
	assert_int_equal(call_array(IORING_UNREGISTER_PBUF_RING, 0), 0);
	assert_int_equal(munmap(array, ARRAY_BYTES), 0);
	assert_int_equal(
		call_array(IORING_REGISTER_PBUF_RING, IOU_PBUF_RING_MMAP), 0);
	array = mmap(NULL, ARRAY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		     client.fd, off);
	assert_ptr_not_equal(array, MAP_FAILED);
	append(3);
	put_read(ends[0], 0, 1);
	submit(&client, 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_read(1, 1, flags_of(3));
	/*
	 * With a low RLIMIT_FSIZE the ring's file has no room for arrays, so
	 * IOU_PBUF_RING_MMAP is refused.
	 */
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	low = limit;
	low.rlim_cur = 1u << 30;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	client_open(&client, 1, (struct io_uring_params){ 0 });
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(
		call_array(IORING_REGISTER_PBUF_RING, IOU_PBUF_RING_MMAP),
		-EINVAL);
	client_close(&client);
	client = first;
	end();
}

static void a_ring_ends_with_its_groups_and_what_waits_for_them(void **state)
{
	struct uring outer = client;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		client_open(&client, 8, (struct io_uring_params){ 0 });
		begin(2, 0);
		put_rw(&client, IORING_OP_PROVIDE_BUFFERS, NR_BUFS, memory,
		       BYTES, 0, 2);
		/*
		 * The ring may end before workers execute these requests. Then the
		 * buffers that they add must be freed, too.
		 */
		for (unsigned j = 0; j < 4; j++)
			put_rw(&client, IORING_OP_PROVIDE_BUFFERS, NR_BUFS,
			       memory, BYTES, 0, 3)
				->flags = IOSQE_ASYNC;
		put_read(ends[0], 0, 1);
		submit(&client, 0);
		client_close(&client);
		assert_int_equal(write(ends[1], "x", 1), 1);
		end();
	}
	client = outer;
}

static void a_buffer_is_used_little_by_little(void **state)
{
	(void)state;
	begin(2, IOU_PBUF_RING_INC);
	for (unsigned i = 0; i < 4; i++) {
		put_read(ends[0], 5, i);
		submit(&client, 0);
		assert_int_equal(write(ends[1], "abcde", 5), 5);
		assert_read(i, i < 3 ? 5 : 1,
			    flags_of(0) | (i < 3 ? MORE_OF_IT : 0));
	}
	assert_memory_equal(memory[0], "abcdeabcdeabcdea", BYTES);
	assert_int_equal(head(), 1);
	end();
}

static void a_read_has_a_buffer_for_each_shot(void **state)
{
	struct io_uring_sqe *sqe;

	(void)state;
	begin(3, 0);
	sqe = put_read(ends[0], 0, 1);
	sqe->opcode = IORING_OP_READ_MULTISHOT;
	submit(&client, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(write(ends[1], "abc", 3), 3);
		assert_read(1, 3, flags_of(i) | IORING_CQE_F_MORE);
		assert_int_equal(memory[i][2], 'c');
	}
	/*
	 * With no buffer left, the request waits: it ends only when data arrives that
	 * finds no buffer.
	 */
	assert_none(&client);
	append(5);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_read(1, 1, flags_of(5) | IORING_CQE_F_MORE);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_read(1, -ENOBUFS, 0);
	append(6);
	sqe = put_read(ends[0], 0, 2);
	sqe->opcode = IORING_OP_READ_MULTISHOT;
	submit(&client, 1);
	assert_read(2, 1, flags_of(6) | IORING_CQE_F_MORE);
	append(7);
	assert_int_equal(close(ends[1]), 0);
	assert_read(2, 0, 0);
	assert_int_equal(head(), 5);
	ends[1] = dup(ends[0]);
	end();
}

static int read_in_child(void)
{
	struct io_uring_cqe cqe;

	catch_up(&client);
	put_read(ends[0], 0, 2);
	if (enter(&client, tell(&client), 1) != 1)
		return 1;
	cqe = get(&client);
	return cqe.user_data != 2 || cqe.res != -ENOBUFS;
}

static void a_child_has_none_of_its_parents_buffers(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	begin(2, 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(read_in_child());
	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	assert_int_equal(status, 0);
	catch_up(&client);
	assert_int_equal(write(ends[1], "x", 1), 1);
	put_read(ends[0], 0, 3);
	submit(&client, 1);
	assert_read(3, 1, flags_of(0));
	end();
}

/*
 * Reads from many pipes share an array with fewer buffers than reads, while other
 * threads execute reads whose pipes are ready. No buffer is used twice, and none is
 * lost.
 */

enum { NR_PIPES = 6, NR_ROUNDS = 2000 };

static int pipes[NR_PIPES][2];
static uint32_t is_over; /* atomic */

static long look(void *arg)
{
	(void)arg;
	while (!load_acquire(&is_over))
		(void)uaio_uring_enter((uint32_t)client.fd, 0, 0,
				       IORING_ENTER_GETEVENTS, NULL, 0);
	return 0;
}

static void say(unsigned i, unsigned round)
{
	const uint32_t said[2] = { i, round };

	assert_int_equal(write(pipes[i][1], said, sizeof(said)), sizeof(said));
}

static void threads_share_an_array(void **state)
{
	struct unit_thread lookers[2];
	uint32_t rounds[NR_PIPES] = { 0 };
	unsigned nr_said = 0, nr_heard = 0;

	(void)state;
	begin(2, 0);
	store_relaxed(&is_over, 0);
	for (unsigned i = 0; i < NR_PIPES; i++) {
		assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
		put_read(pipes[i][0], 0, i);
	}
	submit(&client, 0);
	for (unsigned i = 0; i < 2; i++)
		unit_thread_start(&lookers[i], look, NULL);
	/*
	 * Write only as many bytes as there are buffers, so that each read finds one.
	 * Write to a pipe again only when its last byte was read.
	 */
	while (nr_heard < NR_ROUNDS) {
		while (nr_said < nr_heard + 2 && nr_said < NR_ROUNDS &&
		       rounds[nr_said % NR_PIPES] == nr_said / NR_PIPES) {
			say(nr_said % NR_PIPES, nr_said / NR_PIPES);
			nr_said++;
		}
		struct io_uring_cqe cqe = get(&client);
		unsigned bid = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
		uint32_t heard[2];

		assert_int_equal(cqe.res, sizeof(heard));
		assert_int_equal(cqe.flags & UINT16_MAX, SELECTED);
		assert_in_range(bid, 0, 1);
		memcpy(heard, memory[bid], sizeof(heard));
		assert_int_equal(heard[0], cqe.user_data);
		assert_int_equal(heard[1], rounds[heard[0]]++);
		nr_heard++;
		append(bid);
		put_read(pipes[heard[0]][0], 0, heard[0]);
		submit(&client, 0);
	}
	store_release(&is_over, 1);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(unit_thread_join(&lookers[i]), 0);
	assert_int_equal(head(), NR_ROUNDS);
	for (unsigned i = 0; i < NR_PIPES; i++) {
		unit_close(pipes[i][0]);
		unit_close(pipes[i][1]);
	}
	assert_int_equal(call_array(IORING_UNREGISTER_PBUF_RING, 0), 0);
	end();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(a_list_gives_its_buffers_in_order),
		RING_TEST(a_read_has_its_buffer_when_it_reads),
		RING_TEST(a_worker_keeps_the_buffer_that_it_waits_with),
		RING_TEST(what_has_no_buffers_any_more_ends),
		RING_TEST(an_array_is_used_in_its_order),
		RING_TEST(an_array_that_was_unmapped_is_empty),
		RING_TEST(an_array_that_is_unmapped_is_used_as_it_was),
		RING_TEST(what_is_in_an_arrays_place_is_left_alone),
		RING_TEST(what_remains_is_in_the_array),
		RING_TEST(reads_that_waited_probe_their_array_once),
		RING_TEST(a_buffer_with_too_little_left_is_used_up),
		RING_TEST(an_array_is_in_the_rings_own_memory),
		RING_TEST(a_ring_ends_with_its_groups_and_what_waits_for_them),
		RING_TEST(a_buffer_is_used_little_by_little),
		RING_TEST(a_read_has_a_buffer_for_each_shot),
		RING_TEST(a_child_has_none_of_its_parents_buffers),
		RING_TEST(threads_share_an_array),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
