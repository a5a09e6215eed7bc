/* SPDX-License-Identifier: MIT */
/*
 * Unusual kinds of files, on which few programs make requests. On some of them a read or
 * write may return EAGAIN although poll(2) reports that the file is ready.
 */
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/userfaultfd.h>
#include <mqueue.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include "conform.h"
#include "stream-kinds.h"

static char bytes[4096];

static int netlink_socket(struct sockaddr_nl *ret_address)
{
	socklen_t size = sizeof(*ret_address);
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);

	*ret_address = (struct sockaddr_nl){ .nl_family = AF_NETLINK };
	REQUIRE(fd >= 0);
	limit_buffers(fd);
	REQUIRE(!bind(fd, (struct sockaddr *)ret_address, size));
	REQUIRE(!getsockname(fd, (struct sockaddr *)ret_address, &size));
	return fd;
}

static void open_netlink(bool is_writer, struct ends *ret_ends)
{
	struct sockaddr_nl own, peer;

	(void)is_writer;
	ret_ends->own = netlink_socket(&own);
	ret_ends->peer = netlink_socket(&peer);
	REQUIRE(!connect(ret_ends->own, (struct sockaddr *)&peer,
			 sizeof(peer)));
	REQUIRE(!connect(ret_ends->peer, (struct sockaddr *)&own, sizeof(own)));
}

static void open_unix_shared(bool is_writer, struct ends *ret_ends)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t size = sizeof(address);

	(void)is_writer;
	ret_ends->peer = socket(AF_UNIX, SOCK_DGRAM, 0);
	/* Bind without a name: the kernel chooses one. */
	REQUIRE(!bind(ret_ends->peer, (struct sockaddr *)&address,
		      sizeof(sa_family_t)));
	REQUIRE(!getsockname(ret_ends->peer, (struct sockaddr *)&address,
			     &size));
	ret_ends->own = socket(AF_UNIX, SOCK_DGRAM, 0);
	REQUIRE(!connect(ret_ends->own, (struct sockaddr *)&address, size));
}

static void open_packets(bool is_writer, struct ends *ret_ends)
{
	int fds[2];

	REQUIRE(pipe2(fds, O_DIRECT) == 0);
	take_ends(fds[0], fds[1], is_writer, ret_ends);
}

static void open_canonical(bool is_writer, struct ends *ret_ends)
{
	struct termios mode;

	(void)is_writer;
	open_pty(false, ret_ends);
	REQUIRE(tcgetattr(ret_ends->own, &mode) == 0);
	mode.c_lflag |= ICANON;
	REQUIRE(tcsetattr(ret_ends->own, TCSANOW, &mode) == 0);
}

/* Types into the terminal: the end of a line if nr is 1, otherwise nr letters. */
static void type(const struct ends *ends, size_t nr)
{
	memset(bytes, 'a', nr);
	REQUIRE(write(ends->peer, nr == 1 ? "\n" : bytes, nr) == (ssize_t)nr);
}

static void open_packet_master(bool is_writer, struct ends *ret_ends)
{
	const int is_on = 1;

	(void)is_writer;
	open_pty(true, ret_ends);
	REQUIRE(ioctl(ret_ends->own, TIOCPKT, &is_on) == 0);
}

/*
 * Brings up the network device in the test case's own network namespace, which has no
 * other device.
 */
static void bring_up(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	strcpy(request.ifr_name, name);
	REQUIRE(ioctl(fd, SIOCSIFFLAGS, &request) == 0);
	close(fd);
}

static void need_private_network(void)
{
	int fd;

	need_root();
	if (unshare(CLONE_NEWNET) < 0)
		skip("no-network-namespace");
	/* Disable IPv6, which would send packets of its own on each device that is up. */
	fd = open("/proc/sys/net/ipv6/conf/default/disable_ipv6", O_WRONLY);
	REQUIRE(fd < 0 || write(fd, "1", 1) == 1);
	close(fd);
	bring_up("lo");
}

static int raw_socket(void)
{
	enum { FOR_EXPERIMENTS = 253 };
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_RAW, FOR_EXPERIMENTS);

	REQUIRE(fd >= 0);
	REQUIRE(!connect(fd, (const struct sockaddr *)&address,
			 sizeof(address)));
	return fd;
}

