/* SPDX-License-Identifier: MIT */
/*
 * rings [--seed S] [--seconds N]: threads submit to shared io_uring rings, while other
 * threads disturb them
 *
 * The program runs scenarios (struct world of rings.h), one after another, for N
 * seconds. In a scenario, 2 to 4 threads submit random requests to rings that they
 * share and to rings of their own, which they resize. Meanwhile descriptors and
 * registered files are replaced and closed, signals interrupt calls, children are
 * forked, and other rings are made and closed. About a fourth of the scenarios run in
 * child processes. There, threads also leave io_uring_enter() by siglongjmp() and are
 * cancelled in it.
 *
 * The program fails unless all this holds. Each accepted request has one last
 * completion. No request has a result that its kind cannot have. Each byte read comes
 * from the intended file and offset, and has the intended version. If two files take
 * turns at the request's descriptor, the byte comes from one of them. Files contain what
 * was written last, and nothing else. Streams lose and repeat no byte. After a request
 * has completed, its memory does not change. After each scenario the process has no more
 * descriptors, mappings and threads than after the first few. The process's memory does
 * not grow from scenario to scenario.
 *
 * The program uses io_uring by system calls. So it tests the io_uring of the kernel, or
 * of a preloaded library. `uaio run --uring=always` sets the variable UAIO_URING. If
 * UAIO_URING is set, but the rings are the kernel's, the program fails.
 */
#include "rings.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

enum {
	PATIENCE_S = 120, /* for one scenario */
	NR_DISTURBERS = 6,
	ENTRIES = 32,
	FILE_BYTES = NR_BLOCKS * BLOCK,
};

struct world world;
struct ring rings[NR_RINGS];
struct record *record;
const uint8_t pair_files[NR_PAIRS][2] = {
	{ 4, 5 },
	{ 6, 7 },
	{ 4, 6 },
	{ 5, 7 },
};

static const char *program;

uint32_t any(struct thread *thread, uint32_t n)
{
	thread->random =
		thread->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(thread->random >> 33) % n;
}

static bool is_preloaded(void)
{
	return getenv("UAIO_URING");
}

void failed(const char *format, ...)
{
	static uint32_t is_told; /* atomic */
	va_list args;

	/*
	 * The first thread that finds a fault prints it and ends the process. Other
	 * threads wait here for that end.
	 */
	while (__atomic_exchange_n(&is_told, 1, __ATOMIC_SEQ_CST))
		sleep(1);
	va_start(args, format);
	fprintf(stderr, "failed: ");
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nreplay: %s%s --seed %llu --seconds 20\n",
		is_preloaded() ? "uaio run --uring=always -- " : "", program,
		(unsigned long long)world.seed);
	_exit(1);
}

void require(bool ok, const char *what)
{
	if (!ok)
		failed("%s (errno %d, %s)", what, errno, strerror(errno));
}

static void on_alarm(int sig)
{
	(void)sig;
	tell_pending();
	failed("a world has not ended after %d s", PATIENCE_S);
}

void pause_us(unsigned us)
{
	const struct timespec time = { .tv_nsec = us * 1000l };

	(void)nanosleep(&time, NULL);
}

void lock(pthread_mutex_t *mutex)
{
	require(pthread_mutex_lock(mutex) == 0, "pthread_mutex_lock()");
}

void unlock(pthread_mutex_t *mutex)
{
	require(pthread_mutex_unlock(mutex) == 0, "pthread_mutex_unlock()");
}

/* The files, which all scenarios use */

static uint64_t content[FILE_BYTES / 8];

/*
 * Return: the descriptor of a new file. If `index` is odd, the file is in the current
 * directory; otherwise, or if that fails, it is in memory.
 */
static int new_file(unsigned index)
{
	int fd = -1;

	if (index % 2)
		fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		fd = memfd_create("rings", MFD_CLOEXEC);
	require(fd >= 0, "a file");
	return fd;
}

static void make_files(void)
{
	for (unsigned i = 0; i < NR_FILES; i++) {
		struct stat st;

		world.files[i] = new_file(i);
		for (uint32_t k = 0; k < NR_ELEMENTS(content); k++)
			content[k] = word_of(i, 0, k);
		require(pwrite(world.files[i], content, FILE_BYTES, 0) ==
				FILE_BYTES,
			"pwrite()");
		require(fstat(world.files[i], &st) == 0, "fstat()");
		world.identities[i].dev = st.st_dev;
		world.identities[i].ino = st.st_ino;
		snprintf(world.paths[i], sizeof(world.paths[i]),
			 "/proc/self/fd/%d", world.files[i]);
	}
}

