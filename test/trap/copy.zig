// SPDX-License-Identifier: MIT

//! copy.zig SOURCE TARGET: copies a file by the io_uring of Zig's standard library
//!
//! Four threads copy a quarter of the parts each, by a ring of their own: registered
//! files, registered buffers, a link from each read to its write, and an fsync.
const std = @import("std");
const linux = std.os.linux;

const part_bytes = 4096;
const nr_threads = 4;
const nr_linked = 4;

fn check(ring: *linux.IoUring, wanted: *[nr_linked]usize) !void {
    const nr: u32 = ring.sq_ready();
    _ = try ring.submit_and_wait(nr);
    for (0..nr) |_| {
        const done = try ring.copy_cqe();
        if (done.res != wanted[done.user_data])
            return error.WrongResult;
    }
}

fn copyParts(source: std.fs.File, target: std.fs.File, first: u64) !void {
    const size = (try source.stat()).size;
    var memory: [nr_linked][part_bytes]u8 = undefined;
    var buffers: [nr_linked]std.posix.iovec = undefined;
    for (&buffers, &memory) |*buffer, *part|
        buffer.* = .{ .base = part, .len = part_bytes };

    var ring = try linux.IoUring.init(2 * nr_linked, 0);
    defer ring.deinit();
    try ring.register_files(&.{ source.handle, target.handle });
    try ring.register_buffers(&buffers);

    var wanted: [nr_linked]usize = undefined;
    var at = first * part_bytes;
    while (at < size) {
        for (0..nr_linked) |i| {
            if (at >= size) break;
            wanted[i] = @min(part_bytes, size - at);
            buffers[i].len = wanted[i];
            const read = try ring.read_fixed(i, 0, &buffers[i], at, @intCast(i));
            read.flags |= linux.IOSQE_FIXED_FILE | linux.IOSQE_IO_LINK;
            const write = try ring.write_fixed(i, 1, &buffers[i], at, @intCast(i));
            write.flags |= linux.IOSQE_FIXED_FILE;
            at += nr_threads * part_bytes;
        }
        try check(&ring, &wanted);
    }
    const sync = try ring.fsync(0, 1, 0);
    sync.flags |= linux.IOSQE_FIXED_FILE;
    wanted[0] = 0;
    try check(&ring, &wanted);
}

fn copy(source: std.fs.File, target: std.fs.File, first: u64, failed: *?anyerror) void {
    copyParts(source, target, first) catch |err| {
        failed.* = err;
    };
}

pub fn main() !void {
    const source = try std.fs.openFileAbsoluteZ(std.os.argv[1], .{});
    defer source.close();
    const target = try std.fs.createFileAbsoluteZ(std.os.argv[2], .{});
    defer target.close();
    var threads: [nr_threads]std.Thread = undefined;
    var failed = [_]?anyerror{null} ** nr_threads;
    for (&threads, &failed, 0..) |*thread, *err, i|
        thread.* = try std.Thread.spawn(.{}, copy, .{ source, target, i, err });
    for (threads) |thread| thread.join();
    for (failed) |err| if (err) |which| {
        std.debug.print("{s}\n", .{@errorName(which)});
        std.process.exit(1);
    };
}
