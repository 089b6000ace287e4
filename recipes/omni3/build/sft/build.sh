#!/usr/bin/env bash
# /// script
# dependencies = []
#
# [tool.runspec]
# schema = "1"
# name = "omni3/build/sft"
# description = "Build the image for fine-tuning Nemotron 3 Omni: NeMo with readers of sound, images and video."
# kind = "build"
# image = "quay.io#podman/stable:v5.3"
#
# [tool.runspec.run]
# launch = "direct"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 0
#
# [[tool.runspec.parameters]]
# name = "build_args"
# description = "Values for the ARGs of the Dockerfile, such as build_args.BASE=…"
#
# [[tool.runspec.parameters]]
# name = "image"
# description = "The image's name: IMAGE.sqsh in the build cache."
#
# [[tool.runspec.parameters]]
# name = "save"
# description = "sqsh (for Pyxis), oci (an archive for podman and docker), or both."
# ///
#
# The config comes as arguments; what is built is the Dockerfile beside this script.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
exec bash "$here/../../_shared/build_image.sh" "$here" "$@"
