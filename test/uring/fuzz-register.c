/* SPDX-License-Identifier: MIT */
/* Calls io_uring_register() with random arguments. */
#undef NDEBUG
#include "fuzz.h"

union register_arg {
	struct io_uring_rsrc_register rsrc;
	struct io_uring_rsrc_update2 update;
	struct io_uring_buf_reg array;
	struct io_uring_restriction restrictions[128];
	struct io_uring_sync_cancel_reg cancel;
	struct io_uring_file_index_range range;
	struct {
		struct io_uring_probe head;
		struct io_uring_probe_op ops[256];
	} probe;
	uint32_t words[64];
	int fd;
};

static const uint64_t tags[] = {
	0, EXTRA | 1, EXTRA | 2, 0, EXTRA, 0, EXTRA, 0
};

static long register_table(int fd, uint32_t opcode)
{
	bool is_file = opcode == IORING_REGISTER_FILES ||
		       opcode == IORING_REGISTER_FILES2 ||
		       opcode == IORING_REGISTER_FILES_UPDATE ||
		       opcode == IORING_REGISTER_FILES_UPDATE2;
	void *from = some_table(is_file);
	union register_arg arg = { 0 };

	switch (opcode) {
	case IORING_REGISTER_FILES:
	case IORING_REGISTER_BUFFERS:
		return uring_register(fd, opcode, from, any(12));
	case IORING_REGISTER_FILES2:
	case IORING_REGISTER_BUFFERS2:
		arg.rsrc.nr = 1 + any(8);
		arg.rsrc.flags = any(2);
		arg.rsrc.data = arg.rsrc.flags ? 0 : (uintptr_t)from;
		arg.rsrc.tags = any(2) ? 0 : (uintptr_t)tags;
		return uring_register(fd, opcode, &arg, sizeof(arg.rsrc));
	case IORING_REGISTER_FILES_UPDATE:
		arg.update.offset = any(12);
		arg.update.data = (uintptr_t)from;
		return uring_register(fd, opcode, &arg, any(8));
	default:
		arg.update.offset = any(12);
		arg.update.data = (uintptr_t)from;
		arg.update.tags = any(2) ? 0 : (uintptr_t)tags;
		arg.update.nr = any(8);
		return uring_register(fd, opcode, &arg, sizeof(arg.update));
	}
}

/* Return: whether the bytes at this address are in the arena, the requests' memory. */
static bool is_in_arena(uint64_t at, uint64_t bytes)
{
	return at >= (uintptr_t)arena && at < (uintptr_t)arena + ARENA &&
	       bytes <= (uintptr_t)arena + ARENA - at;
}

static long register_array(int fd)
{
	union register_arg arg = { 0 };
	bool is_there;
	uint64_t bytes;

	arg.array.ring_addr = memory() & ~UINT64_C(4095);
	arg.array.ring_entries = any(8) ? 1u << any(8) : length();
	arg.array.bgid = (uint16_t)any(4);
	arg.array.flags = (uint16_t)(any(2) ? 0 : any(4));
	if (arg.array.flags & IOU_PBUF_RING_MMAP)
		arg.array.ring_addr = 0;
	bytes = (uint64_t)arg.array.ring_entries * sizeof(struct io_uring_buf);
	is_there = is_in_arena(arg.array.ring_addr, 1);
	if (is_alone && is_in_arena(arg.array.ring_addr, bytes))
		arg.array.ring_addr =
			(uintptr_t)arrays + (uint64_t)world.nr_arrays++ * ARRAY;
	/*
	 * Fill the array with entries that describe buffers in the arena (the requests'
	 * memory).
	 */
	if (is_there) {
		struct io_uring_buf *bufs = (void *)arg.array.ring_addr;

		for (unsigned i = 0; i < 16; i++) {
			bufs[i].addr = memory();
			bufs[i].len = length();
			bufs[i].bid = (uint16_t)i;
			if (i == 0)
				bufs[i].resv = (uint16_t)any(16);
		}
	}
	return uring_register(fd, IORING_REGISTER_PBUF_RING, &arg, 1);
}

static long register_cancel(int fd)
{
	union register_arg arg = { 0 };

	arg.cancel.addr = some_user_data();
	arg.cancel.fd = some_fd();
	arg.cancel.flags = any(64);
	arg.cancel.timeout.tv_nsec = 1000;
	return uring_register(fd, IORING_REGISTER_SYNC_CANCEL, &arg, 1);
}

static void add_restriction(union register_arg *arg, uint32_t *nr,
			    uint32_t opcode, uint32_t value)
{
	struct io_uring_restriction *to = &arg->restrictions[(*nr)++];

	to->opcode = (uint16_t)opcode;
	to->register_op = (uint8_t)value;
}

