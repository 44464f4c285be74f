// SPDX-License-Identifier: Apache-2.0

// libcni-driver runs one verb of a network list through libcni, as podman, containerd and CRI-O do, for the tests.
// Standard output: the result of ADD, or {"code", "msg", "details"} of the error that libcni returned (exit code 1).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
)

type request struct {
	verb         string
	conflist     string
	cache        string
	path         string
	capabilities string
	timeout      time.Duration
	runtime      libcni.RuntimeConf
}

func readRequest() request {
	r := request{}
	flag.StringVar(&r.verb, "verb", "", "ADD, CHECK or DEL")
	flag.StringVar(&r.conflist, "conflist", "", "file with the network list")
	flag.StringVar(&r.cache, "cache", "", "folder for cached results")
	flag.StringVar(&r.path, "path", "", "folders with plugins, separated by colons")
	flag.StringVar(&r.capabilities, "capabilities", "{}", "capability arguments, a JSON object")
	flag.DurationVar(&r.timeout, "timeout", time.Minute, "after which libcni kills the plugin")
	flag.StringVar(&r.runtime.ContainerID, "id", "", "container ID")
	flag.StringVar(&r.runtime.NetNS, "netns", "", "path of the network namespace")
	flag.StringVar(&r.runtime.IfName, "ifname", "eth0", "interface in the container")
	flag.Parse()
	return r
}

func run(r request) error {
	list, err := libcni.ConfListFromFile(r.conflist)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(r.capabilities), &r.runtime.CapabilityArgs); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	cni := libcni.NewCNIConfigWithCacheDir(filepath.SplitList(r.path), r.cache, nil)
	switch r.verb {
	case "ADD":
		result, err := cni.AddNetworkList(ctx, list, &r.runtime)
		if err != nil {
			return err
		}
		return result.Print()
	case "CHECK":
		return cni.CheckNetworkList(ctx, list, &r.runtime)
	case "DEL":
		return cni.DelNetworkList(ctx, list, &r.runtime)
	}
	return fmt.Errorf("verb %q", r.verb)
}

func main() {
	err := run(readRequest())
	if err == nil {
		return
	}
	// What libcni could not read as a plugin's error has no code.
	answer := types.Error{Msg: err.Error()}
	var plugin *types.Error
	if errors.As(err, &plugin) {
		answer = *plugin
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}
