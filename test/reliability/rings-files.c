/* SPDX-License-Identifier: MIT */
/* Requests of files. */
#include "rings.h"

#include <fcntl.h>
#include <unistd.h>

struct target {
	int fd;
	uint8_t flags; /* IOSQE_FIXED_FILE or 0 */
	uint8_t id;
	/*
	 * index of the file in world.files; NR_FILES: one of the two files of a pair
	 */
	uint8_t file;
	bool is_own;
};

static void target_stable(struct batch *batch, struct target *target)
{
	bool is_registered = one_in(batch, 3);

	target->file = target->id = (uint8_t)any(
		batch->thread, is_registered ? NR_STABLE : NR_FILES);
	target->fd = world.files[target->file];
	if (is_registered) {
		target->fd = target->file;
		target->flags = IOSQE_FIXED_FILE;
	}
}

/*
 * Use the descriptor that belongs to this thread. After the submitting call has
 * returned, the thread may put another file at this descriptor. The request must still
 * use the file that was there when it was submitted.
 */
static void target_own(struct batch *batch, struct target *target)
{
	struct thread *thread = batch->thread;

	target->is_own = true;
	if (one_in(batch, 2)) {
		batch->uses_own = true;
		target->fd = OWN_FD + (int)thread->index;
		target->file = thread->own_file;
	} else {
		batch->uses_own_registered = true;
		target->fd = OWN_INDEX + (int)thread->index;
		target->flags = IOSQE_FIXED_FILE;
		target->file = thread->own_registered[batch->ring->index];
	}
	target->id = target->file;
}

static void target_pair(struct batch *batch, struct target *target)
{
	const unsigned pair = any(batch->thread, NR_PAIRS);

	target->file = NR_FILES;
	target->id = (uint8_t)(NR_FILES + pair);
	target->fd = PAIR_FD + (int)pair;
	if (one_in(batch, 2)) {
		target->fd = PAIR_INDEX + (int)pair;
		target->flags = IOSQE_FIXED_FILE;
	}
}

static struct target any_target(struct batch *batch)
{
	/*
	 * The ring may look up a request's file late: if a drain delays the request, or
	 * if a kernel thread submits it.
	 */
	const bool is_late = batch->ring->has_drains || is_polled(batch->ring);
	struct target target = { 0 };

	switch (any(batch->thread, 6)) {
	case 0:
		if (!is_late && batch->thread->own) {
			target_own(batch, &target);
			break;
		}
		/* fall through */
	case 1: target_pair(batch, &target); break;
	default: target_stable(batch, &target);
	}
	return target;
}

static void aim(struct slot *slot, const struct target *target)
{
	slot->id = target->id;
	slot->files = files_of(target->id);
	slot->file = target->file;
	slot->may_be_bad = target->file == NR_FILES;
	slot->used = target->fd;
}

/* Fill the slot's memory with a new version of the block slot->block. */
static void fill(struct slot *slot)
{
	uint32_t *version = &record->versions[slot->block];

	*version = (*version + 1) & 0xffffff;
	slot->version = *version;
	slot->len = BLOCK;
	slot->first = slot->block * WORDS;
	for (uint32_t i = 0; i < WORDS; i++)
		slot->words[i] =
			word_of(slot->id, slot->version, slot->first + i);
}

/*
 * Choose what to read: a part of the slot's own block, to which no other slot writes,
 * or a part of any block.
 */
static void choose_read(struct batch *batch, struct slot *slot)
{
	const uint32_t nr = 1 + any(batch->thread, WORDS);

	if (one_in(batch, 2))
		slot->block = any(batch->thread, NR_BLOCKS);
	else if (slot->file < NR_FILES) {
		slot->version = record->expected[slot->file][slot->block];
		slot->is_exact = slot->version != UNKNOWN;
	}
	slot->len = nr * 8;
	slot->first = slot->block * WORDS + any(batch->thread, WORDS - nr + 1);
	poison(slot);
}

/*
 * Prepare a read or write with a plain buffer, a vector or a registered buffer, chosen
 * at random.
 */
