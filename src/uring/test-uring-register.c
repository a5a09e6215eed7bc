/* SPDX-License-Identifier: MIT */
/* Registering resources with a ring, and queries. */
#undef NDEBUG
#include <fcntl.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include "options/options.h"
#define RING_ENTRIES 16
#include "test-uring.h"

static int32_t read_fixed_file(uint32_t place, char *byte)
{
	put_rw(&client, IORING_OP_READ, (int)place, byte, 1, 0, 1)->flags =
		IOSQE_FIXED_FILE;
	return made(&client);
}

static void files_are_known_by_their_place(void **state)
{
	int fd = unit_numbered_file(true, 2), fds[3] = { fd, -1, fd };
	struct io_uring_rsrc_update update = { .offset = 1,
					       .data = (uintptr_t)fds };
	char byte = 9;

	(void)state;
	assert_int_equal(reg(IORING_REGISTER_FILES, NULL, 1), -EFAULT);
	assert_int_equal(reg(IORING_REGISTER_FILES, fds, 0), -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_FILES, fds, 1 << 21), -EMFILE);
	assert_int_equal(reg(IORING_UNREGISTER_FILES, NULL, 0), -ENXIO);
	assert_int_equal(reg(IORING_REGISTER_FILES_UPDATE, &update, 1), -ENXIO);
	fds[2] = 12345;
	assert_int_equal(reg(IORING_REGISTER_FILES, fds, 3), -EBADF);
	fds[2] = client.fd;
	assert_int_equal(reg(IORING_REGISTER_FILES, fds, 3), -EBADF);
	fds[2] = fd;
	assert_int_equal(reg(IORING_REGISTER_FILES, fds, 3), 0);
	assert_int_equal(reg(IORING_REGISTER_FILES, fds, 3), -EBUSY);
	/* The table keeps the file open when the client closes its descriptor. */
	unit_close(fd);
	assert_int_equal(read_fixed_file(0, &byte), 1);
	assert_int_equal(byte, 0);
	assert_int_equal(read_fixed_file(1, &byte), -EBADF);
	assert_int_equal(read_fixed_file(2, &byte), 1);
	assert_int_equal(read_fixed_file(3, &byte), -EBADF);

	fds[0] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	fds[1] = IORING_REGISTER_FILES_SKIP;
	assert_int_equal(reg(IORING_REGISTER_FILES_UPDATE, &update, 2), 2);
	assert_int_equal(read_fixed_file(1, &byte), 1);
	assert_int_equal(read_fixed_file(2, &byte), 1);
	assert_int_equal(reg(IORING_REGISTER_FILES_UPDATE, &update, 0),
			 -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_FILES_UPDATE, &update, 3),
			 -EINVAL);
	unit_close(fds[0]);
	fds[0] = fds[1] = -1;
	assert_int_equal(reg(IORING_REGISTER_FILES_UPDATE, &update, 2), 2);
	assert_int_equal(read_fixed_file(1, &byte), -EBADF);
	assert_int_equal(reg(IORING_UNREGISTER_FILES, NULL, 1), -EINVAL);
	assert_int_equal(reg(IORING_UNREGISTER_FILES, NULL, 0), 0);
	assert_int_equal(read_fixed_file(0, &byte), -EBADF);
}

