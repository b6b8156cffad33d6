// SPDX-License-Identifier: Apache-2.0

// Names the programs for `go mod tidy`; the build makes the programs themselves, and not this package.
package main

import (
	_ "github.com/openkruise/kruise"
	_ "github.com/openkruise/kruise/cmd/daemon"
)
