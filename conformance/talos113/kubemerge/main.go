// Merges kubeconfigs with the library talosctl merges them with; talosctl itself does so only with what a machine sends.
//
//	kubemerge rename|overwrite FILE OTHER     adds what OTHER has to FILE
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/siderolabs/go-kubeconfig"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: kubemerge rename|overwrite FILE OTHER")
	}
	merger, err := kubeconfig.Load(args[1])
	if err != nil {
		return err
	}
	other, err := clientcmd.LoadFromFile(args[2])
	if err != nil {
		return err
	}
	decision := kubeconfig.ConflictDecision(args[0])
	options := kubeconfig.MergeOptions{
		ActivateContext: true,
		OutputWriter:    io.Discard,
		ConflictHandler: func(kubeconfig.ConfigComponent, string) (kubeconfig.ConflictDecision, error) { return decision, nil },
	}
	if err := merger.Merge(other, options); err != nil {
		return err
	}
	return merger.Write(args[1])
}