static void a_request_keeps_its_registered_file(void **state)
{
	int ends[2];
	char byte = 0;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(reg(IORING_REGISTER_FILES, ends, 1), 0);
	put_rw(&client, IORING_OP_READ, 0, &byte, 1, -1, 1)->flags =
		IOSQE_FIXED_FILE | IOSQE_IO_LINK;
	put(&client, IORING_OP_NOP, -1, 2);
	put_rw(&client, IORING_OP_READ, 0, &byte, 1, -1, 3)->flags =
		IOSQE_FIXED_FILE;
	submit(&client, 0);
	assert_int_equal(reg(IORING_UNREGISTER_FILES, NULL, 0), 0);
	assert_int_equal(write(ends[1], "ab", 2), 2);
	for (int i = 0; i < 3; i++)
		assert_true(get(&client).res >= 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/* A linked request looks up its registered file only when it starts. */
static void a_registered_file_is_looked_up_when_its_request_starts(void **state)
{
	int fd = unit_numbered_file(true, 2), ends[2], none = -1;
	struct io_uring_rsrc_update update = { .data = (uintptr_t)&fd };
	int fds[2] = { -1, fd };
	char block[2] = { 9, 9 }, byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(reg(IORING_REGISTER_FILES, fds, 2), 0);
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, -1, 1)->flags =
		IOSQE_IO_HARDLINK;
	put_rw(&client, IORING_OP_READ, 0, block, 1, 0, 2)->flags =
		IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;
	put_rw(&client, IORING_OP_READ, 1, block + 1, 1, 0, 3)->flags =
		IOSQE_FIXED_FILE;
	submit(&client, 0);
	/* While the linked requests wait, fill slot 0 and empty slot 1. */
	assert_int_equal(reg(IORING_REGISTER_FILES_UPDATE, &update, 1), 1);
	update.offset = 1;
	update.data = (uintptr_t)&none;
	assert_int_equal(reg(IORING_REGISTER_FILES_UPDATE, &update, 1), 1);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_got(&client, 1, 1);
	assert_got(&client, 2, 1);
	assert_got(&client, 3, -EBADF);
	assert_int_equal(block[0], 0);
	assert_int_equal(block[1], 9);
	unit_close(fd);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static int32_t rw_fixed(uint8_t opcode, int fd, const void *at, uint32_t len,
			uint16_t place)
{
	put_rw(&client, opcode, fd, at, len, 0, 1)->buf_index = place;
	return made(&client);
}

static void buffers_are_checked_for_their_range(void **state)
{
	int fd = unit_numbered_file(true, 2);
	char block[2 * SIZE], *end = block + sizeof(block);
	struct iovec iovs[2] = { { block, sizeof(block) }, { NULL, 0 } };

	(void)state;
	assert_int_equal(reg(IORING_UNREGISTER_BUFFERS, NULL, 0), -ENXIO);
	assert_int_equal(reg(IORING_REGISTER_BUFFERS, NULL, 1), -EFAULT);
	assert_int_equal(reg(IORING_REGISTER_BUFFERS, iovs, 0), -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_BUFFERS, iovs, 1 << 15), -EINVAL);
	iovs[1] = (struct iovec){ NULL, 1 };
	assert_int_equal(reg(IORING_REGISTER_BUFFERS, iovs, 2), -EFAULT);
	iovs[1] = (struct iovec){ block, 0 };
	assert_int_equal(reg(IORING_REGISTER_BUFFERS, iovs, 2), -EFAULT);
	iovs[1] = (struct iovec){ (void *)0x1000, 1 };
	assert_int_equal(reg(IORING_REGISTER_BUFFERS, iovs, 2), -EFAULT);
	iovs[1] = (struct iovec){ NULL, 0 };
	assert_int_equal(reg(IORING_REGISTER_BUFFERS, iovs, 2), 0);
	assert_int_equal(reg(IORING_REGISTER_BUFFERS, iovs, 2), -EBUSY);

	memset(block, 'w', sizeof(block));
	assert_int_equal(
		rw_fixed(IORING_OP_WRITE_FIXED, fd, block, sizeof(block), 0),
		sizeof(block));
	memset(block, 0, sizeof(block));
	assert_int_equal(
		rw_fixed(IORING_OP_READ_FIXED, fd, block + SIZE, SIZE, 0),
		SIZE);
	assert_int_equal(block[SIZE], 'w');
	assert_int_equal(block[0], 0);
	assert_int_equal(rw_fixed(IORING_OP_READ_FIXED, fd, end, 1, 0),
			 -EFAULT);
	assert_int_equal(rw_fixed(IORING_OP_READ_FIXED, fd,
				  (void *)((uintptr_t)block - 1), 1, 0),
			 -EFAULT);
	assert_int_equal(rw_fixed(IORING_OP_READ_FIXED, fd, block, ~0u, 0),
			 -EFAULT);
	assert_int_equal(rw_fixed(IORING_OP_READ_FIXED, fd, (void *)~0ul, 9, 0),
			 -EFAULT);
	assert_int_equal(rw_fixed(IORING_OP_READ_FIXED, fd, block, 1, 1),
			 -EFAULT);
	assert_int_equal(rw_fixed(IORING_OP_READ_FIXED, fd, block, 1, 2),
			 -EFAULT);
	/* An error in the buffer is reported before an error in the flags. */
	put_rw(&client, IORING_OP_READ_FIXED, fd, block, 1, 0, 1)->rw_flags =
		RWF_HIPRI;
	submit(&client, 1);
	assert_got(&client, 1, -EINVAL);
	put_rw(&client, IORING_OP_READ_FIXED, fd, end, 1, 0, 2)->rw_flags =
		RWF_HIPRI;
	submit(&client, 1);
	assert_got(&client, 2, -EFAULT);
	assert_int_equal(reg(IORING_UNREGISTER_BUFFERS, NULL, 0), 0);
	assert_int_equal(rw_fixed(IORING_OP_READ_FIXED, fd, block, 1, 0),
			 -EFAULT);
	unit_close(fd);
}

static void tags_come_back_when_nothing_uses_them(void **state)
{
	int ends[2];
	char block[SIZE];
	uint64_t tags[2] = { 71, 72 };
	struct iovec iov = { block, sizeof(block) };
	struct io_uring_rsrc_register what = {
		.nr = 2,
		.data = (uintptr_t)ends,
		.tags = (uintptr_t)tags,
	};
	struct io_uring_rsrc_update2 update = { .nr = 1 };
	int none = -1;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(reg(IORING_REGISTER_FILES2, &what, 8), -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_FILES2, &what, sizeof(what)), 0);
	put_rw(&client, IORING_OP_READ, 0, block, 1, -1, 1)->flags =
		IOSQE_FIXED_FILE;
	submit(&client, 0);
	update.data = (uintptr_t)&none;
	assert_int_equal(
		reg(IORING_REGISTER_FILES_UPDATE2, &update, sizeof(update)), 1);
	assert_none(&client);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_got(&client, 1, 1);
	assert_got(&client, 71, 0);
	assert_int_equal(reg(IORING_UNREGISTER_FILES, NULL, 0), 0);
	assert_got(&client, 72, 0);

	what.nr = 1;
	what.data = (uintptr_t)&iov;
	assert_int_equal(reg(IORING_REGISTER_BUFFERS2, &what, sizeof(what)), 0);
	iov.iov_len = 1;
	tags[0] = 73;
	update.data = (uintptr_t)&iov;
	update.tags = (uintptr_t)tags;
	assert_int_equal(
		reg(IORING_REGISTER_BUFFERS_UPDATE, &update, sizeof(update)),
		1);
	assert_got(&client, 71, 0);
	assert_int_equal(reg(IORING_UNREGISTER_BUFFERS, NULL, 0), 0);
	assert_got(&client, 73, 0);
	/* Files and buffers can be registered as empty slots, filled later. */
	what = (struct io_uring_rsrc_register){
		.nr = 4, .flags = IORING_RSRC_REGISTER_SPARSE
	};
	assert_int_equal(reg(IORING_REGISTER_FILES2, &what, sizeof(what)), 0);
	assert_int_equal(reg(IORING_REGISTER_BUFFERS2, &what, sizeof(what)), 0);
	assert_int_equal(
		reg(IORING_REGISTER_BUFFERS_UPDATE, &update, sizeof(update)),
		1);
	/*
	 * The ring is closed while it still has entries with tags: these tags are not
	 * posted.
	 */
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static uint64_t count_of(int fd)
{
	uint64_t count = 0;

	assert_true(read(fd, &count, sizeof(count)) == sizeof(count) ||
		    errno == EAGAIN);
	return count;
}

static void an_eventfd_is_told_of_completions(void **state)
{
	uint32_t *flags = client.cq_flags;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), zero = 0, ends[2];

	(void)state;
	assert_int_equal(reg(IORING_UNREGISTER_EVENTFD, NULL, 0), -ENXIO);
	assert_int_equal(reg(IORING_REGISTER_EVENTFD, &fd, 2), -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_EVENTFD, &zero, 1), -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_EVENTFD, &fd, 1), 0);
	assert_int_equal(reg(IORING_REGISTER_EVENTFD, &fd, 1), -EBUSY);
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 1);
	assert_true(count_of(fd) > 0);
	assert_int_equal(count_of(fd), 0);
	store_relaxed(flags, IORING_CQ_EVENTFD_DISABLED);
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 2);
	assert_int_equal(count_of(fd), 0);
	store_relaxed(flags, 0);
	assert_int_equal(reg(IORING_UNREGISTER_EVENTFD, NULL, 0), 0);
	assert_int_equal(reg(IORING_REGISTER_EVENTFD_ASYNC, &fd, 1), 0);
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 3);
	assert_int_equal(count_of(fd), 0);
	put(&client, IORING_OP_NOP, -1, 1)->flags = IOSQE_ASYNC;
	submit(&client, 4);
	assert_true(count_of(fd) > 0);
	/*
	 * IORING_REGISTER_EVENTFD_ASYNC signals only workers' completions: a poll that
	 * waits and then completes uses no worker.
	 */
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put(&client, IORING_OP_POLL_ADD, ends[0], 2)->poll32_events = POLLIN;
	submit(&client, 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	for (int i = 0; i < 4; i++)
		assert_got(&client, 1, 0);
	assert_got(&client, 2, POLLIN);
	assert_int_equal(count_of(fd), 0);
	unit_close(ends[0]);
	unit_close(ends[1]);
	unit_close(fd);
}

