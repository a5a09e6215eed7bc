/* SPDX-License-Identifier: MIT */
/*
 * crowd - runs thousands of clients of a server that is another process
 *
 *	crowd KIND PORT PID [-m MS] [-w MS] [-c MS] CONNECTIONS...
 *
 * KIND names the protocol. With "echo", the server sends each message back. With
 * "http", the server answers `GET /N` with N bytes that depend on N. Each client sends
 * its next request as soon as it has the answer to the previous one, and checks every
 * byte of the answer. One thread runs all clients, by epoll.
 *
 * CONNECTIONS are numbers of clients. The program measures each number in three phases.
 * The first is a warm-up (-w), which is not measured. The second is the measured phase
 * (-m). In the third (-c) the program counts the server's system calls, which slows the
 * server down. MS is the least duration of a phase. The phase goes on until the clients
 * have received as many answers as there are clients. At the end the clients send no
 * more requests, and the program checks that each client has received all its answers.
 *
 * For each number of CONNECTIONS the program prints a JSON object about the measured
 * phase, on one line:
 *
 *   connections, usecs	number of connections, and duration of the phase
 *   requests		answered requests
 *   p50_us, p99_us	median and 99th percentile of the answer time
 *   cpu_us, switches	processor time and context switches of all threads of the
 *			server, the process PID
 *   own_cpu_us		processor time of this process
 *   calls		the server's system calls per request; -1: this machine
 *			does not let the program count them
 *   memory_kib		the server's resident memory, without file-backed pages
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "handles.h"

enum {
	MESSAGE = 64,
	NOISE = 1 << 16,
	BODY_MIN = 100,
	BODIES = 64,
	ANSWER_MAX = 512,
	/* the body of an HTTP answer repeats after this many bytes */
	PERIOD = 251,
	/* connections opened at a time; fewer than the server's listen backlog */
	AT_ONCE = 500,
	/* client addresses; each has about 28 000 ports to connect from */
	ADDRESSES = 50,
	EVENTS = 512,
	MAX_TIMES = 1 << 23,
	MAX_THREADS = 512,
	HANGS_MS = 60000,
};

struct text {
	char bytes[ANSWER_MAX];
	size_t len;
};

struct client {
	int fd;
	bool waits; /* for an answer */
	uint32_t nr_asked;
	const char *due;
	size_t due_len, got;
	uint64_t asked_at;
};

static struct job {
	bool is_http;
	in_port_t port;
	pid_t pid;
	int ms, warm_ms, count_ms;
} job = { .ms = 500, .warm_ms = 100, .count_ms = 100 };

static char noise[NOISE];
static struct text questions[BODIES], answers[BODIES];
static struct client *clients;
static size_t nr_clients, nr_waiting;
static bool asks_on;
static uint64_t nr_answers;
static uint32_t *times; /* time from request to answer, in microseconds */
static size_t nr_times;
static bool takes_times;
static int epoll_fd;

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "crowd: %s: %s\n", what, why);
	exit(1);
}

static _Noreturn void fail_errno(const char *what)
{
	fail(what, strerror(errno));
}

/* The clients' requests and the answers that they expect */

static void make_noise(void)
{
	uint64_t state = 88172645463325252u;

	for (size_t i = 0; i < NOISE; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		noise[i] = (char)state;
	}
}

static void make_texts(void)
{
	for (size_t i = 0; i < BODIES; i++) {
		size_t size = BODY_MIN + i;
		struct text *question = &questions[i], *answer = &answers[i];

		question->len = (size_t)snprintf(
			question->bytes, ANSWER_MAX,
			"GET /%zu HTTP/1.1\r\nHost: here\r\n\r\n", size);
		answer->len = (size_t)snprintf(
			answer->bytes, ANSWER_MAX,
			"HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", size);
		for (size_t k = 0; k < size; k++)
			answer->bytes[answer->len++] =
				(char)((size * 7 + k) % PERIOD);
	}
}

static void ask(struct client *client)
{
	size_t which = (size_t)(client - clients) * 7919 + client->nr_asked;
	const char *question;
	size_t len;

	if (job.is_http) {
		question = questions[which % BODIES].bytes;
		len = questions[which % BODIES].len;
		client->due = answers[which % BODIES].bytes;
		client->due_len = answers[which % BODIES].len;
	} else {
		question = noise + which * 61 % (NOISE - MESSAGE);
		len = MESSAGE;
		client->due = question;
		client->due_len = len;
	}
	client->got = 0;
	client->nr_asked++;
	client->waits = true;
	nr_waiting++;
	client->asked_at = now_ns();
	if (send(client->fd, question, len, MSG_NOSIGNAL) != (ssize_t)len)
		fail_errno("send");
}

