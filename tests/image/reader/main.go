// SPDX-License-Identifier: Apache-2.0

// Reads a bill of materials as Grype does, and prints what it would look for in its list of advisories.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"os"

	"github.com/anchore/syft/syft/format/spdxjson"
	"github.com/anchore/syft/syft/pkg"
)

type found struct {
	Distribution string            `json:"distribution"`
	Packages     map[string]string `json:"packages"` // of Debian, with their versions
	Licenses     map[string]string `json:"licenses"`
}

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	bill, id, version, err := spdxjson.NewFormatDecoder().Decode(bytes.NewReader(text))
	if err != nil {
		log.Fatal(err)
	}
	if id != spdxjson.ID || version != "2.3" {
		log.Fatalf("read as %s %s", id, version)
	}

	all := found{Packages: map[string]string{}, Licenses: map[string]string{}}
	if release := bill.Artifacts.LinuxDistribution; release != nil {
		all.Distribution = release.ID + " " + release.VersionID
	}
	for one := range bill.Artifacts.Packages.Enumerate(pkg.DebPkg) {
		all.Packages[one.Name] = one.Version
		for _, license := range one.Licenses.ToSlice() {
			all.Licenses[one.Name] = license.SPDXExpression
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		log.Fatal(err)
	}
}
