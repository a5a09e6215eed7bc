/* SPDX-License-Identifier: MIT */
/*
 * io_uring_register, argument by argument. rows-uring-fixed.c tests files,
 * rows-uring-cq.c the eventfd.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"
#include "uring-ops.h"

static void descriptors(void)
{
	int file = file_of("f", 16, O_RDWR), fds[2];

	REQUIRE(pipe(fds) == 0);
	note_result("closed", uring_register(77777, 0, NULL, 0));
	note_result("-1",
		    uring_register(-1, IORING_UNREGISTER_BUFFERS, NULL, 0));
	note_result("file",
		    uring_register(file, IORING_UNREGISTER_BUFFERS, NULL, 0));
	note_result("pipe",
		    uring_register(fds[0], IORING_UNREGISTER_BUFFERS, NULL, 0));
	note_result("file_bad_opcode", uring_register(file, 1000, NULL, 0));
}

static void opcodes(void)
{
	struct uring ring = new_uring(4, 0);

	note_result("1000", uring_register(ring.fd, 1000, NULL, 0));
	note_result("max", uring_register(ring.fd, 0x7fffffff, NULL, 0));
	note_result("-1", uring_register(ring.fd, -1u, NULL, 0));
	note_result("registered_ring",
		    uring_register(0,
				   IORING_UNREGISTER_BUFFERS |
					   REGISTER_USE_REGISTERED_RING,
				   NULL, 0));
}

/*
 * IORING_REGISTER_PROBE
 */

static struct io_uring_probe *new_probe(void)
{
	return calloc(1, sizeof(struct io_uring_probe) +
				 256 * sizeof(struct io_uring_probe_op));
}

static void probe(void)
{
	struct uring ring = new_uring(4, 0);
	struct io_uring_probe *probed = new_probe();
	const struct uring_op *op;

	note_result("probe", uring_register(ring.fd, IORING_REGISTER_PROBE,
					    probed, 256));
	for (op = uring_ops; op->name; op++) {
		note(op->name, probed->ops[op->opcode].op == op->opcode &&
				       op->opcode < probed->ops_len &&
				       op->opcode <= probed->last_op &&
				       (probed->ops[op->opcode].flags &
					IO_URING_OP_SUPPORTED));
	}
	note("200", probed->ops[200].flags);
	note("ops_len", probed->ops_len == probed->last_op + 1);
}

static void probe_arguments(void)
{
	struct uring ring = new_uring(4, 0);
	struct io_uring_probe *probed = new_probe();
	const uint32_t opcode = IORING_REGISTER_PROBE;

	note_result("null", uring_register(ring.fd, opcode, NULL, 10));
	note_result("nr_257", uring_register(ring.fd, opcode, probed, 257));
	note_result("nr_0", uring_register(ring.fd, opcode, probed, 0));
	note_result("kernel",
		    uring_register(ring.fd, opcode, KERNEL_ADDRESS, 10));
	probed->resv2[0] = 1;
	note_result("not_zero", uring_register(ring.fd, opcode, probed, 10));
	memset(probed, 0, sizeof(*probed));
	probed->ops[3].flags = 1;
	note_result("ops_not_zero",
		    uring_register(ring.fd, opcode, probed, 10));
	probed = new_probe();
	note_result("nr_5", uring_register(ring.fd, opcode, probed, 5));
	note("ops_len", probed->ops_len);
	note("fifth", probed->ops[4].flags);
	note("sixth", probed->ops[5].flags);
}

/*
 * IORING_REGISTER_BUFFERS
 */

static char memory[65536];

static long set_buffers(const struct uring *ring, const struct iovec *vectors,
			uint32_t nr)
{
	return uring_register(ring->fd, IORING_REGISTER_BUFFERS, vectors, nr);
}

static long unset_buffers(const struct uring *ring)
{
	return uring_register(ring->fd, IORING_UNREGISTER_BUFFERS, NULL, 0);
}

static void buffers(void)
{
	struct uring ring = new_uring(4, 0);
	struct iovec two[] = { { memory, 4096 }, { memory + 4096, 1 } };

	note_result("unset_none", unset_buffers(&ring));
	note_result("nr_0", set_buffers(&ring, two, 0));
	note_result("null", set_buffers(&ring, NULL, 2));
	note_result("kernel", set_buffers(&ring, KERNEL_ADDRESS, 2));
	note_result("right", set_buffers(&ring, two, 2));
	note_result("twice", set_buffers(&ring, two, 2));
	note_result("unset_arg",
		    uring_register(ring.fd, IORING_UNREGISTER_BUFFERS, two, 0));
	note_result(
		"unset_nr",
		uring_register(ring.fd, IORING_UNREGISTER_BUFFERS, NULL, 1));
	note_result("unset", unset_buffers(&ring));
	note_result("unset_again", unset_buffers(&ring));
}