static void answered(struct client *client)
{
	client->waits = false;
	nr_waiting--;
	nr_answers++;
	if (takes_times && nr_times < MAX_TIMES)
		times[nr_times++] =
			(uint32_t)((now_ns() - client->asked_at) / 1000);
	if (asks_on)
		ask(client);
}

static void hear(struct client *client)
{
	char heard[2 * ANSWER_MAX];
	ssize_t len = recv(client->fd, heard, sizeof(heard), MSG_DONTWAIT);

	if (len < 0 && errno == EAGAIN)
		return;
	if (len < 0)
		fail_errno("recv");
	if (len == 0)
		fail("recv", "the server ends a connection");
	if (!client->waits || (size_t)len > client->due_len - client->got ||
	    memcmp(heard, client->due + client->got, (size_t)len))
		fail("recv", "what is heard is not due");
	client->got += (size_t)len;
	if (client->got == client->due_len)
		answered(client);
}

/*
 * Read the answers that have arrived. If none has, wait up to `timeout` milliseconds.
 */
static void hear_some(int timeout)
{
	struct epoll_event events[EVENTS];
	int nr = epoll_wait(epoll_fd, events, EVENTS, timeout);

	if (nr < 0 && errno != EINTR)
		fail_errno("epoll_wait");
	if (nr == 0 && timeout == HANGS_MS)
		fail("epoll_wait", "the server does not answer");
	for (int i = 0; i < nr; i++)
		hear(&clients[events[i].data.u32]);
}

/*
 * Exchange messages for at least ms milliseconds, and until the number of new answers
 * is at least the number of clients.
 */
static void talk(int ms)
{
	uint64_t end = now_ns() + (uint64_t)ms * 1000000;
	uint64_t enough = nr_answers + nr_clients;

	while (now_ns() < end || nr_answers < enough)
		hear_some(HANGS_MS);
}

static void hear_all(void)
{
	while (nr_waiting)
		hear_some(HANGS_MS);
}

/* Opening and closing the clients' connections */

static void come(size_t i)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(job.port) };
	struct epoll_event event = { .events = EPOLLIN };
	struct linger reset = { 1, 0 };
	int one = 1;

	address.sin_addr.s_addr =
		htonl(INADDR_LOOPBACK + (uint32_t)(i % ADDRESSES));
	clients[i] =
		(struct client){ .fd = socket(AF_INET,
					      SOCK_STREAM | SOCK_CLOEXEC, 0) };
	if (clients[i].fd < 0)
		fail_errno("socket");
	if (connect(clients[i].fd, (void *)&address, sizeof(address)))
		fail_errno("connect");
	setsockopt(clients[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/*
	 * SO_LINGER with a time of 0 makes close() reset the connection, so that its
	 * port does not stay in TIME_WAIT.
	 */
	setsockopt(clients[i].fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	event.data.u32 = (uint32_t)i;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, clients[i].fd, &event))
		fail_errno("epoll_ctl");
}

/*
 * Connect AT_ONCE clients at a time, and wait until each of them has received an answer
 * before the next ones connect.
 */
static void come_all(size_t nr)
{
	clients = realloc(clients, nr * sizeof(*clients));
	if (!clients)
		fail_errno("memory");
	asks_on = false;
	while (nr_clients < nr) {
		size_t first = nr_clients;

		while (nr_clients < nr && nr_clients - first < AT_ONCE)
			come(nr_clients++);
		for (size_t i = first; i < nr_clients; i++)
			ask(&clients[i]);
		hear_all();
	}
}

/* Processor time and memory that the server uses */

static long status_of(const char *path, const char *name)
{
	char line[256];
	FILE *file = fopen(path, "re");
	long value = -1;

	while (file && value < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			value = strtol(line + strlen(name), NULL, 10);
	if (file)
		fclose(file);
	return value;
}

/* Call call() for each thread of the server. */
static void for_each_thread(void (*call)(pid_t tid, void *arg), void *arg)
{
	char path[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)job.pid);
	dir = opendir(path);
	if (!dir)
		fail_errno(path);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			call((pid_t)atoi(entry->d_name), arg);
	closedir(dir);
}

static void add_switches(pid_t tid, void *arg)
{
	static const char *const names[] = { "voluntary_ctxt_switches:",
					     "nonvoluntary_ctxt_switches:" };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)job.pid,
		 (int)tid);
	for (size_t i = 0; i < 2; i++) {
		long nr = status_of(path, names[i]);

		*(long *)arg += nr < 0 ? 0 : nr;
	}
}

