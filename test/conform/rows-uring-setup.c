/* SPDX-License-Identifier: MIT */
/* io_uring_setup with each of its arguments, and the rings as a client maps them */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"

/* Prints the result of a setup, and closes the ring. */
static long look(const char *key, uint32_t nr, struct io_uring_params *params)
{
	long fd = uring_setup(nr, params);
	char text[96];

	if (fd < 0) {
		note_result(key, fd);
		return fd;
	}
	snprintf(text, sizeof(text), "sq:%u,cq:%u,flags:%#x",
		 params->sq_entries, params->cq_entries, params->flags);
	note_text(key, text);
	close((int)fd);
	return 0;
}

static void look_at_flags(const char *key, uint32_t flags)
{
	struct io_uring_params params = { .flags = flags };

	look(key, 4, &params);
}

static void entries(void)
{
	static const uint32_t sizes[] = { 0,  1,     2,     3,     31,    32,
					  33, 32767, 32768, 32769, 65536, -1u };
	struct io_uring_params params;
	char key[32];
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(&params, 0, sizeof(params));
		snprintf(key, sizeof(key), "nr_%u", sizes[i]);
		look(key, sizes[i], &params);
		memset(&params, 0, sizeof(params));
		params.flags = IORING_SETUP_CLAMP;
		snprintf(key, sizeof(key), "clamped_%u", sizes[i]);
		look(key, sizes[i], &params);
	}
}

static void cq_size(void)
{
	static const uint32_t sizes[] = { 0,      1,       2,     3,     4,
					  5,      100,     65535, 65536, 65537,
					  131072, 1 << 31, -1u };
	struct io_uring_params params;
	char key[32];
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(&params, 0, sizeof(params));
		params.flags = IORING_SETUP_CQSIZE;
		params.cq_entries = sizes[i];
		snprintf(key, sizeof(key), "cq_%u", sizes[i]);
		look(key, 4, &params);
		memset(&params, 0, sizeof(params));
		params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
		params.cq_entries = sizes[i];
		snprintf(key, sizeof(key), "clamped_%u", sizes[i]);
		look(key, 4, &params);
	}
}

static void cq_entries_unasked(void)
{
	struct io_uring_params params = { .cq_entries = 100, .sq_entries = 77 };

	look("ignored", 4, &params);
}

static void params_pointer(void)
{
	struct io_uring_params *params = pages_of(4096, PROT_READ | PROT_WRITE);

	note_result("null", uring_setup(4, NULL));
	note_result("kernel", uring_setup(4, KERNEL_ADDRESS));
	note_result("null_nr_0", uring_setup(0, NULL));
	params->flags = 1u << 31;
	note_result("bad_flag_nr_0", uring_setup(0, params));
	params->flags = 0;
	params->resv[0] = 1;
	note_result("resv_nr_0", uring_setup(0, params));
}

static void params_read_only(void)
{
	struct io_uring_params *params = pages_of(4096, PROT_READ | PROT_WRITE);
	int before = dup(0), after;

	close(before);
	mprotect(params, 4096, PROT_READ);
	note_result("read_only", uring_setup(4, params));
	after = dup(0);
	note("descriptor_left", after != before);
}

static void reserved(void)
{
	struct io_uring_params params;
	char key[32];
	int i;

	for (i = 0; i < 3; i++) {
		memset(&params, 0, sizeof(params));
		params.resv[i] = 1;
		snprintf(key, sizeof(key), "resv_%d", i);
		look(key, 4, &params);
	}
	memset(&params, 0, sizeof(params));
	params.features = -1u;
	params.sq_off.array = 5;
	params.cq_off.user_addr = 5;
	params.sq_thread_cpu = 77;
	params.sq_thread_idle = 5;
	params.wq_fd = 77;
	look("others", 4, &params);
}

