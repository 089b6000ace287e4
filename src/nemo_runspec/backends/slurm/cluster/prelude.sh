# What every script that is sent to a login node begins with.
set +e
shopt -u failglob; shopt -s nullglob
export LC_ALL=C SLURM_TIME_FORMAT=%s
unset CDPATH GREP_OPTIONS ${!SQUEUE_@} ${!SACCT_@} ${!SCANCEL_@} ${!SINFO_@}

# What a login shell has set for sbatch and srun would win over a script's own lines, or reach the job's tasks: all of it
# goes, but what names the cluster, and what a script may leave open.
for variable in ${!SBATCH_@} ${!SLURM_@} ${!SRUN_@}; do
  case $variable in
    SLURM_CONF | SLURM_CONF_SERVER | SLURM_CLUSTERS | SLURM_JWT | SLURM_TIME_FORMAT | SBATCH_CLUSTERS) ;;
    SBATCH_ACCOUNT | SBATCH_PARTITION | SBATCH_QOS | SBATCH_CONSTRAINT | SBATCH_RESERVATION | SBATCH_WCKEY) ;;
    *) unset "$variable" ;;
  esac
done

# SCRIPT: what sbatch's own variables say counts only where the batch script is silent.
heed() {
  local variable
  for variable in ${!SBATCH_@}; do
    ! grep -q -i -- "^#SBATCH --${variable#SBATCH_}\b" <<< "$1" || unset "$variable"
  done
}

# NAME CODE [TEXT [ERRORS]]: ERRORS is what came on an error stream.
section() {
  local line=$'\n'
  printf '\036%s\037%s\n' "$1" "$2"
  [ -z "${3-}" ] || printf '%s\n' "$3"
  [ -z "${4-}" ] || printf '\035%s\n' "${4//$line/$line$'\035'}"
}

# COMMAND...: leaves in `said` what it writes, and in `errors` what it writes to its error stream; ends as it does. What
# comes there, from it or from what it leaves running, is never part of an answer, nor in the middle of one.
hear() {
  local both head
  both=$(
    exec 3>&1
    said=$("$@" 2>&3 3>&-)
    printf '\035%s %s\n%s\035' "$?" "${#said}" "$said"
  )
  errors=${both%%$'\035'*} both=${both#*$'\035'}
  head=${both%%$'\n'*} both=${both#*$'\n'}
  said=${both:0:${head#* }} errors+=${both:${head#* }+1}
  return "${head% *}"
}

# NAME COMMAND...: answers with a section of what a command says, which stays in `said`; ends as it does.
answer() {
  local code
  hear "${@:2}"
  code=$?
  section "$1" "$code" "$said" "$errors"
  return "$code"
}

# NAME COMMAND...: the same within `seconds`, and with no input. Fails where there was no answer in time.
ask() {
  answer "$1" timeout "$seconds" "${@:2}" < /dev/null
  [ $? -ne 124 ]
}

# The accounts of whoever asks. Fails where there was no answer in time.
show_accounts() {
  local said errors code
  hear timeout "$seconds" sacctmgr --noheader --parsable2 show associations user="$(id -un)" \
    format=account,partition,qos < /dev/null
  code=$?
  section accounts $code "${said//|/$field}" "$errors"
  [ $code -ne 124 ]
}

# Which Slurm this is, in small letters; nothing where that is not known. Asked for at every look at a job, in a subshell:
# it starts no program where the file has the name.
slurm_name() {
  local file name=
  shopt -s nocasematch
  for file in "${SLURM_CONF:-/etc/slurm/slurm.conf}" /run/slurm/conf/slurm.conf; do
    [ -n "$name" ] || { name_in < "$file"; } 2> /dev/null
  done
  # The file may include others or be on another machine: then the controller is asked.
  [ -n "$name" ] || name_in < <(timeout 10 scontrol show config 2> /dev/null < /dev/null)
  printf '%s' "${name,,}"
}

# Sets `name` as the last of the lines has it that name the cluster.
name_in() {
  local line lines
  mapfile -t lines
  for line in "${lines[@]}"; do
    [[ $line != *ClusterName* || ! $line =~ ^[[:space:]]*ClusterName[[:space:]]*=[[:space:]]*\"*([^[:space:]\"#]*) ]] || name=${BASH_REMATCH[1]}
  done
}