static void buffers_one_by_one(void)
{
	struct uring ring = new_uring(4, 0);
	char *pages = pages_of(8192, PROT_READ | PROT_WRITE);
	char *read_only = pages_of(4096, PROT_READ);
	char *none = pages_of(4096, PROT_NONE);
	const struct {
		const char *key;
		struct iovec vector;
	} tries[] = {
		{ "empty", { memory, 0 } },
		{ "null", { NULL, 4096 } },
		{ "null_empty", { NULL, 0 } },
		{ "kernel", { KERNEL_ADDRESS, 4096 } },
		{ "over_end", { pages + 4096, 8192 } },
		{ "odd", { pages + 1, 4097 } },
		{ "read_only", { read_only, 4096 } },
		{ "no_access", { none, 4096 } },
		{ "over_1g", { pages, (1ul << 30) + 1 } },
		{ "huge", { pages, (size_t)-1 } },
	};
	size_t i;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		note_result(tries[i].key,
			    set_buffers(&ring, &tries[i].vector, 1));
		unset_buffers(&ring);
	}
}

static void buffers_many(void)
{
	struct uring ring = new_uring(4, 0);
	struct iovec *vectors = calloc(16385, sizeof(*vectors));
	int i;

	for (i = 0; i < 16385; i++)
		vectors[i] = (struct iovec){ memory, 4096 };
	note_result("16385", set_buffers(&ring, vectors, 16385));
	note_result("16384", set_buffers(&ring, vectors, 16384));
	note_result("unset", unset_buffers(&ring));
}

static void buffers_with_tags(void)
{
	struct uring ring = new_uring(8, 0);
	struct iovec two[] = { { memory, 4096 }, { memory + 4096, 100 } };
	uint64_t tags[] = { 11, 0 };
	struct io_uring_rsrc_register reg = { .nr = 2,
					      .data = (uintptr_t)two,
					      .tags = (uintptr_t)tags };
	const uint32_t opcode = IORING_REGISTER_BUFFERS2;
	struct io_uring_cqe cqe;

	note_result("size",
		    uring_register(ring.fd, opcode, &reg, sizeof(reg) - 8));
	reg.resv2 = 1;
	note_result("resv", uring_register(ring.fd, opcode, &reg, sizeof(reg)));
	reg.resv2 = 0;
	reg.flags = 1u << 5;
	note_result("flags",
		    uring_register(ring.fd, opcode, &reg, sizeof(reg)));
	reg.flags = 0;
	reg.nr = 0;
	note_result("nr_0", uring_register(ring.fd, opcode, &reg, sizeof(reg)));
	reg.nr = 2;
	note_result("right",
		    uring_register(ring.fd, opcode, &reg, sizeof(reg)));
	note_result("unset", unset_buffers(&ring));
	REQUIRE(uring_wait(&ring, 1) && uring_take(&ring, &cqe));
	note("tag", (long)cqe.user_data);
	note_cqe("cqe", &cqe);
	note_ready("besides", &ring);
	tags[0] = 0;
	two[0] = (struct iovec){ NULL, 0 };
	tags[0] = 12;
	note_result("tag_of_none",
		    uring_register(ring.fd, opcode, &reg, sizeof(reg)));
	tags[0] = 0;
	note_result("sparse",
		    uring_register(ring.fd, opcode, &reg, sizeof(reg)));
}

