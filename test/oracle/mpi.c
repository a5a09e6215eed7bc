/* SPDX-License-Identifier: MIT */
/*
 * mpi WAY PATH: a program of several MPI processes (ranks) that write one file by
 * MPI-IO and read it back
 *
 * independent  each rank has many MPI_File_iwrite_at in flight, of one block each;
 *              then as many MPI_File_iread_at
 * collective   all n ranks together call MPI_File_iwrite_at_all, in which each rank
 *              writes every n-th block; then MPI_File_iread_at_all
 * blocking     like collective, by MPI_File_write_at_all and read_at_all
 * killed       like independent, but each rank has a file of its own, PATH.RANK;
 *              one rank is killed while it writes, and the others do not wait for it
 *
 * Each word of the file encodes its position and the round in which it was written, so
 * that missing, late or misplaced data shows. Each rank reads what another rank wrote.
 * In `killed`, a rank that has written a round appends the round's number to
 * PATH.RANK.done.
 */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	BLOCK = 12288, /* in bytes: three pages, which is not a power of two */
	BLOCKS = 48,   /* blocks that each rank writes */
	WORDS = BLOCK / 8,
	ROUNDS = 4,
	KILLED = 2, /* the rank that is killed */
	/* how many rounds the rank KILLED makes before it is killed */
	KILLED_ROUNDS = 8,
	OTHER_ROUNDS = 40, /* rounds of the other ranks */
};

static int rank, nr_ranks;
static uint64_t buffers[BLOCKS][WORDS];
static _Atomic int nr_written;