static void check_file(unsigned file)
{
	require(pread(world.files[file], content, FILE_BYTES, 0) == FILE_BYTES,
		"pread()");
	for (uint32_t i = 0; i < NR_ELEMENTS(content); i++) {
		const uint64_t word = content[i];
		const uint32_t expected = record->expected[file][i / WORDS];

		if (!(files_of(id_of(word)) & 1u << file) ||
		    (uint32_t)word != i)
			failed("file %u has bytes of another at word %#x: "
			       "%#llx",
			       file, i, (unsigned long long)word);
		if (expected != UNKNOWN && version_of(word) != expected)
			failed("file %u has another version at word %#x than "
			       "%#x, which was written last: %#llx",
			       file, i, expected, (unsigned long long)word);
	}
}

/*
 * Streams
 */

static void open_streams(void)
{
	for (unsigned i = 0; i < NR_STREAMS; i++) {
		struct stream *stream = &world.streams[i];

		memset(stream, 0, sizeof(*stream));
		require((i < 2 ? pipe2(stream->ends, O_CLOEXEC)
			       : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC,
					    0, stream->ends)) == 0,
			"a stream");
	}
	require(pipe2(world.stall, O_CLOEXEC) == 0, "a pipe");
	for (int i = 0; i < NR_PAIRS; i++)
		require(dup2(world.files[pair_files[i][0]], PAIR_FD + i) ==
				PAIR_FD + i,
			"dup2()");
	for (int i = 0; i < 2; i++)
		require(dup2(world.streams[i].ends[0], STREAM_FD + i) ==
				STREAM_FD + i,
			"dup2()");
}

/*
 * Receive what is left in the stream. Check that all bytes that were sent have been
 * received.
 */
static void check_stream(unsigned index)
{
	struct stream *stream = &world.streams[index];
	const int fd = stream->ends[0];
	uint64_t words[512];
	ssize_t bytes;

	require(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "fcntl()");
	while ((bytes = read(fd, words, sizeof(words))) > 0) {
		for (ssize_t i = 0; i < bytes / 8; i++)
			stream->sum_read += words[i];
		stream->nr_read += (uint64_t)bytes / 8;
	}
	if (stream->nr_read != stream->nr_written ||
	    stream->sum_read != stream->sum_written)
		failed("%llu words were sent to stream %u, and %llu received, "
		       "or others",
		       (unsigned long long)stream->nr_written, index,
		       (unsigned long long)stream->nr_read);
	require(close(stream->ends[0]) == 0 && close(stream->ends[1]) == 0,
		"close() of a stream");
}

static void open_listener(void)
{
	world.address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	world.address_bytes = sizeof(world.address);
	world.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* The kernel chooses an abstract address, which makes no file. */
	require(world.listener >= 0 &&
			bind(world.listener, (void *)&world.address,
			     sizeof(sa_family_t)) == 0 &&
			listen(world.listener, 128) == 0 &&
			getsockname(world.listener, (void *)&world.address,
				    &world.address_bytes) == 0,
		"a socket that listens");
}

/*
 * Scenarios
 */

/*
 * Open the shared rings. On the first ring, io_uring_enter() submits the requests. The
 * second ring has requests with drains. The third ring may have a kernel thread that
 * polls for submissions.
 */
static void open_shared(struct thread *chance)
{
	for (unsigned i = 0; i < NR_SHARED; i++) {
		static const uint32_t modes[] = {
			0,
			IORING_SETUP_COOP_TASKRUN,
			IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		};
		uint32_t flags = modes[any(chance, NR_ELEMENTS(modes))];
		const uint32_t entries = ENTRIES >> any(chance, 2);

		if (i == 2 && any(chance, 2))
			flags = IORING_SETUP_SQPOLL;
		flags |= any(chance, 2) ? IORING_SETUP_SUBMIT_ALL : 0;
		flags |= any(chance, 2) ? IORING_SETUP_NO_SQARRAY : 0;
		flags |= any(chance, 3) ? 0 : IORING_SETUP_SQE128;
		flags |= any(chance, 3) ? 0 : IORING_SETUP_CQE32;
		rings[i].has_drains = i == 1;
		open_ring(&rings[i], NULL, flags, entries,
			  entries << (any(chance, 2) ? 0 : any(chance, 4)));
	}
}

