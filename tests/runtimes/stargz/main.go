// SPDX-License-Identifier: Apache-2.0

// The stargz snapshotter, which fetches a layer while it is read, behind a socket, as containerd expects a
// snapshotter that is no part of it. Its own program is a module that asks for far more.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	api "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/stargz-snapshotter/service"
	"google.golang.org/grpc"
)

func readConfiguration(path string) (*service.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	configuration := &service.Config{}
	return configuration, json.Unmarshal(text, configuration)
}

func serve(root, socket, path string) error {
	configuration, err := readConfiguration(path)
	if err != nil {
		return err
	}
	ctx := context.Background()
	snapshotter, err := service.NewStargzSnapshotterService(ctx, root, configuration)
	if err != nil {
		return err
	}
	defer snapshotter.Close()

	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(snapshotter))

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-ended
		server.Stop()
	}()
	return server.Serve(listener)
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: stargz-snapshotter ROOT SOCKET CONFIGURATION")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "stargz-snapshotter:", err)
		os.Exit(1)
	}
}