static _Noreturn void fail(const char *what, int code)
{
	fprintf(stderr, "mpi: rank %d: %s: %d\n", rank, what, code);
	MPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

static void check(const char *what, int error)
{
	if (error != MPI_SUCCESS)
		fail(what, error);
}

/* Return: the offset of block i of this rank in the file. */
static MPI_Offset place(int of_rank, int i)
{
	return ((MPI_Offset)i * nr_ranks + of_rank) * BLOCK;
}

static uint64_t word_at(MPI_Offset offset, int round)
{
	return (uint64_t)offset | (uint64_t)round << 48;
}

static void fill(int i, MPI_Offset at, int round)
{
	for (int word = 0; word < WORDS; word++)
		buffers[i][word] = word_at(at + word * 8, round);
}

static void compare(int i, MPI_Offset at, int round)
{
	for (int word = 0; word < WORDS; word++)
		if (buffers[i][word] != word_at(at + word * 8, round))
			fail("what was read is not what was written, in block",
			     i);
}

static void await(MPI_Request *requests, int nr, int count)
{
	MPI_Status statuses[BLOCKS];
	int bytes;

	check("MPI_Waitall", MPI_Waitall(nr, requests, statuses));
	for (int i = 0; i < nr; i++) {
		check("MPI_Get_count",
		      MPI_Get_count(&statuses[i], MPI_BYTE, &bytes));
		if (bytes != count)
			fail("bytes moved", bytes);
	}
}

/*
 * Sync the file, then wait until all ranks have done so. Then each rank sees the writes
 * of the others.
 */
static void publish(MPI_File file)
{
	check("MPI_File_sync", MPI_File_sync(file));
	check("MPI_Barrier", MPI_Barrier(MPI_COMM_WORLD));
}

static void independent(MPI_File file, int round)
{
	MPI_Request requests[BLOCKS];
	int other = (rank + round) % nr_ranks;

	for (int i = 0; i < BLOCKS; i++) {
		fill(i, place(rank, i), round);
		check("MPI_File_iwrite_at",
		      MPI_File_iwrite_at(file, place(rank, i), buffers[i],
					 BLOCK, MPI_BYTE, &requests[i]));
	}
	await(requests, BLOCKS, BLOCK);
	publish(file);
	memset(buffers, 0, sizeof(buffers));
	for (int i = 0; i < BLOCKS; i++)
		check("MPI_File_iread_at",
		      MPI_File_iread_at(file, place(other, i), buffers[i],
					BLOCK, MPI_BYTE, &requests[i]));
	await(requests, BLOCKS, BLOCK);
	for (int i = 0; i < BLOCKS; i++)
		compare(i, place(other, i), round);
}

/* Set a file view, through which this rank sees only the blocks of rank of_rank. */
static void view(MPI_File file, int of_rank)
{
	MPI_Datatype blocks;

	check("MPI_Type_vector",
	      MPI_Type_vector(BLOCKS, BLOCK, BLOCK * nr_ranks, MPI_BYTE,
			      &blocks));
	check("MPI_Type_commit", MPI_Type_commit(&blocks));
	check("MPI_File_set_view",
	      MPI_File_set_view(file, place(of_rank, 0), MPI_BYTE, blocks,
				"native", MPI_INFO_NULL));
	check("MPI_Type_free", MPI_Type_free(&blocks));
}

static void collective(MPI_File file, int round, bool blocks)
{
	int other = (rank + round) % nr_ranks, bytes = (int)sizeof(buffers);
	MPI_Request request;
	MPI_Status status;

	for (int i = 0; i < BLOCKS; i++)
		fill(i, place(rank, i), round);
	view(file, rank);
	if (blocks) {
		check("MPI_File_write_at_all",
		      MPI_File_write_at_all(file, 0, buffers, bytes, MPI_BYTE,
					    &status));
	} else {
		check("MPI_File_iwrite_at_all",
		      MPI_File_iwrite_at_all(file, 0, buffers, bytes, MPI_BYTE,
					     &request));
		await(&request, 1, bytes);
	}
	publish(file);
	memset(buffers, 0, sizeof(buffers));
	view(file, other);
	if (blocks) {
		check("MPI_File_read_at_all",
		      MPI_File_read_at_all(file, 0, buffers, bytes, MPI_BYTE,
					   &status));
	} else {
		check("MPI_File_iread_at_all",
		      MPI_File_iread_at_all(file, 0, buffers, bytes, MPI_BYTE,
					    &request));
		await(&request, 1, bytes);
	}
	for (int i = 0; i < BLOCKS; i++)
		compare(i, place(other, i), round);
}

static void share(const char *way, const char *path)
{
	bool is_independent = !strcmp(way, "independent");
	bool blocks = !strcmp(way, "blocking");
	MPI_File file;

	check("MPI_File_open", MPI_File_open(MPI_COMM_WORLD, path,
					     MPI_MODE_CREATE | MPI_MODE_RDWR,
					     MPI_INFO_NULL, &file));
	for (int round = 1; round <= ROUNDS; round++) {
		if (is_independent)
			independent(file, round);
		else
			collective(file, round, blocks);
		check("MPI_Barrier", MPI_Barrier(MPI_COMM_WORLD));
	}
	check("MPI_File_close", MPI_File_close(&file));
}

/* The mode `killed`, in which one rank is killed */

/* Kill the process while its main thread writes. */
static void *kill_myself(void *unused)
{
	while (atomic_load(&nr_written) < KILLED_ROUNDS)
		sched_yield();
	kill(getpid(), SIGKILL);
	return unused;
}

static void write_alone(const char *path)
{
	MPI_Request requests[BLOCKS];
	char own[4096], done[4096 + 8];
	pthread_t killer;
	MPI_File file;
	int log;

	snprintf(own, sizeof(own), "%s.%d", path, rank);
	snprintf(done, sizeof(done), "%s.done", own);
	log = open(done, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log < 0)
		fail(done, log);
	check("MPI_File_open",
	      MPI_File_open(MPI_COMM_SELF, own, MPI_MODE_CREATE | MPI_MODE_RDWR,
			    MPI_INFO_NULL, &file));
	check("MPI_Barrier", MPI_Barrier(MPI_COMM_WORLD));
	if (rank == KILLED && pthread_create(&killer, NULL, kill_myself, NULL))
		fail("pthread_create", 0);
	for (int round = 1; rank == KILLED || round <= OTHER_ROUNDS; round++) {
		for (int i = 0; i < BLOCKS; i++) {
			MPI_Offset at =
				((MPI_Offset)(round - 1) * BLOCKS + i) * BLOCK;

			fill(i, at, round);
			check("MPI_File_iwrite_at",
			      MPI_File_iwrite_at(file, at, buffers[i], BLOCK,
						 MPI_BYTE, &requests[i]));
		}
		await(requests, BLOCKS, BLOCK);
		atomic_store(&nr_written, round);
		if (write(log, &(unsigned char){ (unsigned char)round }, 1) !=
		    1)
			fail("the log", round);
	}
	/* Exit without MPI_Finalize, which would wait for the killed rank. */
	fflush(NULL);
	_exit(0);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nr_ranks);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (argc != 3)
		fail("usage: mpi WAY PATH", argc);
	if (!strcmp(argv[1], "killed"))
		write_alone(argv[2]);
	share(argv[1], argv[2]);
	MPI_Finalize();
	return 0;
}