static void each_flag(void)
{
	static const struct {
		const char *key;
		uint32_t flags;
	} flags[] = {
		{ "iopoll", IORING_SETUP_IOPOLL },
		{ "sqpoll", IORING_SETUP_SQPOLL },
		{ "sq_aff", IORING_SETUP_SQ_AFF },
		{ "cqsize", IORING_SETUP_CQSIZE },
		{ "clamp", IORING_SETUP_CLAMP },
		{ "attach_wq", IORING_SETUP_ATTACH_WQ },
		{ "r_disabled", IORING_SETUP_R_DISABLED },
		{ "submit_all", IORING_SETUP_SUBMIT_ALL },
		{ "coop_taskrun", IORING_SETUP_COOP_TASKRUN },
		{ "taskrun_flag", IORING_SETUP_TASKRUN_FLAG },
		{ "single_issuer", IORING_SETUP_SINGLE_ISSUER },
		{ "defer_taskrun", IORING_SETUP_DEFER_TASKRUN },
		{ "no_sqarray", IORING_SETUP_NO_SQARRAY },
		{ "hybrid_iopoll", 1u << 17 },
		{ "hybrid_and_iopoll", 1u << 17 | IORING_SETUP_IOPOLL },
		{ "cqe_mixed", 1u << 18 },
		{ "bit_19", 1u << 19 },
		{ "bit_21", 1u << 21 },
		{ "bit_30", 1u << 30 },
		{ "bit_31", 1u << 31 },
	};
	size_t i;

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		look_at_flags(flags[i].key, flags[i].flags);
}

static void flags_together(void)
{
	const uint32_t poll = IORING_SETUP_SQPOLL, iopoll = IORING_SETUP_IOPOLL;
	const uint32_t single = IORING_SETUP_SINGLE_ISSUER;
	const uint32_t defer = IORING_SETUP_DEFER_TASKRUN;
	const uint32_t coop = IORING_SETUP_COOP_TASKRUN;
	const uint32_t flag = IORING_SETUP_TASKRUN_FLAG;

	look_at_flags("sqpoll_coop", poll | coop);
	look_at_flags("sqpoll_taskrun_flag", poll | flag);
	look_at_flags("sqpoll_defer", poll | single | defer);
	look_at_flags("sqpoll_single", poll | single);
	look_at_flags("sqpoll_iopoll", poll | iopoll);
	look_at_flags("sqpoll_aff", poll | IORING_SETUP_SQ_AFF);
	look_at_flags("sqpoll_disabled", poll | IORING_SETUP_R_DISABLED);
	look_at_flags("coop_flag", coop | flag);
	look_at_flags("defer_flag", defer | single | flag);
	look_at_flags("defer_single", defer | single);
	look_at_flags("defer_single_coop", defer | single | coop);
	look_at_flags("defer_iopoll", defer | single | iopoll);
	look_at_flags("all", single | coop | IORING_SETUP_SUBMIT_ALL |
				     IORING_SETUP_CLAMP |
				     IORING_SETUP_R_DISABLED |
				     IORING_SETUP_NO_SQARRAY);
}

static void sqpoll_cpu(void)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF,
		.sq_thread_cpu = 0,
	};

	look("cpu_0", 4, &params);
	params.flags = IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF;
	params.sq_thread_cpu = 1 << 20;
	look("cpu_beyond", 4, &params);
	params.flags = IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF;
	params.sq_thread_cpu = -1u;
	look("cpu_-1", 4, &params);
	params.flags = IORING_SETUP_SQPOLL;
	look("cpu_unasked", 4, &params);
}

static void attach(void)
{
	struct uring plain = new_uring(4, 0);
	struct uring polled = new_uring(4, IORING_SETUP_SQPOLL);
	const struct {
		const char *key;
		int fd;
		uint32_t flags;
	} tries[] = {
		{ "to_ring", plain.fd, 0 },
		{ "to_closed", 77777, 0 },
		{ "to_-1", -1, 0 },
		{ "to_file", file_of("f", 1, O_RDWR), 0 },
		{ "sqpoll_to_ring", plain.fd, IORING_SETUP_SQPOLL },
		{ "sqpoll_to_sqpoll", polled.fd, IORING_SETUP_SQPOLL },
		{ "plain_to_sqpoll", polled.fd, 0 },
		{ "sqpoll_to_file", 1, IORING_SETUP_SQPOLL },
	};
	struct io_uring_params params;
	size_t i;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		memset(&params, 0, sizeof(params));
		params.flags = IORING_SETUP_ATTACH_WQ | tries[i].flags;
		params.wq_fd = (uint32_t)tries[i].fd;
		look(tries[i].key, 4, &params);
	}
}

