/* SPDX-License-Identifier: MIT */
/*
 * When the program closes a known descriptor of a ring, a witness (witness.h) tells the
 * library whether the ring has other descriptors. Without a witness the library
 * searches for them.
 */
#undef NDEBUG
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "proc/ownfd.h"
#include "test-uring.h"

static const struct io_uring_params plain;

/* Close a descriptor of a ring as the interposed close() in host/ does. */
static void close_told(int fd)
{
	uaio_uring_closing(fd);
	unit_close(fd);
}

static void end(struct uring *client)
{
	uring_unmap(client);
	close_told(client->fd);
}

/*
 * Return: how many descriptors the library has examined since the last call of this
 * function.
 */
static uint32_t nr_looked_at(void)
{
	static uint32_t before;
	uint32_t now = load_relaxed(&uaio_uring_tab_nr_looked_at);
	uint32_t nr = now - before;

	before = now;
	return nr;
}

/* Return: whether the ring is alive: its descriptor accepts a submission. */
static bool is_alive(int fd)
{
	return uaio_uring_enter((uint32_t)fd, 0, 0, 0, NULL, 0) == 0 &&
	       uaio_uring_known((uint32_t)fd);
}

static uint64_t nr_rings(void)
{
	struct uaio_counters counters = { 0 };

	uaio_urings_count(&counters);
	return counters.nr_contexts;
}

static void a_closed_ring_is_not_looked_for(void **state)
{
	struct uring client;

	(void)state;
	(void)nr_looked_at();
	client_open(&client, 4, plain);
	end(&client);
	assert_int_equal(nr_looked_at(), 0);
	assert_int_equal(nr_rings(), 0);
}

static void make_and_close(void *arg)
{
	struct uring client;

	(void)arg;
	client_open(&client, 4, plain);
	end(&client);
}

static void the_number_of_rings_costs_no_calls(void **state)
{
	enum { NR = 128, SWEEP_MAX = 8, CALLS_MAX = 48 };
	static struct uring rings[NR];
	unsigned first, last;

	(void)state;
	/*
	 * The first ring maps memory that later rings reuse, so do not count its calls.
	 */
	make_and_close(NULL);
	first = unit_count_calls(make_and_close, NULL);
	assert_in_range(first, 1, CALLS_MAX);
	for (int i = 0; i < NR; i++)
		client_open(&rings[i], 4, plain);
	last = unit_count_calls(make_and_close, NULL);
	for (int i = 0; i < NR; i++)
		end(&rings[i]);
	/*
	 * The call that makes a ring also checks some slots of the table (table.h, I4),
	 * so allow some system calls for that.
	 */
	assert_in_range(last, 1, first + SWEEP_MAX);
}

static void a_duplicate_is_looked_for(void **state)
{
	struct uring client;
	int second;

	(void)state;
	(void)nr_looked_at();
	client_open(&client, 4, plain);
	second = dup(client.fd);
	end(&client);
	assert_int_not_equal(nr_looked_at(), 0);
	assert_int_equal(nr_rings(), 1);
	assert_true(is_alive(second));
	close_told(second);
	assert_int_equal(nr_looked_at(), 0);
	assert_int_equal(nr_rings(), 0);
}

static void a_mapping_does_not_keep_a_ring(void **state)
{
	struct uring client;

	(void)state;
	(void)nr_looked_at();
	client_open(&client, 4, plain);
	close_told(client.fd);
	assert_int_not_equal(nr_looked_at(), 0);
	assert_int_equal(nr_rings(), 0);
	uring_unmap(&client);
}

static int ends[2];

static int wait_for_parent(void)
{
	char byte;

	(void)close(ends[1]);
	return (int)read(ends[0], &byte, 1);
}

