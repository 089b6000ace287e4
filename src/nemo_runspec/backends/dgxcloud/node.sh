# The training operator's variables, which run:ai's distributed workloads get; all of them count pods here.
nemotron_pod_place() {
  local index=RANK
  [ -z "${PET_NODE_RANK-}" ] || index=PET_NODE_RANK
  export NEMOTRON_POD_INDEX=$nemotron_pod_index NEMOTRON_POD_COUNT=$nemotron_pod_count NEMOTRON_POD_MASTER=''
  export NEMOTRON_POD_PORT='' NEMOTRON_POD_WORKERS='' NEMOTRON_POD_ATTEMPT=$nemotron_pod_attempt
  if [ "$nemotron_pod_count" -gt 1 ]; then nemotron_pod_meet "$index"; fi
  unset ${!PET_@} # torchrun would take them for arguments that it was not given
}

# INDEX: the name of the variable that says which node this is.
nemotron_pod_meet() {
  local name
  for name in "$1" MASTER_ADDR WORLD_SIZE; do
    [ -n "${!name-}" ] || nemotron_pod_fail "run:ai has not set $name: $nemotron_pod_count nodes cannot find each other"
  done
  nemotron_pod_check "$1" "${PET_NNODES:+PET_NNODES}"
  NEMOTRON_POD_MASTER=$MASTER_ADDR NEMOTRON_POD_PORT=${MASTER_PORT:-23456}
}