static long nr_switches(void)
{
	long nr = 0;

	for_each_thread(add_switches, &nr);
	return nr;
}

static long memory_kib(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)job.pid);
	return status_of(path, "RssAnon:") + status_of(path, "RssShmem:");
}

static double cpu_us(pid_t pid)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		fail("the server", "it is gone");
	return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

/*
 * Count the server's system calls, by a tracepoint (perf_event_open) for each of its
 * threads.
 */

struct counters {
	long id;
	int fds[MAX_THREADS];
	size_t nr;
};

static void count_calls_of(pid_t tid, void *arg)
{
	struct counters *counters = arg;
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT,
					.size = sizeof(attr),
					.config = (uint64_t)counters->id,
					.inherit = 1 };
	int fd;

	if (counters->nr == MAX_THREADS)
		fail("the server", "it has too many threads");
	fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1,
			  PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		counters->fds[counters->nr++] = fd;
}

static bool begin_to_count(struct counters *counters)
{
	FILE *file = fopen(
		"/sys/kernel/tracing/events/raw_syscalls/sys_enter/id", "re");
	char line[32];

	counters->nr = 0;
	if (!file)
		return false;
	counters->id = fgets(line, sizeof(line), file) ? atol(line) : -1;
	fclose(file);
	for_each_thread(count_calls_of, counters);
	return counters->nr > 0;
}

static uint64_t end_count(struct counters *counters)
{
	uint64_t sum = 0, value;

	for (size_t i = 0; i < counters->nr; i++) {
		if (read(counters->fds[i], &value, 8) == 8)
			sum += value;
		close(counters->fds[i]);
	}
	return sum;
}

static double calls_for_each(void)
{
	static struct counters counters;
	uint64_t before = nr_answers, nr;

	if (!begin_to_count(&counters))
		return -1;
	talk(job.count_ms);
	nr = end_count(&counters);
	return nr_answers == before
		       ? -1
		       : (double)nr / (double)(nr_answers - before);
}

/*
 * The measurement
 */

static int compare_times(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void measure(size_t nr)
{
	uint64_t answers_before, start;
	double cpu, own_cpu, us, calls;
	long switches;

	come_all(nr);
	asks_on = true;
	for (size_t i = 0; i < nr; i++)
		ask(&clients[i]);
	talk(job.warm_ms);

	switches = nr_switches();
	cpu = cpu_us(job.pid);
	own_cpu = cpu_us(getpid());
	answers_before = nr_answers;
	nr_times = 0;
	takes_times = true;
	start = now_ns();
	talk(job.ms);
	us = (double)(now_ns() - start) / 1000;
	takes_times = false;
	answers_before = nr_answers - answers_before;
	cpu = cpu_us(job.pid) - cpu;
	own_cpu = cpu_us(getpid()) - own_cpu;
	switches = nr_switches() - switches;

	calls = calls_for_each();
	asks_on = false;
	hear_all();
	if (!nr_times)
		fail("the server", "it has answered nothing");
	qsort(times, nr_times, sizeof(*times), compare_times);
	printf("{\"connections\": %zu, \"usecs\": %.0f, \"requests\": %llu, "
	       "\"p50_us\": %u, \"p99_us\": %u, \"cpu_us\": %.0f, "
	       "\"switches\": %ld, \"own_cpu_us\": %.0f, \"calls\": %.3f, "
	       "\"memory_kib\": %ld}\n",
	       nr, us, (unsigned long long)answers_before, times[nr_times / 2],
	       times[nr_times * 99 / 100], cpu, switches, own_cpu, calls,
	       memory_kib());
	fflush(stdout);
}

static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		fail_errno("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "m:w:c:")) != -1) {
		switch (option) {
		case 'm': job.ms = atoi(optarg); break;
		case 'w': job.warm_ms = atoi(optarg); break;
		case 'c': job.count_ms = atoi(optarg); break;
		default: return 2;
		}
	}
	if (argc - optind < 4)
		fail("usage", "crowd KIND PORT PID CONNECTIONS...");
	job.is_http = !strcmp(argv[optind], "http");
	if (!job.is_http && strcmp(argv[optind], "echo"))
		fail(argv[optind], "neither echo nor http");
	job.port = (in_port_t)count_argument(argv[optind + 1]);
	job.pid = (pid_t)count_argument(argv[optind + 2]);
	raise_limit();
	make_noise();
	make_texts();
	times = malloc(MAX_TIMES * sizeof(*times));
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!times || epoll_fd < 0)
		fail_errno("memory");
	for (int i = optind + 3; i < argc; i++)
		measure(count_argument(argv[i]));
	return 0;
}