/* Prints the features on which test cases rely. A kernel may have further ones. */
static void features(void)
{
	static const struct {
		const char *key;
		uint32_t bit;
	} bits[] = {
		{ "single_mmap", IORING_FEAT_SINGLE_MMAP },
		{ "nodrop", IORING_FEAT_NODROP },
		{ "submit_stable", IORING_FEAT_SUBMIT_STABLE },
		{ "rw_cur_pos", IORING_FEAT_RW_CUR_POS },
		{ "cur_personality", IORING_FEAT_CUR_PERSONALITY },
		{ "fast_poll", IORING_FEAT_FAST_POLL },
		{ "poll_32bits", IORING_FEAT_POLL_32BITS },
		{ "sqpoll_nonfixed", IORING_FEAT_SQPOLL_NONFIXED },
		{ "ext_arg", IORING_FEAT_EXT_ARG },
		{ "native_workers", IORING_FEAT_NATIVE_WORKERS },
		{ "rsrc_tags", IORING_FEAT_RSRC_TAGS },
		{ "cqe_skip", IORING_FEAT_CQE_SKIP },
		{ "linked_file", IORING_FEAT_LINKED_FILE },
		{ "reg_reg_ring", IORING_FEAT_REG_REG_RING },
		{ "min_timeout", IORING_FEAT_MIN_TIMEOUT },
		{ "no_iowait", 1u << 17 },
	};
	struct uring ring = new_uring(4, 0);
	size_t i;

	for (i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		note(bits[i].key, !!(ring.params.features & bits[i].bit));
}

static void ring_words(void)
{
	struct uring ring = new_uring(3, 0);
	const struct io_sqring_offsets *sq = &ring.params.sq_off;
	const struct io_cqring_offsets *cq = &ring.params.cq_off;
	const char *base = ring.rings;

	note("sq_mask", ring.sq_mask);
	note("cq_mask", ring.cq_mask);
	note("sq_entries", *(const uint32_t *)(base + sq->ring_entries));
	note("cq_entries", *(const uint32_t *)(base + cq->ring_entries));
	note("resv", sq->resv1 | cq->resv1 | (sq->user_addr != 0));
	note("aligned", ((uintptr_t)ring.cqes & 15) == 0);
	note_rings("new", &ring);
}

static void user_addresses(void)
{
	struct io_uring_params params = { 0 };
	long fd;

	params.sq_off.user_addr = 0x1000;
	fd = uring_setup(4, &params);
	note("made", fd >= 0);
	note("sq_resv2", (long)params.sq_off.user_addr);
	note("cq_resv2", (long)params.cq_off.user_addr);
}

static void no_sqarray(void)
{
	struct uring ring = new_uring(4, IORING_SETUP_NO_SQARRAY);

	note("sq_array", ring.params.sq_off.array);
	sqe_of(&ring, IORING_OP_NOP, -1);
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("nop", &ring, 2);
	note_rings("then", &ring);
}

static void descriptor(void)
{
	struct uring ring = new_uring(4, 0);
	struct stat status;

	note("cloexec", fcntl(ring.fd, F_GETFD) & FD_CLOEXEC);
	note("access", fcntl(ring.fd, F_GETFL) & O_ACCMODE);
	note_result("fstat", fstat(ring.fd, &status));
	note("lowest", ring.fd == dup(ring.fd) - 1);
}

static void maps(void)
{
	struct uring ring = new_uring(4, 0);
	size_t bytes = ring.rings_bytes;
	const struct {
		const char *key;
		size_t bytes;
		uint64_t offset;
		int prot, flags;
	} tries[] = {
		{ "sq", bytes, IORING_OFF_SQ_RING, PROT_READ, MAP_SHARED },
		{ "cq", bytes, IORING_OFF_CQ_RING, PROT_READ | PROT_WRITE,
		  MAP_SHARED },
		{ "sqes", 256, IORING_OFF_SQES, PROT_READ | PROT_WRITE,
		  MAP_SHARED },
	};
	uint32_t *words;
	size_t i;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		words = mmap(NULL, tries[i].bytes, tries[i].prot,
			     tries[i].flags, ring.fd, (off_t)tries[i].offset);
		note_result(tries[i].key, words == MAP_FAILED ? -errno : 0);
	}
	/* The mmap() offsets of both rings map the same memory. */
	words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
		     IORING_OFF_CQ_RING);
	REQUIRE(words != MAP_FAILED);
	note("cq_mask", words[ring.params.cq_off.ring_mask / sizeof(*words)]);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit_wait(&ring, 1);
	note("cq_tail", words[ring.params.cq_off.tail / sizeof(*words)]);
}

