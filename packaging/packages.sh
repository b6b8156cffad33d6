# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Which Debian packages the project needs for what, and how to get them. To be sourced.

# shellcheck disable=SC2034 # the lists are for the scripts that source this
# shellcheck source=packaging/root.sh
. "$(dirname "${BASH_SOURCE[0]}")/root.sh"

# To build the programs.
build_libraries=(
    libc6-dev libgrpc-dev libprotobuf-c-dev libsystemd-dev
    libcurl4-openssl-dev libjson-c-dev libyaml-dev libmicrohttpd-dev libsmartcols-dev
)
build_packages=(gcc cmake ninja-build pkgconf protobuf-c-compiler "${build_libraries[@]}")

# To make a Debian package of the programs.
deb_packages=(dpkg-dev file gzip python3)

# To make RPM packages of the static program.
rpm_packages=(rpm)

# To sign a release.
release_packages=(git gpg gpg-agent minisign python3)

# To build the image: what its programs are linked with comes from packages unpacked elsewhere.
static_packages=(
    gcc g++ libc6-dev cmake ninja-build make pkgconf protobuf-c-compiler ca-certificates
    dpkg-dev meson gperf python3 python3-jinja2
)

# To build for the architecture that is not this machine's.
case $(dpkg --print-architecture 2>/dev/null) in
arm64) cross_packages=(gcc-x86-64-linux-gnu g++-x86-64-linux-gnu) ;;
*) cross_packages=(gcc-aarch64-linux-gnu g++-aarch64-linux-gnu) ;;
esac

# To test it.
image_packages=(skopeo)

# To ask a runtime, beside the agent, what it holds. (python3-grpc-tools needs python3-pkg-resources
# without saying so.)
query_packages=(python3 python3-grpcio python3-grpc-tools python3-pkg-resources)

# For a private runtime and a registry with images in it.
lab_packages=("${query_packages[@]}" containerd runc docker-registry busybox-static openssl)

# For the tests.
test_packages=(
    "${lab_packages[@]}" git libcmocka-dev
    python3-pytest python3-pytest-timeout python3-pytest-xdist python3-yaml
    clang-format clang-tidy-14 shellcheck mandoc systemd iproute2
)

# To test what users install: the packages' rules, shells that complete, a machine booted by systemd.
packaging_packages=(lintian rpmlint zsh fish binutils mmdebstrap systemd-container)

# To run programs of another architecture.
foreign_packages=(qemu-user-static)

# To plot what tests/bench has measured.
page_packages=(gnuplot-nox)

# For tests/analyze, in addition.
analyze_packages=(valgrind)

# To fuzz with an engine; tests/run needs none.
fuzz_packages=(clang-14 libclang-rt-14-dev)

# For a control plane and a kubelet, which the tests build themselves.
cluster_packages=(containernetworking-plugins etcd-server iproute2 prometheus)

# To build CRI-O, the rest of which is Go.
crio_packages=(gcc libc6-dev)

# For the runtimes that the tests build themselves: what CRI-O starts, and what makes images of layers that are
# fetched while they are read.
runtime_packages=("${crio_packages[@]}" conmon iptables jq stargz-snapshotter)

# To build those on a machine without Go.
go_packages=(ca-certificates python3-pip python3-venv)

# Packages that start a service when they are installed on a machine booted by systemd. The project
# starts private copies of their programs and needs none of them running.
_service_packages=(containerd docker-registry etcd-server prometheus)

# Prints the packages among the arguments that are not installed, each once.
list_missing_packages() {
    local package status
    declare -A installed=()

    while read -r package status; do
        [ "$status" != installed ] || installed[$package]=yes
    done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null)

    for package in "$@"; do
        [ -n "${installed[$package]-}" ] || echo "$package"
        installed[$package]=named
    done
}

# Installs what is missing of the arguments; asks the archive for nothing if nothing is. Copies that
# run at the same time wait for each other.
install_packages() {
    local missing package

    if ! command -v apt-get >/dev/null; then
        echo "This needs Debian 12: there is no apt-get to install packages with." >&2
        return 1
    fi

    [ -n "$(list_missing_packages "$@")" ] || return 0
    (
        flock 9
        mapfile -t missing < <(list_missing_packages "$@")
        [ ${#missing[@]} -gt 0 ] || exit 0

        as_root "installing packages" apt-get -q update 9<&- || exit 1
        as_root "installing packages" env DEBIAN_FRONTEND=noninteractive \
            apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends \
            "${missing[@]}" 9<&- || exit 1

        [ -d /run/systemd/system ] || exit 0
        for package in "${_service_packages[@]}"; do
            [[ " ${missing[*]} " != *" $package "* ]] ||
                as_root "stopping $package" systemctl disable --now "${package%-server}.service"
        done
    ) 9</var/lib/dpkg
}