static void open_raw_ip(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	need_private_network();
	ret_ends->own = raw_socket();
	ret_ends->peer = raw_socket();
}

static struct sockaddr_ll link_address(const char *name, int protocol)
{
	return (struct sockaddr_ll){
		.sll_family = AF_PACKET,
		.sll_protocol = htons((uint16_t)protocol),
		.sll_ifindex = (int)if_nametoindex(name),
		.sll_halen = 6,
	};
}

enum { FOR_EXPERIMENTS = 0x88b5 };

static void open_link(bool is_writer, struct ends *ret_ends)
{
	struct sockaddr_ll address;

	(void)is_writer;
	need_private_network();
	address = link_address("lo", FOR_EXPERIMENTS);
	ret_ends->own = socket(AF_PACKET, SOCK_DGRAM, 0);
	ret_ends->peer = socket(AF_PACKET, SOCK_DGRAM, 0);
	REQUIRE(!bind(ret_ends->own, (struct sockaddr *)&address,
		      sizeof(address)));
}

static void send_on(const char *name, int protocol, const struct ends *ends,
		    size_t nr)
{
	struct sockaddr_ll address = link_address(name, protocol);

	REQUIRE(sendto(ends->peer, bytes, nr, 0, (struct sockaddr *)&address,
		       sizeof(address)) == (ssize_t)nr);
}

static void send_on_lo(const struct ends *ends, size_t nr)
{
	send_on("lo", FOR_EXPERIMENTS, ends, nr);
}

static void open_tun(bool is_writer, struct ends *ret_ends)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };

	(void)is_writer;
	need_private_network();
	ret_ends->own = open("/dev/net/tun", O_RDWR);
	if (ret_ends->own < 0)
		skip("no-tun");
	strcpy(request.ifr_name, "tun0");
	if (ioctl(ret_ends->own, TUNSETIFF, &request) < 0)
		skip("no-tun");
	bring_up("tun0");
	ret_ends->peer = socket(AF_PACKET, SOCK_DGRAM, 0);
	REQUIRE(ret_ends->peer >= 0);
}

static void send_on_tun(const struct ends *ends, size_t nr)
{
	send_on("tun0", ETH_P_IP, ends, nr);
}

static void open_fuse_server(bool is_writer, struct ends *ret_ends)
{
	char options[64];

	(void)is_writer;
	need_private_mounts();
	ret_ends->own = open("/dev/fuse", O_RDWR);
	if (ret_ends->own < 0 || mkdir("mount", 0700) < 0)
		skip("no-fuse");
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0", ret_ends->own);
	if (mount("conform", "mount", "fuse", 0, options) < 0)
		skip("no-fuse");
	ret_ends->peer = dup(ret_ends->own);
}

static void unmount(const struct ends *ends, size_t nr)
{
	(void)ends;
	(void)nr;
	REQUIRE(umount2("mount", MNT_FORCE) == 0);
}

enum { PAGE = 4096, NR_PAGES = 4 };
static char *faulting;

static void open_userfault(bool is_writer, struct ends *ret_ends)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd;

	(void)is_writer;
	need_root();
	fd = (int)syscall(SYS_userfaultfd, 0);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
		skip("no-userfaultfd");
	faulting = mmap(NULL, NR_PAGES * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(faulting != MAP_FAILED);
	range.range.start = (uintptr_t)faulting;
	range.range.len = NR_PAGES * PAGE;
	REQUIRE(ioctl(fd, UFFDIO_REGISTER, &range) == 0);
	open_alone(fd, ret_ends);
}

static void *touch(void *page)
{
	*(char *)page = 1;
	return NULL;
}

/*
 * Touches a page in a new thread. That thread blocks for ever, as no one provides the
 * page by the userfaultfd.
 */
static void touch_page(const struct ends *ends, size_t nr)
{
	pthread_t thread;

	(void)ends;
	(void)nr;
	REQUIRE(!pthread_create(&thread, NULL, touch, faulting));
	faulting += PAGE;
}

static int pipe_in_epoll;