static void a_childs_descriptor_does_not_keep_a_ring(void **state)
{
	struct uring client;
	pid_t child;
	int status;

	(void)state;
	(void)nr_looked_at();
	client_open(&client, 4, plain);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	child = fork();
	if (child == 0)
		_exit(wait_for_parent());
	end(&client);
	assert_int_not_equal(nr_looked_at(), 0);
	assert_int_equal(nr_rings(), 0);
	assert_int_equal(close(ends[1]), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(close(ends[0]), 0);
}

/* Return: the lowest free descriptor. */
static int lowest(void)
{
	int fd = dup(STDERR_FILENO);

	assert_int_equal(close(fd), 0);
	return fd;
}

/*
 * If close() fails, or if its thread is cancelled before the descriptor is closed, the
 * ring lives on. The witness must be closed nevertheless.
 */
static void a_witness_goes_with_its_call(void **state)
{
	struct uring client;
	int before;

	(void)state;
	client_open(&client, 4, plain);
	before = lowest();
	for (int nr_witnesses = 1; nr_witnesses <= 2; nr_witnesses++) {
		for (int i = 0; i < nr_witnesses; i++)
			uaio_uring_closing(client.fd);
		uaio_fds_closed((unsigned)client.fd, (unsigned)client.fd);
		assert_int_equal(
			load_relaxed(&uaio_uring_known((uint32_t)client.fd)
					      ->witness),
			-1);
		assert_int_equal(lowest(), before);
	}
	assert_true(is_alive(client.fd));
	end(&client);
	assert_int_equal(nr_rings(), 0);
}

/*
 * Two threads close the same descriptor. The witness of the later thread is closed when
 * the ring is freed.
 */
static void a_late_witness_goes_with_its_ring(void **state)
{
	struct uring client, later;
	struct uaio_uring *ring;

	(void)state;
	client_open(&client, 4, plain);
	ring = uaio_uring_known((uint32_t)client.fd);
	assert_true(uaio_uring_use(ring));
	uring_unmap(&client);
	uaio_uring_closing(client.fd);
	unit_close(client.fd);
	store_relaxed(&ring->witness,
		      uaio_ownfd_open_briefly("/proc/self/stat", O_RDONLY));
	assert_int_not_equal(load_relaxed(&ring->witness), -1);
	uaio_uring_unuse(ring);
	client_open(&later, 4, plain);
	end(&later);
	assert_int_equal(lowest(), client.fd);
}

static bool refuse_open(long nr, const long args[6], long *ret_res)
{
	(void)args;
	*ret_res = -ENOENT;
	return nr == SYS_openat;
}

/* Refuse fcntl(F_OFD_SETLK). */
static bool refuse_lock(long nr, const long args[6], long *ret_res)
{
	*ret_res = -EINVAL;
	return nr == SYS_fcntl && args[1] == 37;
}

static void end_without_witness(uaio_sys_hook_fn *hook)
{
	struct uring client;
	int second;

	(void)nr_looked_at();
	unit_hook(hook);
	client_open(&client, 4, plain);
	second = dup(client.fd);
	end(&client);
	assert_int_not_equal(nr_looked_at(), 0);
	assert_int_equal(nr_rings(), 1);
	close_told(second);
	assert_int_not_equal(nr_looked_at(), 0);
	assert_int_equal(nr_rings(), 0);
	unit_hook(NULL);
}

static void descriptors_are_looked_at_without_proc_or_locks(void **state)
{
	(void)state;
	end_without_witness(refuse_open);
	end_without_witness(refuse_lock);
}

/*
 * The ring was closed unnoticed by the library, and its descriptor now refers to a
 * FIFO. The library must not open this FIFO as a witness.
 */
static void another_file_with_its_number_is_not_opened(void **state)
{
	char path[64];
	struct uring client;
	int fd, next;

	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/uaio-witness-%d", getpid());
	(void)unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	client_open(&client, 4, plain);
	(void)sys_close(client.fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_int_equal(fd, client.fd);
	next = dup(fd);
	unit_close(next);
	uaio_uring_closing(fd);
	unit_close(fd);
	/*
	 * All lower descriptors are in use, so open() returns the closed descriptor.
	 */
	assert_int_equal(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), fd);
	assert_int_equal(dup(fd), next);
	unit_close(next);
	unit_close(fd);
	(void)unlink(path);
	uring_unmap(&client);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(a_closed_ring_is_not_looked_for),
		UNIT_TEST(the_number_of_rings_costs_no_calls),
		UNIT_TEST(a_duplicate_is_looked_for),
		UNIT_TEST(a_mapping_does_not_keep_a_ring),
		UNIT_TEST(a_childs_descriptor_does_not_keep_a_ring),
		UNIT_TEST(another_file_with_its_number_is_not_opened),
		UNIT_TEST(a_witness_goes_with_its_call),
		UNIT_TEST(a_late_witness_goes_with_its_ring),
		UNIT_TEST(descriptors_are_looked_at_without_proc_or_locks),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
