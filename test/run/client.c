/* SPDX-License-Identifier: MIT */
/*
 * client ENDING: makes a known number of requests, then ends as ENDING says. The
 * library executes some requests inline, parks some (makes them wait for the file), and
 * queues others.
 *
 * By default it makes 34 requests: 20 preads and 10 pwrites of a file in memory, one
 * fdsync of that file, and 3 reads of a pipe, which wait until the program writes to
 * the pipe. With ENDING `posix` it makes only ten writes by POSIX AIO; with `one`, only
 * one write; with `notified`, only a read and a sync by POSIX AIO.
 */
#undef NDEBUG
#include <aio.h>
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 512 };

static void make(io_context_t ctx, struct iocb *iocb)
{
	struct io_event event;

	assert(io_submit(ctx, 1, &iocb) == 1);
	assert(io_getevents(ctx, 1, 1, &event, NULL) == 1);
	assert((long)event.res >= 0);
}

static void read_pipe(io_context_t ctx)
{
	struct iocb iocb, *list[] = { &iocb };
	struct io_event event;
	char byte;
	int ends[2];

	assert(pipe(ends) == 0);
	for (int i = 0; i < 3; i++) {
		io_prep_pread(&iocb, ends[0], &byte, 1, 0);
		assert(io_submit(ctx, 1, list) == 1);
		assert(write(ends[1], "x", 1) == 1);
		assert(io_getevents(ctx, 1, 1, &event, NULL) == 1);
		assert(event.res == 1);
	}
	close(ends[0]);
	close(ends[1]);
}

static void make_requests(void)
{
	static char buffer[BYTES];
	io_context_t ctx = NULL;
	struct iocb iocb;
	int fd = memfd_create("client", MFD_CLOEXEC);

	assert(fd >= 0 && ftruncate(fd, BYTES) == 0);
	assert(io_setup(8, &ctx) == 0);
	for (int i = 0; i < 30; i++) {
		if (i % 3)
			io_prep_pread(&iocb, fd, buffer, BYTES, 0);
		else
			io_prep_pwrite(&iocb, fd, buffer, BYTES, 0);
		make(ctx, &iocb);
	}
	io_prep_fdsync(&iocb, fd);
	make(ctx, &iocb);
	read_pipe(ctx);
	close(fd);
	assert(io_destroy(ctx) == 0);
}

/* Make ten writes by POSIX AIO, one after another. */
static void make_posix_requests(void)
{
	static char buffer[BYTES];
	int fd = memfd_create("client", MFD_CLOEXEC);
	struct aiocb aiocb = { .aio_fildes = fd,
			       .aio_buf = buffer,
			       .aio_nbytes = BYTES,
			       .aio_sigevent.sigev_notify = SIGEV_NONE };
	const struct aiocb *const list[] = { &aiocb };

	assert(fd >= 0);
	for (int i = 0; i < 10; i++) {
		assert(aio_write(&aiocb) == 0);
		while (aio_error(&aiocb) == EINPROGRESS)
			assert(aio_suspend(list, 1, NULL) == 0);
		assert(aio_return(&aiocb) == BYTES);
	}
	close(fd);
}

static void *make_requests_in_thread(void *arg)
{
	(void)arg;
	make_requests();
	return NULL;
}

static void in_handler(int signal)
{
	(void)signal;
	_exit(0);
}

/* Fork a child that makes requests, then a child that makes none. */
static void have_children(void)
{
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();
		int status;

		assert(pid >= 0);
		if (pid == 0) {
			if (i == 0)
				make_requests();
			exit(0);
		}
		assert(waitpid(pid, &status, 0) == pid && status == 0);
	}
}

/*
 * Close the descriptors 0 to 2, and open other files, which get these descriptors.
 */
static void reuse_descriptors(const char *path)
{
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	for (int fd = 0; fd < 3; fd++)
		assert(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) == fd);
}

/*
 * Print a line for each thread: its name, nice value and allowed processors.
 * Return: the number of threads; -1 if a thread of the library does not sleep yet. Such
 * a thread may not have set its allowed processors yet.
 */
static int tell_places(FILE *to)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	int nr = 0;

	assert(dir);
	while (nr >= 0 && (entry = readdir(dir))) {
		char path[300], line[256], name[64], state = 0, cpus[256];
		int tid = atoi(entry->d_name);
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status",
			 entry->d_name);
		if (!tid || !(file = fopen(path, "r")))
			continue;
		while (fgets(line, sizeof(line), file)) {
			(void)sscanf(line, "Name: %63s", name);
			(void)sscanf(line, "State: %c", &state);
			(void)sscanf(line, "Cpus_allowed_list: %255s", cpus);
		}
		fclose(file);
		fprintf(to, "%s %d %s\n", name, getpriority(PRIO_PROCESS, tid),
			cpus);
		nr = tid != getpid() && state != 'S' ? -1 : nr + 1;
	}
	closedir(dir);
	return nr;
}