/* As in the kernel, a call signals the eventfd once for all its completions. */
static void an_eventfd_is_signalled_once_around_a_sync(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), file = unit_file(true);

	(void)state;
	assert_int_equal(reg(IORING_REGISTER_EVENTFD, &fd, 1), 0);
	unit_gate_close(file);
	put(&client, IORING_OP_NOP, -1, 1);
	put(&client, IORING_OP_FSYNC, file, 2)->flags = IOSQE_ASYNC;
	put(&client, IORING_OP_NOP, -1, 3);
	submit(&client, 0);
	unit_gate_await(1);
	assert_int_equal(unread(&client), 2);
	assert_int_equal(count_of(fd), 1);
	unit_gate_open();
	assert_got(&client, 1, 0);
	assert_got(&client, 3, 0);
	assert_got(&client, 2, 0);
	assert_int_equal(reg(IORING_UNREGISTER_EVENTFD, NULL, 0), 0);
	unit_close(file);
	unit_close(fd);
}

static void
an_eventfd_is_told_of_what_has_overflown_when_it_is_there(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	uint32_t nr = client.params.cq_entries + 1;

	(void)state;
	assert_int_equal(reg(IORING_REGISTER_EVENTFD, &fd, 1), 0);
	for (uint32_t i = 0; i < nr; i++) {
		assert_int_equal(i < nr - 1 || count_of(fd) > 0, true);
		put(&client, IORING_OP_NOP, -1, i);
		submit(&client, 0);
	}
	assert_int_equal(unread(&client), nr - 1);
	assert_int_equal(count_of(fd), 0);
	assert_got(&client, 0, 0);
	/* A call with GETEVENTS moves overflowed completions into the ring. */
	assert_int_equal(uaio_uring_enter((uint32_t)client.fd, 0, 0,
					  IORING_ENTER_GETEVENTS, NULL, 0),
			 0);
	assert_true(count_of(fd) > 0);
	for (uint32_t i = 1; i < nr; i++)
		assert_got(&client, i, 0);
	assert_int_equal(reg(IORING_UNREGISTER_EVENTFD, NULL, 0), 0);
	unit_close(fd);
}