long register_likely_restrictions(struct ring *ring)
{
	/*
	 * how many operations and register operations the tested kernel has, and how
	 * many restrictions it accepts
	 */
	enum { NR_OPS = 63, NR_REGISTER_OPS = 35, MOST = 110 };
	union register_arg arg = { 0 };
	const uint32_t rarely = 1 + any(12), flags = any(4) ? 0x7f : any(256);
	uint32_t nr = 0;
	long ret;

	for (uint32_t i = 0; i < NR_OPS; i++)
		if (any(rarely))
			add_restriction(&arg, &nr, IORING_RESTRICTION_SQE_OP,
					i);
	for (uint32_t i = 0; i < NR_REGISTER_OPS; i++)
		if (any(rarely))
			add_restriction(&arg, &nr,
					IORING_RESTRICTION_REGISTER_OP, i);
	if (any(8))
		add_restriction(&arg, &nr, IORING_RESTRICTION_SQE_FLAGS_ALLOWED,
				flags);
	if (any(4) == 0)
		add_restriction(&arg, &nr,
				IORING_RESTRICTION_SQE_FLAGS_REQUIRED,
				1u << any(8));
	if (any(16) == 0)
		nr = any(MOST);
	ret = uring_register(ring->uring.fd, IORING_REGISTER_RESTRICTIONS, &arg,
			     nr);
	if (ret == 0)
		ring->is_lossy = true;
	return ret;
}

static long register_restrictions(struct ring *ring)
{
	union register_arg arg = { 0 };
	uint32_t nr = any(5);
	long ret;

	for (uint32_t i = 0; i < nr; i++) {
		arg.restrictions[i].opcode = (uint16_t)any(5);
		arg.restrictions[i].register_op = (uint8_t)any(30);
	}
	ret = uring_register(ring->uring.fd, IORING_REGISTER_RESTRICTIONS, &arg,
			     nr);
	if (ret == 0)
		ring->is_lossy = true;
	return ret;
}

static long register_words(int fd, uint32_t opcode)
{
	union register_arg arg = { 0 };

	if (any(4) == 0)
		return uring_register(fd, opcode, NULL, 0);
	arg.words[0] = any(20);
	arg.words[1] = any(20);
	return uring_register(fd, opcode, &arg, any(8) ? any(3) : any(64));
}

long make_register(struct ring *ring, uint32_t *ret_opcode)
{
	uint32_t opcode = any(36);
	union register_arg arg = { 0 };

	if (any(3) == 0)
		opcode = PICK(((const uint32_t[]){
			IORING_REGISTER_FILES, IORING_REGISTER_BUFFERS,
			IORING_REGISTER_FILES2, IORING_REGISTER_BUFFERS2,
			IORING_REGISTER_PBUF_RING }));
	*ret_opcode = opcode;
	/*
	 * Isolated scenarios do not make these calls. The library has no NAPI
	 * and no zero-copy receives, and the count of an eventfd depends on time.
	 */
	if (is_alone && (opcode == 27 || opcode == 28 || opcode == 32 ||
			 opcode == IORING_REGISTER_EVENTFD ||
			 opcode == IORING_REGISTER_EVENTFD_ASYNC))
		return 0;
	switch (opcode) {
	case IORING_REGISTER_FILES:
	case IORING_REGISTER_BUFFERS:
	case IORING_REGISTER_FILES2:
	case IORING_REGISTER_BUFFERS2:
	case IORING_REGISTER_FILES_UPDATE:
	case IORING_REGISTER_FILES_UPDATE2:
	case IORING_REGISTER_BUFFERS_UPDATE:
		return register_table(ring->uring.fd, opcode);
	case IORING_UNREGISTER_FILES:
	case IORING_UNREGISTER_BUFFERS:
	case IORING_UNREGISTER_EVENTFD:
		return any(3) ? 0
			      : uring_register(ring->uring.fd, opcode, NULL, 0);
	case IORING_REGISTER_EVENTFD:
	case IORING_REGISTER_EVENTFD_ASYNC:
		arg.fd = some_fd();
		return uring_register(ring->uring.fd, opcode, &arg, 1);
	case IORING_REGISTER_PROBE:
		return uring_register(ring->uring.fd, opcode, &arg, any(257));
	case IORING_REGISTER_RESTRICTIONS: return register_restrictions(ring);
	case IORING_REGISTER_ENABLE_RINGS:
		return uring_register(ring->uring.fd, opcode, NULL, 0);
	case IORING_REGISTER_PBUF_RING: return register_array(ring->uring.fd);
	case IORING_REGISTER_SYNC_CANCEL:
		return register_cancel(ring->uring.fd);
	case IORING_REGISTER_IOWQ_MAX_WORKERS:
	case IORING_REGISTER_IOWQ_AFF: /* affects the whole process */
	case 33: /* RESIZE_RINGS: would move the ring's memory */ return 0;
	default: return register_words(ring->uring.fd, opcode);
	}
}