static void close_ring(struct thread *chance, struct ring *ring)
{
	const struct uring *uring = &ring->uring;

	if (*uring->sq_dropped || *uring->cq_overflow || uring_ready(uring) ||
	    *uring->sq_flags & IORING_SQ_CQ_OVERFLOW)
		failed("ring %u has %u completions after the last, %u lost, "
		       "and %u submissions lost",
		       ring->index, uring_ready(uring), *uring->cq_overflow,
		       *uring->sq_dropped);
	ring->is_open = false;
	if (any(chance, 2)) {
		require(close(uring->fd) == 0, "close() of a ring");
		uring_unmap(uring);
	} else {
		uring_unmap(uring);
		require(close(uring->fd) == 0, "close() of a ring");
	}
}

static void start(pthread_t *ret, void *(*function)(void *), void *arg)
{
	require(pthread_create(ret, NULL, function, arg) == 0,
		"pthread_create()");
}

/*
 * Choose which threads disturb this scenario, and start them.
 * Return: how many.
 */
static unsigned start_disturbers(struct thread *chance,
				 struct thread disturbers[NR_DISTURBERS])
{
	void *(*functions[NR_DISTURBERS])(void *) = { replace_descriptors };
	unsigned nr = 1;

	if (any(chance, 2) && !IS_SANITIZED)
		functions[nr++] = send_signals;
	if (any(chance, 3) == 0 && !IS_SANITIZED)
		functions[nr++] = fork_children;
	if (any(chance, 2))
		functions[nr++] = make_rings;
	if (world.may_leave) {
		functions[nr++] = jump_out;
		functions[nr++] = cancel_threads;
	}
	for (unsigned i = 0; i < nr; i++) {
		disturbers[i] = (struct thread){
			.index = NR_THREADS_MAX + i,
			.random = world.seed * 31 + i,
		};
		start(&disturbers[i].thread, functions[i], &disturbers[i]);
	}
	return nr;
}

static void run_threads(struct thread *chance)
{
	struct thread disturbers[NR_DISTURBERS];
	unsigned nr;

	require(pthread_barrier_init(&barrier, NULL, world.nr_threads + 1) == 0,
		"pthread_barrier_init()");
	for (unsigned i = 0; i < world.nr_threads; i++) {
		world.threads[i].index = i;
		world.threads[i].random = world.seed * 17 + i;
		start(&world.threads[i].thread, submit_and_finish,
		      &world.threads[i]);
	}
	pthread_barrier_wait(&barrier);
	nr = start_disturbers(chance, disturbers);
	/*
	 * From this barrier to the next one, all threads submit, and the disturbing
	 * threads run.
	 */
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	__atomic_store_n(&world.is_over, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < nr; i++)
		pthread_join(disturbers[i].thread, NULL);
	/*
	 * From this barrier to the next one, all threads wait for the completions of
	 * all requests.
	 */
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < world.nr_threads; i++)
		pthread_join(world.threads[i].thread, NULL);
	pthread_barrier_destroy(&barrier);
}

static void play(struct thread *chance)
{
	world.nr_threads = 2 + any(chance, NR_THREADS_MAX - 1);
	world.is_over = 0;
	world.nr_multi = 0;
	world.nr_closing = 0;
	memset(world.threads, 0, sizeof(world.threads));
	open_streams();
	open_listener();
	handle_signals(chance);
	open_storm_ring();
	open_shared(chance);
	run_threads(chance);
	for (unsigned i = 0; i < NR_RINGS; i++)
		if (rings[i].is_open)
			close_ring(chance, &rings[i]);
	close_storm_ring();
	while (world.nr_closing)
		require(close(world.closing[--world.nr_closing]) == 0,
			"close() of what was opened");
	(void)close_range(PAIR_FD, OWN_FD - 1, 0);
	for (unsigned i = 0; i < NR_STREAMS; i++)
		check_stream(i);
	require(close(world.stall[0]) == 0 && close(world.stall[1]) == 0 &&
			close(world.listener) == 0,
		"close() of the world's descriptors");
	for (unsigned i = 0; i < NR_FILES; i++)
		check_file(i);
}