static struct io_uring_sqe *put_file(struct batch *batch, enum kind kind,
				     const struct target *target)
{
	static const uint8_t opcodes[2][3] = {
		{ IORING_OP_READ, IORING_OP_READV, IORING_OP_READ_FIXED },
		{ IORING_OP_WRITE, IORING_OP_WRITEV, IORING_OP_WRITE_FIXED },
	};
	const int opcode = opcodes[kind == KIND_WRITE][any(batch->thread, 3)];
	struct io_uring_sqe *sqe = put(batch, kind, opcode, target->fd);

	if (!sqe)
		return NULL;
	sqe->flags = target->flags;
	aim(last_of(batch), target);
	return sqe;
}

static void address(struct slot *slot, struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t)slot->words;
	sqe->len = slot->len;
	sqe->off = (uint64_t)slot->first * 8;
	if (sqe->opcode != IORING_OP_READV && sqe->opcode != IORING_OP_WRITEV)
		return;
	slot->iov = (struct iovec){ slot->words, slot->len };
	sqe->addr = (uintptr_t)&slot->iov;
	sqe->len = 1;
}

void make_file(struct batch *batch)
{
	const bool is_write = one_in(batch, 2);
	const struct target target = any_target(batch);
	struct io_uring_sqe *sqe =
		put_file(batch, is_write ? KIND_WRITE : KIND_READ, &target);

	if (!sqe)
		return;
	if (is_write)
		fill(last_of(batch));
	else
		choose_read(batch, last_of(batch));
	address(last_of(batch), sqe);
	/*
	 * With IOSQE_ASYNC, a worker looks up the descriptor later. By then this thread
	 * may have put another file at its own descriptor, so do not set IOSQE_ASYNC in
	 * that case.
	 */
	if (!target.is_own)
		make_async(batch, sqe);
}

/*
 * A write, linked to a read of the same block: the read must return what was written.
 */
void make_chain(struct batch *batch)
{
	struct target target = { 0 };
	struct io_uring_sqe *write, *read;
	struct slot *writer, *reader;

	target_stable(batch, &target);
	write = put_file(batch, KIND_WRITE, &target);
	if (!write)
		return;
	writer = last_of(batch);
	read = put_file(batch, KIND_READ, &target);
	if (read) {
		reader = last_of(batch);
		hold_slot(batch->ring, reader, writer);
		writer->block = reader->block;
		write->flags |= IOSQE_IO_LINK;
	}
	fill(writer);
	address(writer, write);
	if (!read)
		return;
	reader->version = writer->version;
	reader->is_exact = true;
	reader->first = writer->first;
	reader->len = BLOCK;
	poison(reader);
	address(reader, read);
	make_async(batch, write);
}

void make_open(struct batch *batch)
{
	struct io_uring_sqe *sqe =
		put(batch, KIND_OPEN, IORING_OP_OPENAT, AT_FDCWD);
	const uint8_t file = (uint8_t)any(batch->thread, NR_FILES);

	if (!sqe)
		return;
	last_of(batch)->file = file;
	sqe->addr = (uintptr_t)world.paths[file];
	sqe->open_flags = O_RDWR | O_CLOEXEC;
	make_async(batch, sqe);
}

void make_close(struct batch *batch)
{
	struct io_uring_sqe *sqe;
	int fd = -1;

	lock(&world.closing_lock);
	if (world.nr_closing)
		fd = world.closing[--world.nr_closing];
	unlock(&world.closing_lock);
	if (fd < 0)
		return;
	sqe = put(batch, KIND_CLOSE, IORING_OP_CLOSE, fd);
	if (!sqe) {
		close(fd);
		return;
	}
	last_of(batch)->fd = fd;
	make_async(batch, sqe);
}

void make_sync(struct batch *batch)
{
	struct io_uring_sqe *sqe =
		put(batch, KIND_SYNC, IORING_OP_FSYNC, world.files[0]);

	if (sqe && one_in(batch, 2))
		sqe->fsync_flags = IORING_FSYNC_DATASYNC;
}

/*
 * Add a request that registers one of the two files of a pair at the index of that pair.
 * The two files take turns there.
 */
void make_update(struct batch *batch)
{
	const unsigned pair = any(batch->thread, NR_PAIRS);
	struct io_uring_sqe *sqe =
		put(batch, KIND_UPDATE, IORING_OP_FILES_UPDATE, -1);
	struct slot *slot;

	if (!sqe)
		return;
	slot = last_of(batch);
	slot->fd = world.files[pair_files[pair][any(batch->thread, 2)]];
	sqe->addr = (uintptr_t)&slot->fd;
	sqe->len = 1;
	sqe->off = PAIR_INDEX + pair;
	make_async(batch, sqe);
}
