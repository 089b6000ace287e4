# What the scripts of this room share. Each part of an answer has its own time limit, and none hides another.
type -P timeout > /dev/null || timeout() { shift; "$@"; }

# NAME COMMAND...: a section of what a command says. Fails where there was no answer in time.
ask() {
  local name=$1 said errors code
  shift
  hear timeout "$seconds" "$@" < /dev/null
  code=$?
  section "$name" $code "$said" "$errors"
  [ $code -ne 124 ]
}

# What would win over a script's own lines; see submit.sh.
for variable in ${!SBATCH_@} ${!SLURM_@} ${!SRUN_@}; do
  case $variable in
    SLURM_CONF | SLURM_CONF_SERVER | SLURM_CLUSTERS | SLURM_JWT | SLURM_TIME_FORMAT | SBATCH_CLUSTERS) ;;
    SBATCH_ACCOUNT | SBATCH_PARTITION | SBATCH_QOS | SBATCH_CONSTRAINT | SBATCH_RESERVATION | SBATCH_WCKEY) ;;
    *) unset "$variable" ;;
  esac
done

# NAME SCRIPT: a section: whether Slurm would take it. It answers on its error stream. What sbatch's own variables say
# counts only where the script is silent.
test_it() {
  local said errors code
  hear submit_it "$2"
  code=$?
  section "$1" $code "$said" "$errors"
  return $code
}

# Whether srun takes images of containers: 0, or 1 for a help of srun's that does not name them; 2 where that is no help.
ask_pyxis() {
  ask pyxis bash -c '
    help=$(srun --help 2> /dev/null) && [[ $help == *--nodes* ]] || exit 2
    [[ $help == *--container-image* ]]'
}

# SCRIPT
submit_it() {
  local variable
  for variable in ${!SBATCH_@}; do
    ! grep -q -i -- "^#SBATCH --${variable#SBATCH_}\b" <<< "$1" || unset "$variable"
  done
  timeout "$seconds" sbatch --test-only <<< "$1"
}

# What exists, where something is refused; see submit.sh.
show_partitions() {
  ask partitions sinfo --all --noheader --summarize --format="%R$field%l$field%D$field%G$field%a"
}

show_nodes() { ask nodes sinfo --all --noheader --format="%R$field%D$field%T"; }

# Fails where there was no answer in time.
show_accounts() {
  local said errors code
  hear timeout "$seconds" sacctmgr --noheader --parsable2 show associations user="$(id -un)" \
    format=account,partition,qos < /dev/null
  code=$?
  section accounts $code "${said//|/$field}" "$errors"
  [ $code -ne 124 ]
}

# WORD: a path as the batch script's shell would read it; fails where it names a variable that is not set.
path_of() { (set -u; eval "printf '%s' $1"); }

# NAME WORD
ask_path() {
  local path said errors
  hear path_of "$2" || { section "$1" 2 '' "$errors"; return; }
  path=$said
  ask "$1" stat --dereference --format="%s$field%F$field$path" -- "$path"
}
