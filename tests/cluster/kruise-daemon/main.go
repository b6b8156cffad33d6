// SPDX-License-Identifier: Apache-2.0

// Names the program for `go mod tidy`; the build makes the program itself, and not this package.
package main

import _ "github.com/openkruise/kruise/cmd/daemon"
