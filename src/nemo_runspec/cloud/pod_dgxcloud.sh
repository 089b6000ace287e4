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

# Kubeflow calls a job ended as its master has, whatever becomes of the workers, and ends them: so node 0 is the last one
# to go, and a failure of another node is its own. A pod that dies without a word fails the job by itself.
nemotron_pod_others() {
  local node line marker waited=0 code
  for ((node = 1; node < nemotron_pod_count; node++)); do
    marker=$nemotron_pod_status/node-$node code=''
    until [ -n "$code" ]; do
      [ -z "$nemotron_pod_told" ] || return 0
      line=$(tail -n 1 "$nemotron_pod_dir/logs/node-$node.log" 2> /dev/null)
      case $line in
        "nemotron-end: node=$node attempt=$nemotron_pod_attempt "*)
          code=${line#* exit_code=}
          code=${code%% *}
          ;;
        *)
          if [ -f "$marker" ]; then waited=$((waited + 1)); fi # its outputs are being copied, or its log cannot be kept
          if [ "$waited" -ge 1200 ]; then code=$(nemotron_pod_value "$marker" exit_code); fi
          [ -n "$code" ] || sleep 0.5
          ls "$nemotron_pod_dir/logs" > /dev/null # a network file system looks again
          ;;
      esac
    done
    if [ "$code" != 0 ]; then
      nemotron_pod_reason="node $node failed: exit code $code"
      return "$code"
    fi
  done
}
