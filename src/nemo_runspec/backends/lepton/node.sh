# Lepton's variables, as its lepton_env_to_pytorch.sh reads them. That script has had two forms of the host names; which
# one a cluster knows is found out. Nothing is downloaded for it.
nemotron_pod_place() {
  local name seconds=${NEMOTRON_RESOLVE_SECONDS:-300}
  export NEMOTRON_POD_INDEX=$nemotron_pod_index NEMOTRON_POD_COUNT=$nemotron_pod_count NEMOTRON_POD_MASTER=''
  export NEMOTRON_POD_PORT='' NEMOTRON_POD_WORKERS='' NEMOTRON_POD_ATTEMPT=$nemotron_pod_attempt
  [ "$nemotron_pod_count" -gt 1 ] || return 0
  for name in LEPTON_JOB_WORKER_INDEX LEPTON_JOB_TOTAL_WORKERS LEPTON_SUBDOMAIN; do
    [ -n "${!name-}" ] || nemotron_pod_fail "Lepton has not set $name: $nemotron_pod_count nodes cannot find each other"
  done
  nemotron_pod_check LEPTON_JOB_WORKER_INDEX LEPTON_JOB_TOTAL_WORKERS
  set -- ${LEPTON_JOB_WORKER_PREFIX:+"$LEPTON_JOB_WORKER_PREFIX"}
  name=${LEPTON_JOB_SERVICE_PREFIX:-${LEPTON_JOB_NAME-}}
  [ -z "$name" ] || set -- "$@" "$name"
  [ $# -gt 0 ] || nemotron_pod_fail \
    "Lepton has set none of LEPTON_JOB_WORKER_PREFIX, LEPTON_JOB_SERVICE_PREFIX, LEPTON_JOB_NAME: node 0 has no name"
  nemotron_pod_resolve "$seconds" "$@" || nemotron_pod_fail \
    "node 0 is not to be found within $seconds s: no address for ${*/%/-0.$LEPTON_SUBDOMAIN}"
  NEMOTRON_POD_MASTER=$nemotron_pod_prefix-0.$LEPTON_SUBDOMAIN NEMOTRON_POD_PORT=29400
  for ((name = 1; name < nemotron_pod_count; name++)); do
    NEMOTRON_POD_WORKERS+=${NEMOTRON_POD_WORKERS:+,}$nemotron_pod_prefix-$name.$LEPTON_SUBDOMAIN
  done
}

# SECONDS PREFIX...: the first prefix whose node 0 has an address.
nemotron_pod_resolve() {
  local deadline=$((SECONDS + $1))
  shift
  while :; do
    for nemotron_pod_prefix; do
      ! nemotron_pod_has_address "$nemotron_pod_prefix-0.$LEPTON_SUBDOMAIN" || return 0
    done
    [ -z "$nemotron_pod_told" ] && [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 1
  done
}

nemotron_pod_has_address() {
  if type -P getent; then
    getent hosts "$1"
  elif type -P python3; then
    python3 -c 'import socket, sys; socket.getaddrinfo(sys.argv[1], None)' "$1"
  else
    : # nothing here can ask
  fi
} > /dev/null 2>&1