static void a_probe_lists_what_works(void **state)
{
	struct {
		struct io_uring_probe head;
		struct io_uring_probe_op ops[256];
	} probe = { 0 };

	(void)state;
	assert_int_equal(reg(IORING_REGISTER_PROBE, NULL, 0), -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_PROBE, &probe, 257), -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_PROBE, &probe, 256), 0);
	assert_true(probe.head.ops_len > IORING_OP_READ);
	assert_int_equal(probe.head.last_op + 1, probe.head.ops_len);
	for (unsigned i = 0; i < probe.head.ops_len; i++) {
		bool is_there = probe.ops[i].flags & IO_URING_OP_SUPPORTED;
		struct io_uring_sqe *sqe;
		struct io_uring_cqe cqe;

		assert_int_equal(probe.ops[i].op, i);
		/*
		 * Each of these requests fails: with EINVAL if the opcode is not
		 * supported, otherwise with another error.
		 */
		sqe = put(&client, (uint8_t)i, -1, i);
		sqe->flags = IOSQE_BUFFER_SELECT;
		sqe->len = i != IORING_OP_READ_MULTISHOT;
		submit(&client, 1);
		cqe = get(&client);
		assert_true(cqe.res < 0);
		/*
		 * IORING_OP_URING_CMD is supported, but fails with EINVAL if it is to
		 * select a buffer.
		 */
		if (i != IORING_OP_URING_CMD)
			assert_int_equal(cqe.res == -EINVAL, !is_there);
	}
	assert_int_equal(reg(IORING_REGISTER_PROBE, &probe, 256), -EINVAL);
}

