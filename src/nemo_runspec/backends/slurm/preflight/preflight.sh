# What a cluster is asked before a job: functions, of which one is called. Each part of an answer has its own time limit, and none hides another.
type -P timeout > /dev/null || timeout() { shift; "$@"; }

# Whether srun takes images of containers: 0, or 1 for a help of srun's that does not name them; 2 where that is no help.
ask_pyxis() {
  ask pyxis bash -c '
    help=$(srun --help 2> /dev/null) && [[ $help == *--nodes* ]] || exit 2
    [[ $help == *--container-image* ]]'
}

# SCRIPT: whether Slurm would take it. It answers on its error stream.
test_it() {
  heed "$1"
  timeout "$seconds" sbatch --test-only <<< "$1"
}

# What exists, where something is refused; see submit.sh.
show_partitions() {
  ask partitions sinfo --all --noheader --summarize --format="%R$field%l$field%D$field%G$field%a"
}

show_nodes() { ask nodes sinfo --all --noheader --format="%R$field%D$field%T"; }

# WORD: a path as the batch script's shell would read it; fails where it names a variable that is not set.
path_of() { (set -u; eval "printf '%s' $1"); }

# NAME WORD
ask_path() {
  local path said errors
  hear path_of "$2" || { section "$1" 2 '' "$errors"; return; }
  path=$said
  ask "$1" stat --dereference --format="%s$field%F$field$path" -- "$path"
}