static void descriptor_limit(void)
{
	struct rlimit limit = { 64, 64 };
	struct io_uring_params params = { 0 };

	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	while (dup(0) >= 0)
		;
	note_result("full", uring_setup(4, &params));
	close(63);
	memset(&params, 0, sizeof(params));
	note_result("last", uring_setup(4, &params));
}

static void use_within(rlim_t bytes)
{
	struct rlimit limit = { bytes, RLIM_INFINITY };
	struct uring ring;

	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	ring = new_uring(64, 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("nop", &ring, 1);
}

static void file_size_limit(void)
{
	use_within(1 << 20);
}

static void file_size_0(void)
{
	use_within(0);
}

/*
 * Sets RLIMIT_MEMLOCK to 8 MiB, as is usual, and locks future mappings. So the kernel
 * charges the memory of a ring to this limit.
 */
static void memory_locked(void)
{
	enum { NOBODY = 65534 };
	struct rlimit limit = { 8 << 20, 8 << 20 };
	struct uring ring;

	need_root();
	REQUIRE(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	REQUIRE(setresuid(NOBODY, NOBODY, NOBODY) == 0);
	REQUIRE(mlockall(MCL_FUTURE) == 0);
	ring = new_uring(4, 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_cqes("nop", &ring, 1);
}

static void disabled(void)
{
	struct uring ring = new_uring(4, IORING_SETUP_R_DISABLED);

	sqe_of(&ring, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&ring));
	note_result("wait", uring_submit_wait(&ring, 1));
	note_result(
		"enable",
		uring_register(ring.fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0));
	note_result("submit", uring_submit(&ring));
	note_cqes("nop", &ring, 1);
	note_result(
		"again",
		uring_register(ring.fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0));
}

const struct row rows_uring_setup[] = {
	ROW("a ring has a power of two entries, up to a limit", entries),
	ROW("a ring's completions have the size that was asked for", cq_size),
	ROW("sizes in params count only with a flag", cq_entries_unasked),
	ROW("a bad pointer to params comes first", params_pointer),
	ROW("params that cannot be written make no ring", params_read_only),
	ROW("reserved fields of params are zero", reserved),
	ROW("each flag of a setup alone", each_flag),
	ROW("flags of a setup that go together or not", flags_together),
	ROW("a polling thread's processor exists", sqpoll_cpu),
	ROW("a ring attaches to another ring only", attach),
	ROW("a ring has the features that clients look for", features),
	ROW("the words of a new ring", ring_words),
	ROW("a setup fills in no addresses", user_addresses),
	ROW("a ring without an array of indices", no_sqarray),
	ROW("a ring is a descriptor, closed by exec", descriptor),
	ROW("a ring is mapped in three ways", maps),
	ROW("a ring needs a free descriptor", descriptor_limit),
	ROW("a ring and a limit of a MiB for files", file_size_limit),
	ROW_DIFFERS("a ring does not need a file's size", file_size_0,
		    differs_ring_file, { "submit=1", "setup=ENOMEM" }),
	ROW("a ring of a process that locks its memory", memory_locked),
	ROW("a disabled ring takes nothing until it is enabled", disabled),
	NO_ROW,
};