static void a_thread_may_name_rings_by_places_of_its_own(void **state)
{
	struct io_uring_rsrc_update update = { .offset = ~0u,
					       .data = (uint32_t)client.fd };
	const uint32_t by_place =
		IORING_ENTER_GETEVENTS | IORING_ENTER_REGISTERED_RING;
	uint32_t place;

	(void)state;
	assert_int_equal(reg(IORING_REGISTER_RING_FDS, &update, 0), -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_RING_FDS, &update, 17), -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_RING_FDS, &update, 1), 1);
	place = update.offset;
	assert_true(place < 16);
	assert_true(uaio_uring_owns(place, true));
	assert_int_equal(reg(IORING_REGISTER_RING_FDS, &update, 1), -EBUSY);
	put(&client, IORING_OP_NOP, -1, 1);
	(void)tell(&client);
	assert_int_equal(uaio_uring_enter(place, 1, 1, by_place, NULL, 0), 1);
	assert_got(&client, 1, 0);
	assert_int_equal(uaio_uring_enter(place + 1, 0, 0, by_place, NULL, 0),
			 -EBADF);
	assert_int_equal(uaio_uring_enter(16, 0, 0, by_place, NULL, 0),
			 -EINVAL);
	/*
	 * The thread's slot for registered rings keeps the ring alive when the
	 * descriptor is closed.
	 */
	unit_close(client.fd);
	put(&client, IORING_OP_NOP, -1, 2);
	(void)tell(&client);
	assert_int_equal(uaio_uring_enter(place, 1, 1, by_place, NULL, 0), 1);
	assert_got(&client, 2, 0);
	update.data = 0;
	assert_int_equal(
		uaio_uring_register(place,
				    IORING_UNREGISTER_RING_FDS |
					    IORING_REGISTER_USE_REGISTERED_RING,
				    &update, 1),
		1);
	assert_int_equal(uaio_uring_enter(place, 0, 0, by_place, NULL, 0),
			 -EBADF);
	uring_unmap(&client);
	client_open(&client, 16, (struct io_uring_params){ 0 });
}

static void workers_are_limited(void **state)
{
	uint32_t limits[2] = { 0, 0 }, before[2];

	(void)state;
	assert_int_equal(reg(IORING_REGISTER_IOWQ_MAX_WORKERS, limits, 1),
			 -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_IOWQ_MAX_WORKERS, NULL, 2),
			 -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_IOWQ_MAX_WORKERS, limits, 2), 0);
	memcpy(before, limits, sizeof(before));
	limits[0] = 3;
	limits[1] = 5;
	assert_int_equal(reg(IORING_REGISTER_IOWQ_MAX_WORKERS, limits, 2), 0);
	assert_memory_equal(limits, before, sizeof(before));
	assert_int_equal(reg(IORING_REGISTER_IOWQ_MAX_WORKERS, limits, 2), 0);
	assert_int_equal(limits[0], 3);
	assert_int_equal(limits[1], 5);
}

static void workers_are_bound(void **state)
{
	uint64_t cpus[UAIO_CPUS_MAX / 64] = { 0 };
	uint64_t any[UAIO_CPUS_MAX / 64] = { 0 };

	(void)state;
	assert_true(sched_getaffinity(0, sizeof(any), (void *)any) == 0);
	assert_int_equal(reg(IORING_REGISTER_IOWQ_AFF, any, sizeof(any)), 0);
	memset(cpus, 0xff, sizeof(cpus));
	assert_int_equal(reg(IORING_REGISTER_IOWQ_AFF, cpus, sizeof(cpus)),
			 -EINVAL);
	assert_int_equal(reg(IORING_REGISTER_IOWQ_AFF, NULL, 8), -EINVAL);
	assert_int_equal(reg(IORING_UNREGISTER_IOWQ_AFF, any, 0), -EINVAL);
	assert_int_equal(reg(IORING_UNREGISTER_IOWQ_AFF, NULL, 0), 0);
}

static void what_is_not_served_is_refused(void **state)
{
	uint64_t arg[8] = { 0 };

	(void)state;
	assert_int_equal(reg(IORING_REGISTER_PBUF_RING, arg, 1), -EINVAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		RING_TEST(files_are_known_by_their_place),
		RING_TEST(a_request_keeps_its_registered_file),
		RING_TEST(
			a_registered_file_is_looked_up_when_its_request_starts),
		RING_TEST(buffers_are_checked_for_their_range),
		RING_TEST(tags_come_back_when_nothing_uses_them),
		RING_TEST(an_eventfd_is_told_of_completions),
		RING_TEST(an_eventfd_is_signalled_once_around_a_sync),
		RING_TEST(
			an_eventfd_is_told_of_what_has_overflown_when_it_is_there),
		RING_TEST(a_probe_lists_what_works),
		RING_TEST(a_thread_may_name_rings_by_places_of_its_own),
		RING_TEST(workers_are_limited),
		RING_TEST(workers_are_bound),
		RING_TEST(what_is_not_served_is_refused),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
