/* SPDX-License-Identifier: MIT */
/*
 * filter SOURCE TARGET COMMAND [ARGUMENT...]: runs COMMAND with SOURCE as its input and
 * TARGET as its output
 *
 * An example of libaio with pipes. Nothing in the program is special to uaio:
 *
 *     cc -O2 -o filter filter.c -laio
 *     uaio run -- ./filter a b sort      # as `sort <a >b`
 *     ./filter a b sort                  # on the kernel: hangs
 *
 * One thread and one AIO context do everything: they read SOURCE, write to the
 * command's input, read its output, and write to TARGET. A read of the output is in
 * flight from the beginning, long before there is any output.
 *
 * The kernel's AIO cannot have this read in flight: io_submit() of a read of an empty
 * pipe blocks. This thread would wait for the command's output, and the command for
 * this thread's input, for ever. On uaio, io_submit() returns, and the request waits
 * until the pipe is ready. So a program can use pipes like files on a disk.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	BLOCK_BYTES = 64 * 1024,
	/*
	 * One block carries data from SOURCE to the command. The other four carry the
	 * command's output: the program reads into one of them while it writes others
	 * to TARGET.
	 */
	NR_BLOCKS = 1 + 4,
};

/*
 * A block's operation in flight. A block alternates between READ_SOURCE and
 * WRITE_COMMAND, or between READ_COMMAND and WRITE_TARGET.
 */
enum step {
	FREE,
	READ_SOURCE,
	WRITE_COMMAND,
	READ_COMMAND,
	WRITE_TARGET,
};

struct block {
	struct iocb request;
	enum step step;
	size_t size;     /* bytes in it */
	size_t done;     /* bytes written so far */
	long long start; /* offset of the block in TARGET */
	char bytes[BLOCK_BYTES];
};

static struct {
	int source, target;
	int input, output; /* pipes to and from the command */
	long long source_end, target_end;
	bool is_at_end; /* the command's output has ended */
	unsigned nr_in_flight;
	io_context_t context;
	struct block blocks[NR_BLOCKS];
} filter;

/* libaio's functions return a negative errno, and do not set errno. */
static void fail(const char *what, int error)
{
	fprintf(stderr, "filter: %s: %s\n", what, strerror(error));
	exit(1);
}

static void submit(struct block *block, enum step step)
{
	struct iocb *request = &block->request;
	char *rest = block->bytes + block->done;
	size_t nr_left = block->size - block->done;
	long long at = block->start + (long long)block->done;
	int ret;

	switch (step) {
	case READ_SOURCE:
		io_prep_pread(request, filter.source, block->bytes, BLOCK_BYTES,
			      filter.source_end);
		break;
	case WRITE_COMMAND: /* a pipe has no offset: use 0 */
		io_prep_pwrite(request, filter.input, rest, nr_left, 0);
		break;
	case READ_COMMAND:
		io_prep_pread(request, filter.output, block->bytes, BLOCK_BYTES,
			      0);
		break;
	default:
		io_prep_pwrite(request, filter.target, rest, nr_left, at);
		break;
	}
	block->step = step;
	/* io_getevents() returns this pointer in the event */
	request->data = block;
	ret = io_submit(filter.context, 1, &request);
	if (ret != 1)
		fail("io_submit", -ret);
	filter.nr_in_flight++;
}

/*
 * Read the command's output into only one block at a time, so that TARGET gets the
 * output in order. The other blocks are being written to TARGET, or are free.
 */
static void read_command(void)
{
	struct block *block = NULL;

	for (unsigned i = 1; i < NR_BLOCKS; i++) {
		if (filter.blocks[i].step == READ_COMMAND)
			return;
		if (filter.blocks[i].step == FREE)
			block = &filter.blocks[i];
	}
	if (block && !filter.is_at_end)
		submit(block, READ_COMMAND);
}

/* Close the pipe, so that the command sees the end of its input. */
static void end_input(struct block *block)
{
	close(filter.input);
	block->step = FREE;
}

/* A block's read has completed: write the block. A size of 0 means end of file. */
static void has_read(struct block *block, size_t size)
{
	block->size = size;
	block->done = 0;
	if (block->step == READ_SOURCE) {
		filter.source_end += (long long)size;
		if (size)
			submit(block, WRITE_COMMAND);
		else
			end_input(block);
		return;
	}
	block->start = filter.target_end;
	filter.target_end += (long long)size;
	if (size) {
		submit(block, WRITE_TARGET);
	} else {
		filter.is_at_end = true;
		block->step = FREE;
	}
	read_command();
}

static void has_written(struct block *block, size_t size)
{
	block->done += size;
	if (block->done < block->size) {
		submit(block, block->step);
	} else if (block->step == WRITE_COMMAND) {
		submit(block, READ_SOURCE);
	} else {
		block->step = FREE;
		read_command();
	}
}

/*
 * Handle an event, whose res is the result of the system call, or a negative errno.
 */
static void handle(const struct io_event *event)
{
	struct block *block = event->data;
	long result = (long)event->res;

	filter.nr_in_flight--;
	/*
	 * EPIPE means that the command has ended before its input ends, as head does.
	 * This is not an error.
	 */
	if (result == -EPIPE && block->step == WRITE_COMMAND)
		end_input(block);
	else if (result < 0)
		fail("a request", (int)-result);
	else if (block->step == READ_SOURCE || block->step == READ_COMMAND)
		has_read(block, (size_t)result);
	else
		has_written(block, (size_t)result);
}

static void run(void)
{
	struct io_event events[NR_BLOCKS];
	int nr;

	nr = io_setup(NR_BLOCKS, &filter.context);
	if (nr < 0)
		fail("io_setup", -nr);
	submit(&filter.blocks[0], READ_SOURCE);
	read_command(); /* here the kernel's AIO would wait for ever */
	while (filter.nr_in_flight) {
		nr = io_getevents(filter.context, 1, NR_BLOCKS, events, NULL);
		if (nr < 0 && nr != -EINTR)
			fail("io_getevents", -nr);
		for (int i = 0; i < nr; i++)
			handle(&events[i]);
	}
	io_destroy(filter.context);
}

static int open_file(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0666);

	if (fd < 0)
		fail(path, errno);
	return fd;
}

/*
 * Start the command with one pipe as its input and another pipe as its output. The
 * command must not inherit this process's ends of the pipes.
 */
static pid_t start(char **command)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int input[2], output[2], ret;
	sigset_t signals;
	pid_t pid;

	if (pipe2(input, O_CLOEXEC) || pipe2(output, O_CLOEXEC))
		fail("pipe", errno);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
	/*
	 * Ignore SIGPIPE, so that a write fails with EPIPE instead. The command starts
	 * with the default action.
	 */
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&signals);
	sigaddset(&signals, SIGPIPE);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigdefault(&attributes, &signals);
	ret = posix_spawnp(&pid, command[0], &actions, &attributes, command,
			   environ);
	if (ret)
		fail(command[0], ret);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	close(input[0]);
	close(output[1]);
	filter.input = input[1];
	filter.output = output[0];
	return pid;
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc < 4) {
		fprintf(stderr, "usage: filter SOURCE TARGET COMMAND "
				"[ARGUMENT...]\n");
		return 2;
	}
	filter.source = open_file(argv[1], O_RDONLY);
	filter.target = open_file(argv[2], O_WRONLY | O_CREAT | O_TRUNC);
	pid = start(argv + 3);
	run();
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "filter: %s failed\n", argv[3]);
		return 1;
	}
	return 0;
}