static void buffers_sparse(void)
{
	struct uring ring = new_uring(8, 0);
	struct io_uring_rsrc_register reg = {
		.nr = 4, .flags = IORING_RSRC_REGISTER_SPARSE
	};
	int fd = file_of("f", 100, O_RDWR);
	struct iovec one = { memory, 100 };
	struct io_uring_rsrc_update2 update = { .offset = 2,
						.data = (uintptr_t)&one,
						.nr = 1 };

	reg.data = 1;
	note_result("with_data",
		    uring_register(ring.fd, IORING_REGISTER_BUFFERS2, &reg,
				   sizeof(reg)));
	reg.data = 0;
	note_result("sparse", uring_register(ring.fd, IORING_REGISTER_BUFFERS2,
					     &reg, sizeof(reg)));
	sqe_rw(&ring, IORING_OP_READ_FIXED, fd, memory, 10, 0)->buf_index = 2;
	try_sqe("empty", &ring);
	note_result("update",
		    uring_register(ring.fd, IORING_REGISTER_BUFFERS_UPDATE,
				   &update, sizeof(update)));
	sqe_rw(&ring, IORING_OP_READ_FIXED, fd, memory, 10, 0)->buf_index = 2;
	try_sqe("filled", &ring);
}

static void buffers_update(void)
{
	struct uring ring = new_uring(8, 0);
	struct iovec two[] = { { memory, 4096 }, { memory + 4096, 100 } };
	uint64_t tags[] = { 21, 22 };
	struct io_uring_rsrc_update2 update = { .data = (uintptr_t)two,
						.tags = (uintptr_t)tags,
						.nr = 2 };
	const uint32_t opcode = IORING_REGISTER_BUFFERS_UPDATE;
	struct io_uring_cqe cqe;
	int i;

	note_result("no_table",
		    uring_register(ring.fd, opcode, &update, sizeof(update)));
	REQUIRE(set_buffers(&ring, two, 2) == 0);
	note_result("size", uring_register(ring.fd, opcode, &update, 16));
	update.resv = 1;
	note_result("resv",
		    uring_register(ring.fd, opcode, &update, sizeof(update)));
	update.resv = 0;
	update.resv2 = 1;
	note_result("resv2",
		    uring_register(ring.fd, opcode, &update, sizeof(update)));
	update.resv2 = 0;
	update.nr = 0;
	note_result("nr_0",
		    uring_register(ring.fd, opcode, &update, sizeof(update)));
	update.nr = 3;
	note_result("nr_3",
		    uring_register(ring.fd, opcode, &update, sizeof(update)));
	update.nr = 2;
	update.offset = 1;
	note_result("beyond",
		    uring_register(ring.fd, opcode, &update, sizeof(update)));
	update.offset = -1u;
	note_result("wraps",
		    uring_register(ring.fd, opcode, &update, sizeof(update)));
	update.offset = 0;
	note_result("right",
		    uring_register(ring.fd, opcode, &update, sizeof(update)));
	note_ready("tags_of_old", &ring);
	two[1].iov_base = KERNEL_ADDRESS;
	note_result("second_bad",
		    uring_register(ring.fd, opcode, &update, sizeof(update)));
	for (i = 0; i < 1 && uring_take(&ring, &cqe); i++)
		note("tag", (long)cqe.user_data);
	note_ready("besides", &ring);
}

/*
 * A registration that fails posts no tags, even for slots that it had already filled.
 */
static void failed_with_tags(void)
{
	struct uring ring = new_uring(8, 0);
	struct iovec two[] = { { memory, 4096 }, { KERNEL_ADDRESS, 100 } };
	int file = file_of("f", 16, O_RDWR);
	int fds[] = { file, 77777 };
	uint64_t tags[] = { 11, 12 };
	struct io_uring_rsrc_register reg = { .nr = 2,
					      .data = (uintptr_t)two,
					      .tags = (uintptr_t)tags };

	note_result("buffers", uring_register(ring.fd, IORING_REGISTER_BUFFERS2,
					      &reg, sizeof(reg)));
	note("tags", uring_settle(&ring));
	reg.data = (uintptr_t)fds;
	note_result("files", uring_register(ring.fd, IORING_REGISTER_FILES2,
					    &reg, sizeof(reg)));
	note("tags", uring_settle(&ring));
	/*
	 * The two failed registrations must have registered nothing. So both tables can
	 * be registered now.
	 */
	two[1].iov_base = memory;
	reg.data = (uintptr_t)two;
	note_result("buffers", uring_register(ring.fd, IORING_REGISTER_BUFFERS2,
					      &reg, sizeof(reg)));
	fds[1] = file;
	reg.data = (uintptr_t)fds;
	note_result("files", uring_register(ring.fd, IORING_REGISTER_FILES2,
					    &reg, sizeof(reg)));
	note("tags", uring_settle(&ring));
	note_result("unset", unset_buffers(&ring));
	note("tags", uring_settle(&ring));
}

