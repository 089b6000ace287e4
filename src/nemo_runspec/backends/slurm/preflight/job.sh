# Asks compute nodes, by a job of a minute, what only they can see. `given` are srun's options, `limit` its seconds;
# `commands` come before python is looked for, which is not done without any, and may take `patience` seconds.
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