ask_slurm() {
  local said errors number
  ask version sbatch --version || return # as with a SLURM_CONF that names no file: so it is with all of them
  ask_pyxis
  ask controller scontrol ping
  [[ $said != *DOWN* || $said == *UP* ]] || return
  said=$(timeout "$seconds" scontrol show config 2> /dev/null < /dev/null | sed -n 's/^\(AccountingStorage[A-Za-z]*\) *= /\1\o37/p')
  section config 0 "$said"
  show_partitions || return
  show_nodes
  for ((number = 0; number < ${#drafts[@]}; number += 3)); do
    answer "draft;${drafts[number]}" test_it "${drafts[number + 1]}"
    [ -z "${drafts[number + 2]}" ] || answer "unbilled;${drafts[number]}" test_it "${drafts[number + 2]}"
  done
  show_accounts || return # slurmdbd hangs: neither will it answer the others
  # Each takes some 0.2 s.
  [ -z "$qos" ] || ask qos sacctmgr --noheader --parsable2 show qos format=name
  [ -n "$account" ] || ask default sacctmgr --noheader --parsable2 show user "$me" format=defaultaccount
  ask sacct sacct --noheader --parsable2 --allocations --starttime=now-1hours --format=JobID
}

ask_registry() {
  local said errors status realm service token
  # Its input is a configuration of curl's: nothing that lets us in stands in a command line.
  manifest() {
    timeout "$seconds" curl --silent --show-error --head --config - --header "Accept: $accept" "$registry"
  }
  let_in() { printf 'header = "Authorization: Bearer %s"\n' "$token" | manifest; }
  status_of() { sed -n 's/^HTTP\/[0-9.]* \([0-9]*\).*/\1/p' <<< "$1" | tail -n 1; }
  word_of() { sed -n 's/^[Ww][Ww][Ww]-[Aa]uthenticate: *Bearer.*'"$1"'="\([^"]*\)".*/\1/p' <<< "$said"; }
  hear manifest < /dev/null
  status=$(status_of "$said")
  if [ "$status" = 401 ]; then
    realm=$(word_of realm) service=$(word_of service)
    token=$([ -z "$realm" ] || timeout "$seconds" curl --silent --get --data-urlencode "service=$service" \
      --data-urlencode "scope=$scope" "$realm" 2> /dev/null | sed -n 's/.*"\(access_\)\{0,1\}token": *"\([^"]*\)".*/\2/p')
    if [ -n "$token" ]; then
      hear let_in
      status=$(status_of "$said")
    fi
  fi
  section image 0 "$status" "$errors"
}

# Looks at everything a job needs here, once.
examine() {
  me=$(id -un)
  section host 0
  printf '%s\037%s\037%s\037%s\037%s\n' "$me" "$HOSTNAME" "$HOME" "${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}" "$(date +%s)"
  section tools 0
  for tool in "${tools[@]}"; do printf '%s\037%s\n' "$tool" "$(type -P "$tool")"; done

  if type -P sbatch > /dev/null; then
    ask_slurm
  else
    ask login bash -lc 'type -P sbatch'
  fi

  nearest=$folder
  while [ -n "$nearest" ] && [ ! -e "$nearest" ]; do nearest=${nearest%/*}; done
  nearest=${nearest:-/}
  ask folder bash -c '
    cd "$1" && probe=$(mktemp .nemotron-doctor.XXXXXX) && echo nemotron > "$probe"
    code=$?
    rm -f "$probe"
    exit $code
  ' _ "$nearest"
  kind=$(timeout "$seconds" stat --file-system --format=%T -- "$nearest" 2> /dev/null)
  section place 0
  printf '%s\037%s\037%s\n' "$folder" "$nearest" "$kind"
  ask room df -P -k -- "$nearest"
  ask inodes df -P -i -- "$nearest"
  if [ "$kind" = lustre ] && type -P lfs > /dev/null; then
    ask quota lfs quota -u "$me" "$nearest"
  elif type -P quota > /dev/null; then
    ask quota quota -w
  fi
  for ((number = 0; number < ${#sources[@]}; number++)); do ask_path "mount;$number" "${sources[number]}"; done
  if [ -n "$image_path" ]; then
    ask_path image "$image_path"
  elif [ -n "$registry" ] && type -P curl > /dev/null; then
    ask_registry
  fi
  section end 0
  printf '%s\037\n' "$(date +%s)"
}

# What can be seen of a submission before anything is sent: the programs, the options, the mounts, the image.
examine_quickly() {
  section tools 0
  printf 'sbatch\037%s\n' "$(type -P sbatch)"
  if type -P sbatch > /dev/null; then
    answer "draft;${drafts[0]}" test_it "${drafts[1]}" || { show_partitions; show_nodes; show_accounts; }
  else
    ask login bash -lc 'type -P sbatch'
  fi
  for ((number = 0; number < ${#sources[@]}; number++)); do ask_path "mount;$number" "${sources[number]}"; done
  [ -z "$image_path$registry" ] || ! type -P srun > /dev/null || ask_pyxis
  [ -z "$image_path" ] || ask_path image "$image_path"
}

# FOLDER COMMAND...: python as a job has it, into a file: what the commands leave running may keep an output open.
find_python='
nemotron_place=$1
cd "$1" && shift || exit
for nemotron_command; do eval "$nemotron_command"; done
type -P python > "$nemotron_place/python"
'

# On each node, in one line: its name, whether it sees the file and can write one, programs, GPUs, what lacks, the python3
# that a batch script goes on in (jobside/slurm.sh), and python as a job has it.
on_node='
probe=$1 token=$2 find=$3 patience=$4 count=$5; shift 5; seen=no wrote=no
commands=("${@:1:count}"); shift "$count"
for try in 1 2 3 4 5; do
  [ "$(cat "$probe/here" 2> /dev/null)" != "$token" ] || { seen=yes; break; }
  sleep 1
done
name=${SLURMD_NODENAME:-$HOSTNAME}
! echo "$token" 2> /dev/null > "$probe/$name" || wrote=yes
missing=; for path; do [ -e "$path" ] || missing="$missing $path"; done
gpus=; ! type -P nvidia-smi > /dev/null || gpus=$(timeout 10 nvidia-smi --list-gpus 2> /dev/null | grep -c "^GPU ")
own=
for word in python3 /usr/libexec/platform-python python; do
  ! "$word" -I -S -c "import sys; sys.exit(sys.version_info < (3, 6))" 2> /dev/null || { own=$word; break; }
done
python=
if [ "$count" -gt 0 ] && place=$(mktemp -d); then
  timeout --kill-after=2 "$patience" bash -c "$find" _ "$place" "${commands[@]}" < /dev/null > /dev/null 2>&1
  case $? in 124 | 137) python=late ;; *) python=$(head -n 1 "$place/python" 2> /dev/null) ;; esac
  rm -rf "$place"
fi
printf "node\037%s\037%s\037%s\037%s\037%s\037%s\037%s\037%s\n" "$name" "$seen" "$wrote" "$(type -P enroot)" "$gpus" \
  "${missing# }" "$own" "$python"
'

# Asks compute nodes, by a job of a minute, what only they can see. `given` are srun's options, `limit` its seconds;
# `commands` come before python is looked for, which is not done without any, and may take `patience` seconds.
ask_nodes() {
  mkdir -p "$folder" && probe=$(mktemp -d "$folder/.nemotron-doctor.XXXXXX") || {
    section job 1 "$folder cannot be written"
    exit 0
  }
  trap 'rm -rf "$probe"' EXIT
  echo "$$.$RANDOM" > "$probe/here"
  paths=()
  for word in "${sources[@]}" "$image_path"; do
    [ -z "$word" ] || { path=$(path_of "$word") && paths+=("$path"); }
  done

  hear timeout "$limit" srun "${given[@]}" bash -c "$on_node" _ "$probe" "$(cat "$probe/here")" \
    "$find_python" "$patience" "${#commands[@]}" "${commands[@]}" "${paths[@]}" < /dev/null
  section job $? "$said" "$errors"

  # A network file system may show a new file late.
  section files 0
  while IFS=$'\037' read -r word name seen _; do
    [[ $word = node && $seen = yes ]] || continue
    for try in 1 2 3 4 5 6 7 8 9 10; do
      ls "$probe" > /dev/null 2>&1
      [ ! -s "$probe/$name" ] || { printf '%s\037yes\n' "$name"; break; }
      sleep 1
    done
  done <<< "$said"
}

# What a cluster has to offer to whoever asks.
show_offers() {
  section host 0
  printf '%s\037%s\037%s\n' "$(id -un)" "$HOME" "$(timeout 5 bash -lc 'printf %s "$SCRATCH"' < /dev/null 2> /dev/null)"
  type -P sbatch > /dev/null || exit 0
  section sbatch 0
  ask partitions sinfo --all --noheader --format="%P$field%l$field%G$field%a"
  show_accounts && ask default sacctmgr --noheader --parsable2 show user "$(id -un)" format=defaultaccount
}