/*
 * Run a scenario in a child process, because cancelled threads leave resources behind
 * until the process ends.
 */
static void play_in_child(struct thread *chance)
{
	pid_t pid = fork();
	int status;

	require(pid >= 0, "fork()");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(PATIENCE_S);
		play(chance);
		_exit(0);
	}
	/*
	 * If the child hangs, the child should report it. So the parent's alarm comes
	 * later.
	 */
	alarm(PATIENCE_S + 10);
	while (waitpid(pid, &status, 0) < 0)
		require(errno == EINTR, "waitpid()");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		_exit(1); /* the child has printed why */
	if (status)
		failed("a world in a child has ended with the status %#x",
		       status);
}

/*
 * The program
 */

static void init(void)
{
	const struct rlimit few = { NR_DESCRIPTORS, NR_DESCRIPTORS };

	require(setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit()");
	signal(SIGALRM, on_alarm);
	signal(SIGPIPE, SIG_IGN);
	record = mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	require(record != MAP_FAILED, "mmap()");
	pthread_mutex_init(&world.closing_lock, NULL);
	for (unsigned i = 0; i < NR_RINGS; i++) {
		struct ring *ring = &rings[i];

		ring->index = i;
		pthread_mutex_init(&ring->sq_lock, NULL);
		pthread_mutex_init(&ring->cq_lock, NULL);
		pthread_mutex_init(&ring->slots_lock, NULL);
		ring->array = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		require(ring->array != MAP_FAILED, "mmap()");
	}
	make_files();
}

/*
 * Print whether the rings are the kernel's or the library's. Fail if the library's
 * rings were requested, but the rings are the kernel's.
 */
static void check_rings(void)
{
	struct io_uring_params params = { 0 };
	long fd = uring_setup(1, &params);
	char path[64], target[64] = "";
	bool is_kernels;

	if (fd < 0) {
		fprintf(stderr, "there is no io_uring here: %s\n",
			strerror((int)-fd));
		exit(77);
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%ld", fd);
	(void)!readlink(path, target, sizeof(target) - 1);
	close((int)fd);
	is_kernels = strstr(target, "anon_inode:");
	printf("rings of %s\n", is_kernels ? "the kernel" : "the library");
	if (is_kernels && is_preloaded())
		failed("the rings are the kernel's");
}

static void tell_counts(unsigned nr_worlds)
{
	printf("%u worlds, %llu resizes, %llu children, %llu signals, %llu "
	       "jumps, %llu threads cancelled, %llu rings made\n",
	       nr_worlds, (unsigned long long)record->nr_resized,
	       (unsigned long long)record->nr_children,
	       (unsigned long long)record->nr_signals,
	       (unsigned long long)record->nr_jumps,
	       (unsigned long long)record->nr_cancelled,
	       (unsigned long long)record->nr_made);
	for (unsigned i = 0; i < NR_KINDS; i++)
		printf("%s%llu %s", i ? ", " : "",
		       (unsigned long long)record->nr_of[i], name_of(i));
	printf("\n");
}

int main(int argc, char **argv)
{
	uint64_t seed = (uint64_t)time(NULL);
	long seconds = 2;
	unsigned nr_worlds = 0;
	int64_t end;

	program = argv[0];
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && !strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 0);
		else if (i + 1 < argc && !strcmp(argv[i], "--seconds"))
			seconds = strtol(argv[i + 1], NULL, 0);
		else
			return 2;
	}
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	world.seed = seed;
	init();
	check_rings();
	end = now_ms() + seconds * 1000;
	do {
		struct thread chance;

		world.seed = seed + nr_worlds;
		world.number = (uint16_t)nr_worlds++;
		chance = (struct thread){ .random = world.seed };
		(void)any(&chance, 2);
		world.may_leave = any(&chance, 4) == 0 && !IS_SANITIZED;
		alarm(PATIENCE_S);
		if (world.may_leave)
			play_in_child(&chance);
		else
			play(&chance);
		check_usage(nr_worlds);
		sample(nr_worlds);
	} while (now_ms() < end);
	alarm(0);
	tell_counts(nr_worlds);
	check_memory();
	printf("counted %llu requests: 0 lost\n",
	       (unsigned long long)record->nr_completed);
	return record->nr_completed ? 0 : 1;
}