/*
 * Wait until a worker and the fallback thread exist, then print all threads. If they do
 * not appear, the alarm ends the process.
 */
static void await_places(void)
{
	char *text;
	size_t len;
	int nr;

	alarm(50);
	do {
		FILE *to = open_memstream(&text, &len);

		assert(to);
		nr = tell_places(to);
		fclose(to);
		if (nr >= 3)
			fputs(text, stdout);
		free(text);
	} while (nr < 3);
}

static sem_t was_notified;

static void tell_own_cpus(union sigval unused)
{
	FILE *file = fopen("/proc/thread-self/status", "r");
	char line[256], cpus[256];

	(void)unused;
	assert(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Cpus_allowed_list: %255s", cpus) == 1)
			puts(cpus);
	fclose(file);
	sem_post(&was_notified);
}

/*
 * Make a read, which the submitting thread executes, and a sync, which a worker executes.
 * Each has a notification function, with thread attributes that set only a stack size.
 * The function prints the allowed processors of its thread.
 */
static void tell_cpus_of_notifications(void)
{
	char byte;
	pthread_attr_t attr;
	struct aiocb aiocb = {
		.aio_fildes = memfd_create("client", MFD_CLOEXEC),
		.aio_buf = &byte,
		.aio_nbytes = 1,
		.aio_sigevent = { .sigev_notify = SIGEV_THREAD,
				  .sigev_notify_function = tell_own_cpus,
				  .sigev_notify_attributes = &attr },
	};

	assert(sem_init(&was_notified, 0, 0) == 0);
	assert(pthread_attr_init(&attr) == 0);
	assert(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) ==
	       0);
	assert(pthread_attr_setstacksize(&attr, 1 << 20) == 0);
	assert(aio_read(&aiocb) == 0);
	assert(sem_wait(&was_notified) == 0);
	assert(aio_fsync(O_SYNC, &aiocb) == 0);
	assert(sem_wait(&was_notified) == 0);
}

static void make_one_request(void)
{
	int fd = memfd_create("client", MFD_CLOEXEC);
	io_context_t ctx = NULL;
	struct iocb iocb;
	char byte = 0;

	assert(fd >= 0 && io_setup(1, &ctx) == 0);
	io_prep_pwrite(&iocb, fd, &byte, 1, 0);
	make(ctx, &iocb);
	close(fd);
}

/* Write to each of two files, and keep them open until the standard input ends. */
static void keep_files_open(char **paths)
{
	io_context_t ctx = NULL;
	struct iocb iocb;
	char byte = 0;

	assert(io_setup(1, &ctx) == 0);
	for (int i = 0; i < 2; i++) {
		int fd = open(paths[i], O_RDWR | O_CREAT, 0644);

		assert(fd >= 0);
		io_prep_pwrite(&iocb, fd, &byte, 1, 0);
		make(ctx, &iocb);
	}
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	const char *ending = argc > 1 ? argv[1] : "return";

	if (!strcmp(ending, "nothing"))
		return 0;
	if (!strcmp(ending, "posix")) {
		make_posix_requests();
		return 0;
	}
	if (!strcmp(ending, "notified")) {
		tell_cpus_of_notifications();
		return 0;
	}
	if (!strcmp(ending, "one")) {
		make_one_request();
		return 0;
	}
	if (!strcmp(ending, "keep")) {
		keep_files_open(argv + 2);
		return 0;
	}
	make_requests();
	if (!strcmp(ending, "exit"))
		exit(0);
	if (!strcmp(ending, "_exit"))
		_exit(0);
	if (!strcmp(ending, "_Exit"))
		_Exit(0);
	if (!strcmp(ending, "quick_exit"))
		quick_exit(0);
	if (!strcmp(ending, "exit_group"))
		syscall(SYS_exit_group, 0);
	if (!strcmp(ending, "execv"))
		execv("/bin/true", (char *[]){ "true", NULL });
	if (!strcmp(ending, "failing-exec"))
		execv("/nonexistent", argv);
	if (!strcmp(ending, "daemon"))
		return daemon(0, 0);
	if (!strcmp(ending, "handler")) {
		signal(SIGUSR1, in_handler);
		raise(SIGUSR1);
	}
	if (!strcmp(ending, "elsewhere"))
		assert(chdir("/") == 0);
	if (!strcmp(ending, "reuse"))
		reuse_descriptors(argv[2]);
	if (!strcmp(ending, "places"))
		await_places();
	if (!strcmp(ending, "fork"))
		have_children();
	if (!strcmp(ending, "threads")) {
		/*
		 * One thread after another: when a thread starts, the one before it has
		 * ended.
		 */
		for (int i = 0; i < 20; i++) {
			pthread_t thread;

			assert(pthread_create(&thread, NULL,
					      make_requests_in_thread,
					      NULL) == 0);
			assert(pthread_join(thread, NULL) == 0);
		}
	}
	return 0;
}