static void open_epoll(bool is_writer, struct ends *ret_ends)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fds[2];

	(void)is_writer;
	open_alone(epoll_create1(0), ret_ends);
	REQUIRE(pipe(fds) == 0);
	REQUIRE(!epoll_ctl(ret_ends->own, EPOLL_CTL_ADD, fds[0], &event));
	pipe_in_epoll = fds[1];
}

static void feed_epoll(const struct ends *ends, size_t nr)
{
	(void)ends;
	REQUIRE(write(pipe_in_epoll, bytes, nr) == (ssize_t)nr);
}

static void open_mqueue(bool is_writer, struct ends *ret_ends)
{
	struct mq_attr attr = { .mq_maxmsg = 2, .mq_msgsize = 16 };
	char name[32];
	mqd_t queue;

	(void)is_writer;
	snprintf(name, sizeof(name), "/conform-%d", getpid());
	queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
	if (queue < 0)
		skip("no-message-queues");
	REQUIRE(mq_unlink(name) == 0);
	open_alone(queue, ret_ends);
}

static void send_message(const struct ends *ends, size_t nr)
{
	REQUIRE(mq_send(ends->peer, bytes, nr, 0) == 0);
}

static pid_t child;

static void open_pidfd(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	child = fork_helper();
	if (child == 0)
		for (;;)
			pause();
	open_alone((int)syscall(SYS_pidfd_open, child, 0), ret_ends);
}

static void end_child(const struct ends *ends, size_t nr)
{
	(void)ends;
	(void)nr;
	REQUIRE(kill(child, SIGKILL) == 0);
}

static void open_wall_timerfd(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	open_alone(timerfd_create(CLOCK_REALTIME, 0), ret_ends);
}

static void set_wall_timer(const struct ends *ends, size_t s)
{
	struct itimerspec once = { .it_value.tv_nsec = 0 };

	REQUIRE(clock_gettime(CLOCK_REALTIME, &once.it_value) == 0);
	once.it_value.tv_sec += (time_t)s;
	REQUIRE(!timerfd_settime(ends->peer,
				 TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET,
				 &once, NULL));
}

const struct stream_kind rare_kinds[] = {
	{ NETLINK, "a netlink socket", open_netlink, NULL },
	{ UNIX_SHARED, "a datagram socket whose receiver is shared",
	  open_unix_shared, NULL },
	{ PACKETS, "a pipe of packets", open_packets, NULL },
	{ CANONICAL, "a terminal of lines", open_canonical, type },
	{ PACKET_MASTER, "a terminal's master of packets", open_packet_master,
	  NULL },
	{ RAW_IP, "a raw socket", open_raw_ip, NULL },
	{ LINK, "a packet socket", open_link, send_on_lo },
	{ TUN, "a tunnel", open_tun, send_on_tun },
	{ FUSE_SERVER, "a FUSE server's device", open_fuse_server, unmount },
	{ USERFAULT, "a userfaultfd", open_userfault, touch_page },
	{ EPOLL, "an epoll", open_epoll, feed_epoll },
	{ MQUEUE, "a message queue", open_mqueue, send_message },
	{ PIDFD, "a pidfd", open_pidfd, end_child },
	{ WALL_TIMERFD, "a timerfd of the wall clock", open_wall_timerfd,
	  set_wall_timer },
	{ 0, NULL, NULL, NULL },
};

void put_spoilt(const struct ends *ends, size_t nr)
{
	struct sockaddr_in from, to;
	socklen_t size = sizeof(from);
	struct udphdr *header = (struct udphdr *)bytes;
	size_t len = sizeof(*header) + nr;
	int fd;

	need_root();
	fd = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
	REQUIRE(fd >= 0);
	REQUIRE(!getsockname(ends->peer, (struct sockaddr *)&from, &size));
	REQUIRE(!getsockname(ends->own, (struct sockaddr *)&to, &size));
	/*
	 * A UDP datagram of zeroes does not have the checksum 0x1234, so this checksum
	 * is wrong.
	 */
	*header = (struct udphdr){
		.source = from.sin_port,
		.dest = to.sin_port,
		.len = htons((uint16_t)len),
		.check = 0x1234,
	};
	to.sin_port = 0;
	REQUIRE(sendto(fd, bytes, len, 0, (struct sockaddr *)&to, sizeof(to)) ==
		(ssize_t)len);
	close(fd);
}
