// SPDX-License-Identifier: MIT

// server.go: files by HTTP, in a program of Go with C in it, so that it is dynamic
//
// PUT /PATH writes a file, GET /PATH reads it, in parts, by a ring of io_uring. It prints
// its address, and ends with the standard input.
package main

// #include <unistd.h>
import "C"

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

const partBytes = 4096

func transfer(op byte, file *os.File, data []byte) error {
	r := openRing()
	defer r.close()
	for at := 0; at < len(data); at += partBytes {
		part := data[at:min(at+partBytes, len(data))]
		done := r.execute(op, file.Fd(), part, uint64(at))
		if int(done) != len(part) {
			return fmt.Errorf("%d of %d bytes", done, len(part))
		}
	}
	return nil
}

func put(path string, body io.Reader) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return transfer(opWrite, file, data)
}

func get(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	return data, transfer(opRead, file, data)
}

func serve(out http.ResponseWriter, in *http.Request) {
	var data []byte
	var err error
	if in.Method == http.MethodPut {
		err = put(in.URL.Path, in.Body)
	} else {
		data, err = get(in.URL.Path)
	}
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	out.Write(data)
}

func main() {
	if C.getpid() != C.int(os.Getpid()) {
		os.Exit(1)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		die("listen", err)
	}
	fmt.Println(listener.Addr())
	go http.Serve(listener, http.HandlerFunc(serve))
	io.Copy(io.Discard, os.Stdin)
}
