# SPDX-License-Identifier: Apache-2.0
"""Real parts of a node, started privately for tests and for the quick start.

Every part has a folder of its own, listens on ports and sockets of its own, and leaves nothing
behind, not even when the process that started it is killed:

    with LabFolder() as folder:
        with Containerd(folder / "containerd") as containerd, Registry(folder / "registry") as hub:
            image = hub.push_image("demo/hello", "1", busybox=True)
            print(containerd.pull(image.reference))

Peers that misbehave on command are in the package `fake` beside this one.
"""
