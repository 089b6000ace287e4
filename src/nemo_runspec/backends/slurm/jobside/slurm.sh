# What setup_lines of every batch script begin with: it goes on in slurm.py, which runs the batch script once more, in a
# shell that comes here again. On a node without python3 (3.6 or later), slurm_fallback.sh does the least that a job needs.
#
# Told by: nemotron_root, the job's directory; nemotron_values, JSON; nemotron_script, the job script's path there.

# WORD...: slurm.py's own first ones.
nemotron_call() {
  "$nemotron_python" -I -S "$nemotron_root/slurm.py" "$1" "$nemotron_values" "$nemotron_root" "${@:2}"
}

if [ -n "${NEMOTRON_BATCH-}" ]; then
  exec 2>&101 101>&-
  nemotron_python=$NEMOTRON_BATCH
  unset NEMOTRON_BATCH NEMOTRON_HEAD
  unset -f srun
  # This shell outlives the signals that Slurm sends to every process; what it starts has default handlers.
  for nemotron_word in TERM INT HUP USR1 USR2; do trap '{ :; } 2> /dev/null' "$nemotron_word"; done

  # WORD...: Slurm's srun; the job's own step stands in slurm.py.
  srun() {
    local code=0 traced=$-
    { set +vx; } 2> /dev/null
    case ${!#} in
      */"$nemotron_script")
        TORCHX_MAX_RETRIES=0 # NeMo-Run's own requeue is off
        nemotron_versions=()
        [ ! -f "$nemotron_own/versions.sh" ] || . "$nemotron_own/versions.sh"
        nemotron_call step "${nemotron_versions[@]/#/version=}" -- "$@" || code=$?
        ;;
      *) command srun "$@" || code=$? ;;
    esac
    case $traced in *x*) set -vx ;; esac
    return "$code"
  }
  return
fi

nemotron_early=''
for nemotron_word in TERM INT HUP USR1 USR2; do trap "nemotron_early+=' $nemotron_word'" "$nemotron_word"; done
# WORD...: whether these words start a Python that will do.
nemotron_tries() { "$@" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2> /dev/null; }

for nemotron_python in python3 /usr/libexec/platform-python python; do
  nemotron_start=(env --block-signal=TERM,INT,HUP,USR1,USR2 "$nemotron_python") # as in start.sh
  if ! nemotron_tries "${nemotron_start[@]}"; then
    nemotron_start=("$nemotron_python")
    nemotron_tries "${nemotron_start[@]}" || continue
    trap '' USR1 USR2
  fi
  # What the batch script has asked the first node for is known: it is not asked again.
  srun() { printf '%s\n' "$NEMOTRON_HEAD"; }
  export -f srun
  export NEMOTRON_HEAD=$head_node_ip NEMOTRON_BATCH=$nemotron_python
  exec "${nemotron_start[@]}" -I -S "$nemotron_root/slurm.py" batch "$nemotron_values" "$nemotron_root" \
    "early=$nemotron_early" -- "$BASH" "$0" "$@"
done
. "$nemotron_root/slurm_fallback.sh"
