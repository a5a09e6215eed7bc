// SPDX-License-Identifier: MIT

// Rings of io_uring by Go's own system call instructions
package main

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	ringSetup  = 425
	ringEnter  = 426
	getEvents  = 1
	opRead     = 22
	opWrite    = 23
	entryBytes = 64
)

func die(what string, err error) {
	fmt.Println(what+":", err)
	os.Exit(1)
}

// Memory that the runtime neither moves nor frees.
func memory(fd int, offset int64, size int) []byte {
	flags := syscall.MAP_SHARED
	if fd < 0 {
		flags = syscall.MAP_PRIVATE | syscall.MAP_ANON
	}
	mapped, err := syscall.Mmap(fd, offset, size,
		syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		die("mmap", err)
	}
	return mapped
}

func at32(memory []byte, offset uint32) *uint32 {
	return (*uint32)(unsafe.Pointer(&memory[offset]))
}

func at64(memory []byte, offset uint32) *uint64 {
	return (*uint64)(unsafe.Pointer(&memory[offset]))
}

// The io_uring_params of the kernel.
type params struct {
	sqEntries, cqEntries, flags, cpu, idle, features, wq uint32
	reserved                                             [3]uint32
	sq, cq                                               [10]uint32
}

type ring struct {
	fd               uintptr
	p                params
	sq, cq, requests []byte
}

func openRing() *ring {
	r := &ring{}
	fd, _, errno := syscall.Syscall(ringSetup, 8,
		uintptr(unsafe.Pointer(&r.p)), 0)
	if errno != 0 {
		die("io_uring_setup", errno)
	}
	r.fd = fd
	r.sq = memory(int(fd), 0, int(r.p.sq[6]+r.p.sqEntries*4))
	r.cq = memory(int(fd), 0x8000000, int(r.p.cq[5]+r.p.cqEntries*16))
	r.requests = memory(int(fd), 0x10000000, int(r.p.sqEntries*entryBytes))
	return r
}

func (r *ring) prepare(op byte, fd uintptr, data []byte, offset uint64) {
	tail := atomic.LoadUint32(at32(r.sq, r.p.sq[1]))
	place := tail & *at32(r.sq, r.p.sq[2])
	request := r.requests[place*entryBytes : (place+1)*entryBytes]
	copy(request, make([]byte, entryBytes))
	request[0] = op
	*at32(request, 4) = uint32(fd)
	*at64(request, 8) = offset
	*at64(request, 16) = uint64(uintptr(unsafe.Pointer(&data[0])))
	*at32(request, 24) = uint32(len(data))
	*at32(r.sq, r.p.sq[6]+4*place) = place
	atomic.StoreUint32(at32(r.sq, r.p.sq[1]), tail+1)
}

// The result of the next completion, if there is one.
func (r *ring) result() (int32, bool) {
	head := *at32(r.cq, r.p.cq[0])
	if head == atomic.LoadUint32(at32(r.cq, r.p.cq[1])) {
		return 0, false
	}
	place := head & *at32(r.cq, r.p.cq[2])
	result := int32(*at32(r.cq, r.p.cq[5]+16*place+8))
	atomic.StoreUint32(at32(r.cq, r.p.cq[0]), head+1)
	return result, true
}

func (r *ring) execute(op byte, fd uintptr, data []byte, offset uint64) int32 {
	r.prepare(op, fd, data, offset)
	submit := uintptr(1)
	for {
		if result, ok := r.result(); ok {
			return result
		}
		done, _, errno := syscall.Syscall6(ringEnter, r.fd, submit, 1,
			getEvents, 0, 8)
		if errno == 0 {
			submit -= done
		} else if errno != syscall.EINTR {
			die("io_uring_enter", errno)
		}
	}
}

func (r *ring) read(fd uintptr, into []byte, offset uint64) int32 {
	return r.execute(opRead, fd, into, offset)
}

func (r *ring) close() {
	syscall.Munmap(r.sq)
	syscall.Munmap(r.cq)
	syscall.Munmap(r.requests)
	syscall.Close(int(r.fd))
}
