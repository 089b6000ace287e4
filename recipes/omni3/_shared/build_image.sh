#!/usr/bin/env bash
# Builds the Dockerfile of a folder with podman and leaves the image in the build cache, whole or not at all.
#
#   build_image.sh FOLDER --image NAME --cache PATH [--save sqsh|oci|both] [--build-arg NAME=VALUE]...
#
# Runs as root in a container with podman. The cache is mounted at /nemotron-cache; PATH is what the cluster calls it.
# Logins for registries are in /root/.config/containers/auth.json. Read from the environment, each with a default:
#   NEMOTRON_BUILD_SCRATCH   folder with room for the layers (/tmp)
#   STORAGE_DRIVER           podman's: overlay, or vfs where neither the kernel nor fuse-overlayfs helps (overlay)
#   ENROOT_VERSION           the release that is installed where the container has no enroot (3.5.0)
set -euo pipefail

mounted=${NEMOTRON_BUILD_MOUNT:-/nemotron-cache}
logins=${NEMOTRON_BUILD_LOGINS:-/root/.config/containers/auth.json}

say() { printf '%s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

read_arguments() {
  folder=$1 image='' cache='' save=sqsh arguments=()
  shift
  while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || fail "$1 needs a value"
    case $1 in
      --image) image=$2 ;;
      --cache) cache=${2%/} ;;
      --save) save=$2 ;;
      --build-arg) arguments+=(--build-arg "$2") ;;
      *) fail "unknown option $1" ;;
    esac
    shift 2
  done
  [ -n "$image" ] || fail "--image is missing"
  tag=localhost/nemotron/$image:latest
  case $save in sqsh | oci | both) ;; *) fail "--save is sqsh, oci or both, not $save" ;; esac
  [ -f "$folder/Dockerfile" ] || fail "there is no Dockerfile in $folder"
}

# Podman's storage in a folder of this build alone. The file serves enroot's calls of podman too.
make_storage() {
  scratch=$(mktemp -d "${NEMOTRON_BUILD_SCRATCH:-/tmp}/nemotron-build-XXXXXX")
  local driver=${STORAGE_DRIVER:-overlay} fuse
  {
    printf '[storage]\ndriver = "%s"\ngraphroot = "%s/layers"\nrunroot = "%s/run"\n' "$driver" "$scratch" "$scratch"
    if [ "$driver" = overlay ] && [ -e /dev/fuse ] && fuse=$(command -v fuse-overlayfs); then
      printf '[storage.options.overlay]\nmount_program = "%s"\n' "$fuse"
    fi
  } > "$scratch/storage.conf"
  export CONTAINERS_STORAGE_CONF=$scratch/storage.conf TMPDIR=$scratch
  unset STORAGE_DRIVER
}

clean_up() {
  rm -rf -- "${part:-}"
  # Layers of other users' ids go with the container where they cannot be removed here.
  rm -rf -- "${scratch:-}" 2> /dev/null || :
}

build() {
  local login=()
  if [ -f "$logins" ]; then login=(--authfile "$logins"); fi
  # This is a container already: the steps get no namespaces of their own, which a plain user may not make here.
  podman build --isolation chroot "${login[@]}" "${arguments[@]}" \
    --tag "$tag" --file "$folder/Dockerfile" "$folder"
}

need_enroot() {
  if command -v enroot > /dev/null; then return; fi
  local version=${ENROOT_VERSION:-3.5.0}
  say "installing enroot $version, which turns the image into a squash file"
  dnf install --assumeyes --quiet \
    "https://github.com/NVIDIA/enroot/releases/download/v$version/enroot-$version-1.el8.$(uname -m).rpm" ||
    fail "enroot $version cannot be installed here: use an image that has it, or save: oci"
}

# FILE COMMAND...: the command writes the file it gets as its last word; then the file gets its place.
leave() {
  local name=$1
  shift
  part=$mounted/containers/.$name.${SLURM_JOB_ID:-$$}.part
  rm -rf -- "$part"
  "$@" "$part"
  [ -s "$part" ] || fail "$1 has written nothing"
  mv -f -T -- "$part" "$mounted/containers/$name"
  made+=("$cache/containers/$name ($(du -h -- "$mounted/containers/$name" | cut -f 1))")
}

as_sqsh() { enroot import --output "$1" "podman://$tag"; }
as_oci() { podman save --format oci-archive --output "$1" "$tag"; }

read_arguments "$@"
command -v podman > /dev/null || fail "this container has no podman: run.env.container_image names one that has"
[ -d "$mounted" ] || fail "$mounted is not mounted"
mkdir -p -- "$mounted/containers"
trap clean_up EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP
made=()
make_storage
# Before the long part: what cannot be had should fail at once.
case $save in sqsh | both) need_enroot ;; esac
build
case $save in sqsh | both) leave "$image.sqsh" as_sqsh ;; esac
case $save in oci | both) leave "$image.oci.tar" as_oci ;; esac
for file in "${made[@]}"; do say "image: $file"; done
case $save in sqsh | both) say "use it: container_image = \"$cache/containers/$image.sqsh\"" ;; esac
