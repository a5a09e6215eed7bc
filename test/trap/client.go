// SPDX-License-Identifier: MIT

// client.go WHAT FILE: what client.c does, in Go, whose runtime makes its own system
// calls and interrupts its threads by SIGURG
//
// It prints a line for each thing that it has done, and nothing that differs from one
// run to the next. FILE is larger than fileBytes.
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	fileBytes  = 8 << 10
	part       = 512
	goroutines = 8
	reads      = 200
	cycles     = 20
)

func openFile() *os.File {
	file, err := os.Open(os.Args[2])
	if err != nil {
		die("open", err)
	}
	return file
}

// Each goroutine reads parts by a ring of its own; meanwhile garbage is collected.
func doGoroutines() {
	var wrong, isOver int32
	var readers, collector sync.WaitGroup
	collector.Add(1)
	go func() {
		for atomic.LoadInt32(&isOver) == 0 {
			runtime.GC()
		}
		collector.Done()
	}()
	for i := 0; i < goroutines; i++ {
		readers.Add(1)
		go func() {
			defer readers.Done()
			file, r := openFile(), openRing()
			mine, theirs := memory(-1, 0, part), make([]byte, part)
			for n := 0; n < reads; n++ {
				offset := int64(n * 37 % (fileBytes - part))
				result := r.read(file.Fd(), mine, uint64(offset))
				_, err := file.ReadAt(theirs, offset)
				if err != nil || result != part ||
					!bytes.Equal(mine, theirs) {
					atomic.AddInt32(&wrong, 1)
				}
			}
		}()
	}
	readers.Wait()
	atomic.StoreInt32(&isOver, 1)
	collector.Wait()
	fmt.Printf("goroutines: %d of %d parts are wrong\n", wrong,
		goroutines*reads)
}

// Go stops a goroutine for a collection by SIGURG, and when it next calls a function that
// looks whether it is to stop. So this one is no inline function: without such a call the
// collection and the goroutine could miss each other for ever on one processor.
//
//go:noinline
func (r *ring) wait(submit uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(ringEnter, r.fd, submit, 1,
		getEvents, 0, 8)
	return errno
}

// A thread waits in io_uring_enter of which the runtime is not told. A collection stops
// all goroutines, so it ends only if SIGURG ends the wait, and stops the loop, too.
func doPreempt() {
	var isOver, isWaiting, interrupted int32
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		die("pipe", err)
	}
	runtime.GOMAXPROCS(3)
	into := memory(-1, 0, 1)
	result := make(chan int32)
	go func() {
		r := openRing()
		r.prepare(opRead, uintptr(ends[0]), into, ^uint64(0))
		submit := uintptr(1)
		for {
			if res, ok := r.result(); ok {
				result <- res
				return
			}
			atomic.StoreInt32(&isWaiting, 1)
			if r.wait(submit) == syscall.EINTR {
				atomic.AddInt32(&interrupted, 1)
			}
			submit = 0
		}
	}()
	go func() {
		for atomic.LoadInt32(&isOver) == 0 {
		}
	}()
	for atomic.LoadInt32(&isWaiting) == 0 {
		runtime.Gosched()
	}
	for i := 0; i < cycles || atomic.LoadInt32(&interrupted) == 0; i++ {
		runtime.GC()
	}
	atomic.StoreInt32(&isOver, 1)
	if _, err := syscall.Write(ends[1], []byte("x")); err != nil {
		die("write", err)
	}
	fmt.Printf("preempt: %d byte: %c\n", <-result, into[0])
}

func doAIO() {
	file, mine, theirs := openFile(), memory(-1, 0, part), make([]byte, part)
	control, event := memory(-1, 0, 64), memory(-1, 0, 32)
	pointer, context := memory(-1, 0, 8), memory(-1, 0, 8)
	call := func(what string, nr, a, b, c, d, e uintptr) uintptr {
		ret, _, errno := syscall.Syscall6(nr, a, b, c, d, e, 0)
		if errno != 0 {
			die(what, errno)
		}
		return ret
	}
	address := func(of []byte) uintptr {
		return uintptr(unsafe.Pointer(&of[0]))
	}
	call("io_setup", syscall.SYS_IO_SETUP, 4, address(context), 0, 0, 0)
	*at64(control, 0) = 7
	*at32(control, 20) = uint32(file.Fd())
	*at64(control, 24) = uint64(address(mine))
	*at64(control, 32) = part
	*at64(control, 40) = 100
	*at64(pointer, 0) = uint64(address(control))
	handle := uintptr(*at64(context, 0))
	call("io_submit", syscall.SYS_IO_SUBMIT, handle, 1, address(pointer), 0, 0)
	nr := call("io_getevents", syscall.SYS_IO_GETEVENTS, handle, 1, 1,
		address(event), 0)
	if _, err := file.ReadAt(theirs, 100); err != nil {
		die("read", err)
	}
	fmt.Printf("aio: %d event, %d bytes, data %d, right: %v\n", nr,
		*at64(event, 16), *at64(event, 0), bytes.Equal(mine, theirs))
	call("io_destroy", syscall.SYS_IO_DESTROY, handle, 0, 0, 0, 0)
}

// Another program is executed by Go's runtime, and then a ring still works.
func doExec() {
	process, err := os.StartProcess(os.Args[3], os.Args[3:],
		&os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		die("start", err)
	}
	state, err := process.Wait()
	if err != nil {
		die("wait", err)
	}
	mine := memory(-1, 0, part)
	fmt.Printf("exec: status %d, then %d bytes\n", state.ExitCode(),
		openRing().read(openFile().Fd(), mine, 0))
}

func main() {
	if len(os.Args) < 3 {
		os.Exit(2)
	}
	switch os.Args[1] {
	case "goroutines":
		doGoroutines()
	case "preempt":
		doPreempt()
	case "aio":
		doAIO()
	case "exec":
		doExec()
	default:
		os.Exit(2)
	}
}
