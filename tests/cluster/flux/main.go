// SPDX-License-Identifier: Apache-2.0

// flux-apply applies a repository every second, as Flux's kustomize-controller does, whose library it uses: with its
// field manager, its detection of drift, and the field managers whose changes it takes back.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

const (
	name     = "kustomize-controller"
	group    = "kustomize.toolkit.fluxcd.io"
	interval = time.Second
	deadline = time.Minute
)

// report is one reconciliation. Revision is the line that the manifest begins with.
type report struct {
	Revision string                `json:"revision"`
	Output   map[string]ssa.Action `json:"output,omitempty"`
	Error    string                `json:"error,omitempty"`
}

func managers() []ssa.FieldManager {
	update := metav1.ManagedFieldsOperationUpdate
	return []ssa.FieldManager{
		{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
		{Name: "kubectl", OperationType: update},
		{Name: "before-first-apply", OperationType: update},
		{Name: name, OperationType: update},
	}
}

func reconcile(ctx context.Context, manager *ssa.ResourceManager, manifest []byte, mustWait bool) (*ssa.ChangeSet, error) {
	objects, err := utils.ReadObjects(bytes.NewReader(manifest))
	if err != nil {
		return nil, err
	}
	if err := normalize.UnstructuredList(objects); err != nil {
		return nil, err
	}
	manager.SetOwnerLabels(objects, "repository", "default")
	options := ssa.DefaultApplyOptions()
	options.Cleanup.Annotations = []string{corev1.LastAppliedConfigAnnotation}
	options.Cleanup.FieldManagers = managers()
	changes, err := manager.ApplyAllStaged(ctx, objects, options)
	if err == nil && mustWait {
		err = manager.WaitForSetWithContext(ctx, changes.ToObjMetadataSet(),
			ssa.WaitOptions{Interval: interval, Timeout: deadline, FailFast: true})
	}
	return changes, err
}

func run(path string, mustWait bool) error {
	access, err := config.GetConfig()
	if err != nil {
		return err
	}
	kube, err := client.New(access, client.Options{})
	if err != nil {
		return err
	}
	poller := polling.NewStatusPoller(kube, kube.RESTMapper(), polling.Options{})
	manager := ssa.NewResourceManager(kube, poller, ssa.Owner{Field: name, Group: group})
	for ; ; time.Sleep(interval) {
		manifest, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		revision, _, _ := bytes.Cut(manifest, []byte("\n"))
		said := report{Revision: string(revision)}
		changes, err := reconcile(context.Background(), manager, manifest, mustWait)
		if err != nil {
			said.Error = err.Error()
		}
		if changes != nil {
			said.Output = changes.ToMap()
		}
		if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
			return err
		}
	}
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "Usage: flux-apply MANIFEST [--wait]")
		os.Exit(2)
	}
	if err := run(os.Args[1], len(os.Args) > 2); err != nil {
		fmt.Fprintln(os.Stderr, "flux-apply:", err)
		os.Exit(1)
	}
}