/*
 * Memory that has just been unmapped cannot be registered. This must hold even if the
 * library's own next mmap() gets the same address.
 */
static void buffers_unmapped(void)
{
	const size_t sizes[] = { 4096, 8192, 65536, 131072, 1 << 20 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct uring ring = new_uring(4, 0);
		struct iovec two[] = { { memory, 4096 }, { NULL, sizes[i] } };

		two[1].iov_base = mmap(NULL, sizes[i], PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		REQUIRE(two[1].iov_base != MAP_FAILED);
		munmap(two[1].iov_base, sizes[i]);
		two[1].iov_len = 4096;
		note_result("hole", set_buffers(&ring, two, 2));
		two[1] = two[0];
		note_result("right", set_buffers(&ring, two, 2));
	}
}

/*
 * IORING_REGISTER_RING_FDS
 */

static void ring_fds(void)
{
	struct uring ring = new_uring(4, 0);
	struct io_uring_rsrc_update update = { .offset = -1u,
					       .data = (uint64_t)ring.fd };
	const uint32_t by_number = IORING_ENTER_REGISTERED_RING;
	long index;

	note_result(
		"register",
		uring_register(ring.fd, IORING_REGISTER_RING_FDS, &update, 1));
	index = update.offset;
	note("index", index);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_result("enter", uring_enter((int)index, 1, 0, by_number, NULL, 0));
	note_cqes("nop", &ring, 1);
	note_result("register_by_number",
		    uring_register((int)index,
				   IORING_UNREGISTER_BUFFERS |
					   REGISTER_USE_REGISTERED_RING,
				   NULL, 0));
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	close(ring.fd);
	note_result("closed",
		    uring_enter((int)index, 1, 0, by_number, NULL, 0));
	note_ready("nop", &ring);
	update = (struct io_uring_rsrc_update){ .offset = (uint32_t)index };
	note_result("unregister",
		    uring_register((int)index,
				   IORING_UNREGISTER_RING_FDS |
					   REGISTER_USE_REGISTERED_RING,
				   &update, 1));
	note_result("gone", uring_enter((int)index, 0, 0, by_number, NULL, 0));
}

static void ring_fds_arguments(void)
{
	struct uring ring = new_uring(4, 0);
	struct io_uring_rsrc_update all[17];
	const uint32_t set = IORING_REGISTER_RING_FDS;
	const uint32_t unset = IORING_UNREGISTER_RING_FDS;
	int i;

	for (i = 0; i < 17; i++)
		all[i] = (struct io_uring_rsrc_update){
			.offset = -1u, .data = (uint64_t)ring.fd
		};
	note_result("nr_0", uring_register(ring.fd, set, all, 0));
	note_result("nr_17", uring_register(ring.fd, set, all, 17));
	note_result("null", uring_register(ring.fd, set, NULL, 1));
	note_result("kernel", uring_register(ring.fd, set, KERNEL_ADDRESS, 1));
	all[0].resv = 1;
	note_result("resv", uring_register(ring.fd, set, all, 1));
	all[0].resv = 0;
	all[0].offset = 16;
	note_result("index_16", uring_register(ring.fd, set, all, 1));
	all[0].offset = 5;
	note_result("index_5", uring_register(ring.fd, set, all, 1));
	note_result("index_5_again", uring_register(ring.fd, set, all, 1));
	all[0].offset = -1u;
	all[0].data = 1;
	note_result("no_ring", uring_register(ring.fd, set, all, 1));
	all[0].data = 77777;
	note_result("closed", uring_register(ring.fd, set, all, 1));
	all[0].data = (uint64_t)ring.fd;
	note_result("15_more", uring_register(ring.fd, set, all, 16));
	all[0].offset = -1u;
	note_result("full", uring_register(ring.fd, set, all, 1));
	all[0] = (struct io_uring_rsrc_update){ .offset = 5, .data = 1 };
	note_result("unset_data", uring_register(ring.fd, unset, all, 1));
	all[0] = (struct io_uring_rsrc_update){ .offset = 16 };
	note_result("unset_16", uring_register(ring.fd, unset, all, 1));
	all[0].offset = 5;
	note_result("unset", uring_register(ring.fd, unset, all, 1));
	note_result("unset_again", uring_register(ring.fd, unset, all, 1));
	note_result("unset_nr_0", uring_register(ring.fd, unset, all, 0));
}

/*
 * Other opcodes of io_uring_register
 */

static void enable_arguments(void)
{
	struct uring ring = new_uring(4, IORING_SETUP_R_DISABLED);
	const uint32_t opcode = IORING_REGISTER_ENABLE_RINGS;
	int zero = 0;

	note_result("arg", uring_register(ring.fd, opcode, &zero, 0));
	note_result("nr", uring_register(ring.fd, opcode, NULL, 1));
	note_result("right", uring_register(ring.fd, opcode, NULL, 0));
	ring = new_uring(4, 0);
	note_result("enabled", uring_register(ring.fd, opcode, NULL, 0));
}

static void workers(void)
{
	struct uring ring = new_uring(4, 0);
	const uint32_t opcode = IORING_REGISTER_IOWQ_MAX_WORKERS;
	uint32_t limits[2] = { 3, 5 };

	note_result("null", uring_register(ring.fd, opcode, NULL, 2));
	note_result("nr_1", uring_register(ring.fd, opcode, limits, 1));
	note_result("nr_3", uring_register(ring.fd, opcode, limits, 3));
	note_result("kernel",
		    uring_register(ring.fd, opcode, KERNEL_ADDRESS, 2));
	note_result("set", uring_register(ring.fd, opcode, limits, 2));
	memset(limits, 0, sizeof(limits));
	note_result("get", uring_register(ring.fd, opcode, limits, 2));
	note("bounded", limits[0]);
	note("unbounded", limits[1]);
	limits[0] = 7;
	limits[1] = 0;
	note_result("one", uring_register(ring.fd, opcode, limits, 2));
	note("bounded_was", limits[0]);
	note("unbounded_was", limits[1]);
	limits[0] = limits[1] = 0;
	note_result("get", uring_register(ring.fd, opcode, limits, 2));
	note("bounded", limits[0]);
	note("unbounded", limits[1]);
	limits[0] = 0x80000000;
	note_result("too_many", uring_register(ring.fd, opcode, limits, 2));
}

static void processors(void)
{
	struct uring ring = new_uring(4, 0);
	const uint32_t set = IORING_REGISTER_IOWQ_AFF;
	const uint32_t unset = IORING_UNREGISTER_IOWQ_AFF;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	note_result("null", uring_register(ring.fd, set, NULL, sizeof(cpus)));
	note_result("size_0", uring_register(ring.fd, set, &cpus, 0));
	note_result("kernel", uring_register(ring.fd, set, KERNEL_ADDRESS, 8));
	note_result("right", uring_register(ring.fd, set, &cpus, sizeof(cpus)));
	note_result("size_1", uring_register(ring.fd, set, &cpus, 1));
	CPU_SET(CPU_SETSIZE - 1, &cpus);
	note_result("forbidden",
		    uring_register(ring.fd, set, &cpus, sizeof(cpus)));
	CPU_ZERO(&cpus);
	note_result("none", uring_register(ring.fd, set, &cpus, sizeof(cpus)));
	note_result("unset_arg", uring_register(ring.fd, unset, &cpus, 0));
	note_result("unset_size", uring_register(ring.fd, unset, NULL, 1));
	note_result("unset", uring_register(ring.fd, unset, NULL, 0));
	note_result("unset_again", uring_register(ring.fd, unset, NULL, 0));
}

const struct row rows_uring_register[] = {
	ROW("io_uring_register on a descriptor that is no ring", descriptors),
	ROW("io_uring_register of unknown opcodes", opcodes),
	ROW("a probe lists each operation", probe),
	ROW("a probe, argument by argument", probe_arguments),
	ROW("registering buffers, argument by argument", buffers),
	ROW("memory that can be a buffer or not", buffers_one_by_one),
	ROW("as many buffers as there may be", buffers_many),
	ROW("buffers with tags", buffers_with_tags),
	ROW("a table that cannot be filled posts no tags", failed_with_tags),
	ROW("memory that was unmapped is no buffer", buffers_unmapped),
	ROW("a sparse table of buffers", buffers_sparse),
	ROW("an update of buffers, argument by argument", buffers_update),
	ROW("a ring is called by its registered number", ring_fds),
	ROW("registering a ring's number, argument by argument",
	    ring_fds_arguments),
	ROW("enabling a ring, argument by argument", enable_arguments),
	ROW("limits of workers", workers),
	ROW("processors of workers", processors),
	NO_ROW,
};
