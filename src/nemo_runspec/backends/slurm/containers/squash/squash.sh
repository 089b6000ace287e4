#!/usr/bin/env bash
# /// script
# dependencies = []
#
# [tool.runspec]
# schema = "1"
# name = "squash"
# description = "Import an image of a registry into a squash file."
# kind = "build"
#
# [tool.runspec.run]
# launch = "direct"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 0
# ///
#
#   squash.sh URI FILE [--force]
#
# Runs on a node that has enroot. The file is written beside its place and gets its name once it is whole. Two of these
# at the same time wait for each other; where the file system has no locks, each makes the file and the last one stays.
set -euo pipefail

uri=$1 file=$2 force=${3-}
folder=${file%/*} name=${file##*/}
part=$folder/.$name.${SLURM_JOB_ID:-$$}.part

fail() {
  printf 'error: %s\n' "$1" >&2
  exit "${2:-1}"
}

# Whoever waits for another's file has nothing to do once that is there.
tell() {
  printf 'squash file: %s (%s)\n' "$file" "$1"
  exit 0
}

command -v enroot > /dev/null || fail "enroot is not on `uname -n`: choose a partition that has it with build_partition" 127
mkdir -p -- "$folder" || fail "$folder cannot be made"
if [ -e "$file" ] && [ -z "$force" ]; then tell "it was there already; --force-squash makes it again"; fi

# FILE: since when it is as it is; nothing where it is not there.
made() { stat -c '%i %Y' -- "$1" 2> /dev/null || :; }

before=`made "$file"`
exec {lock}>> "$folder/.$name.lock"
locked=0
said=`flock --exclusive --nonblock --conflict-exit-code 75 "$lock" 2>&1` || locked=$?
if [ "$locked" -ne 0 ]; then
  if [ "$locked" -eq 75 ]; then
    printf 'another job makes %s now; waiting for it\n' "$name"
    flock --exclusive "$lock" || fail "the lock of $file cannot be had"
    if [ -e "$file" ] && [ "`made "$file"`" != "$before" ]; then tell "another job has just made it"; fi
  else
    printf 'no lock on this file system (%s): going on without\n' "$said"
    lock=''
  fi
fi
# What jobs that were killed have left; nobody else writes while the lock is held.
if [ -n "$lock" ]; then rm -rf -- "$folder/.$name".*.part; fi
rm -rf -- "$part"
storage=''
trap 'trap "" TERM INT HUP; rm -rf -- "$part" ${storage:+"$storage"}' EXIT # a second signal would end rm
trap 'trap "" TERM INT HUP; kill `jobs -p` 2> /dev/null || :; wait || :; exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP

printf 'importing %s\n' "$uri"
# Enroot reads no archives, but podman's images: an archive is loaded into a storage of this job alone.
case $uri in docker-archive://* | oci-archive://*)
  archive=/${uri#*:///}
  [ -r "$archive" ] || fail "$archive cannot be read on `uname -n`"
  command -v podman > /dev/null || fail "podman, which reads archives, is not on `uname -n`: build_partition chooses another" 127
  storage=`mktemp -d "${TMPDIR:-/tmp}/nemotron-squash-XXXXXX"`
  printf '[storage]\ndriver = "%s"\ngraphroot = "%s/layers"\nrunroot = "%s/run"\n' \
    "${STORAGE_DRIVER:-vfs}" "$storage" "$storage" > "$storage/storage.conf"
  export CONTAINERS_STORAGE_CONF=$storage/storage.conf
  unset STORAGE_DRIVER
  said=`podman load --input "$archive"` || fail "podman cannot load $archive"
  uri=podman://`printf '%s\n' "$said" | sed -n 's/^Loaded image[^:]*: //p' | head -n 1`
  [ "$uri" != podman:// ] || fail "podman load has named no image of $archive"
  ;;
esac
# In the background, so that a signal is heeded at once and enroot hears of it.
enroot import --output "$part" "$uri" &
import=$!
code=0
wait "$import" || code=$?
[ "$code" -eq 0 ] || fail "enroot import $uri has ended with exit code $code; its own words are above" "$code"
[ -s "$part" ] || fail "enroot import $uri has written nothing"
mv -f -T -- "$part" "$file"
tell "`du -h -- "$file" | cut -f 1`"
