/* SPDX-License-Identifier: MIT */
/*
 * copy SOURCE TARGET: copy a file with many requests in flight
 *
 * An example of libaio in C++. It contains nothing special for uaio: build it once, and run
 * it with or without uaio.
 *
 *     c++ -std=c++17 -O2 -o copy copy.cc -laio
 *     ./copy a b                  # on the kernel
 *     uaio run -- ./copy a b      # on uaio
 *
 * Each of several slots reads a block and then writes what it read to the same place of the
 * target. All slots work at the same time. The last request is an fsync: when it has
 * completed, the copy is on the disk.
 */
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <libaio.h>
#include <sys/stat.h>
#include <unistd.h>

namespace
{

constexpr std::size_t nr_slots = 16;
constexpr std::size_t block_bytes = 256 * 1024;
constexpr std::size_t alignment = 4096;

/* libaio's functions return a negative errno and leave errno alone. */
[[noreturn]] void fail(int error, const std::string &what)
{
	throw std::system_error(error, std::generic_category(), what);
}

/* A descriptor, which the destructor closes. */
class File
{
public:
	File(const std::string &path, int flags)
		: path(path), fd(open(path.c_str(), flags | O_CLOEXEC, 0666))
	{
		if (fd < 0)
			fail(errno, path);
	}
	~File()
	{
		close(fd);
	}
	File(const File &) = delete;
	File &operator=(const File &) = delete;

	long long size() const
	{
		struct stat st;

		if (fstat(fd, &st))
			fail(errno, path);
		return st.st_size;
	}

	const std::string path;
	const int fd;
};

/*
 * A context. io_destroy() waits for requests in flight. So a context must be destroyed
 * before the buffers and iocbs of its requests: declare it after them.
 */
class Context
{
public:
	explicit Context(std::size_t nr_events)
	{
		int ret = io_setup(static_cast<int>(nr_events), &context);

		if (ret < 0)
			fail(-ret, "io_setup");
	}
	~Context()
	{
		io_destroy(context);
	}
	Context(const Context &) = delete;
	Context &operator=(const Context &) = delete;

	/*
	 * io_submit() may accept fewer iocbs than the array has, but at least one, or
	 * it fails. So it accepts a single iocb or fails.
	 */
	void submit(iocb *request)
	{
		int ret = io_submit(context, 1, &request);

		if (ret < 0)
			fail(-ret, "io_submit");
	}

	/* Wait for at least one event. Return as many events as fit into `events`. */
	std::size_t wait(std::vector<io_event> &events)
	{
		int ret;

		do { /* EINTR: a signal handler has run meanwhile, so try again */
			ret = io_getevents(context, 1,
					   static_cast<long>(events.size()),
					   events.data(), nullptr);
		} while (ret == -EINTR);
		if (ret < 0)
			fail(-ret, "io_getevents");
		return static_cast<std::size_t>(ret);
	}

private:
	io_context_t context = nullptr;
};

/* A block that is being copied: it is read, in one or several pieces, then written. */
struct Slot {
	iocb request;
	std::unique_ptr<char, decltype(&std::free)> buffer{
		static_cast<char *>(std::aligned_alloc(alignment, block_bytes)),
		&std::free
	};
	long long start = 0;  /* offset of the block in both files */
	std::size_t size = 0; /* of the block */
	/* bytes of the block that are read (or written) already */
	std::size_t done = 0;
	bool is_writing = false;
};

class Copy
{
public:
	Copy(const File &source, const File &target)
		: source(source), target(target), end(source.size()),
		  slots(nr_slots), events(nr_slots), context(nr_slots)
	{
	}

	void run()
	{
		std::size_t in_flight = 0;

		for (Slot &slot : slots)
			in_flight += begin_block(slot);
		while (in_flight > 0) {
			std::size_t nr = context.wait(events);

			for (std::size_t i = 0; i < nr; i++)
				in_flight -= !advance(events[i]);
		}
		sync();
	}

private:
	/* Return: false if no block is left. */
	bool begin_block(Slot &slot)
	{
		if (!slot.buffer)
			fail(ENOMEM, "a buffer");
		if (next == end)
			return false;
		slot.start = next;
		slot.size = static_cast<std::size_t>(
			std::min<long long>(block_bytes, end - next));
		slot.done = 0;
		slot.is_writing = false;
		next += static_cast<long long>(slot.size);
		submit(slot);
		return true;
	}

	/* Submit one request for the rest of the block. */
	void submit(Slot &slot)
	{
		auto prepare = slot.is_writing ? io_prep_pwrite : io_prep_pread;

		prepare(&slot.request, (slot.is_writing ? target : source).fd,
			slot.buffer.get() + slot.done, slot.size - slot.done,
			slot.start + static_cast<long long>(slot.done));
		/*
		 * The event returns this pointer. Preparing a request clears it, so set it
		 * afterwards.
		 */
		slot.request.data = &slot;
		context.submit(&slot.request);
	}

	/*
	 * Continue a slot after an event. The event's result is what the system call would
	 * return: a number of bytes, sometimes fewer than requested, or an error.
	 *
	 * Return: false if the slot has nothing left to do.
	 */
	bool advance(const io_event &event)
	{
		Slot &slot = *static_cast<Slot *>(event.data);
		long result = static_cast<long>(event.res);

		if (result < 0)
			fail(static_cast<int>(-result), path_of(slot));
		if (result == 0)
			fail(EIO, path_of(slot) + " became shorter");
		slot.done += static_cast<std::size_t>(result);
		if (slot.done == slot.size) {
			if (slot.is_writing)
				return begin_block(slot);
			slot.is_writing = true;
			slot.done = 0;
		}
		submit(slot);
		return true;
	}

	const std::string &path_of(const Slot &slot) const
	{
		return slot.is_writing ? target.path : source.path;
	}

	void sync()
	{
		iocb request;

		io_prep_fsync(&request, target.fd);
		context.submit(&request);
		context.wait(events);
		if (static_cast<long>(events[0].res) < 0)
			fail(static_cast<int>(
				     -static_cast<long>(events[0].res)),
			     target.path);
	}

	const File &source, &target;
	const long long end;
	long long next = 0; /* offset of the first block that has not begun */
	std::vector<Slot> slots;
	std::vector<io_event> events;
	Context context; /* declared after slots: see class Context */
};

} // namespace

int main(int argc, char **argv)
{
	if (argc != 3) {
		std::fprintf(stderr, "usage: copy SOURCE TARGET\n");
		return 2;
	}
	try {
		File source(argv[1], O_RDONLY);
		File target(argv[2], O_WRONLY | O_CREAT | O_TRUNC);

		Copy(source, target).run();
	} catch (const std::system_error &error) {
		std::fprintf(stderr, "copy: %s\n", error.what());
		return 1;
	}
	return 0;
}
