# Puts a job's files into its directory and starts pod.sh there, as process 1 of a container.
# Arguments: JOB_DIR, "NODES SECONDS", then for each part "KIND DIGEST SIZE WAY COUNT" and COUNT words of its way.
# Without arguments they are the variables NEMOTRON_UPLOAD_0, NEMOTRON_UPLOAD_1, ...
#
# Kubernetes rewrites "$$" and "$(NAME)" in commands and variables, so neither stands here: backquotes, and ((...)) only.
# `stall`: seconds after which a download of under 1 kB/s is given up; `late`: seconds that others wait for node 0.
# `@index@` is the number of this node by the variables that its platform has for it, `@names@` are their names.
# Comments and indentation do not travel, and names are shorter there. A word of any part is at most 100,000 characters, the kernel's limit 131,072.
if [ $# -eq 0 ]; then
  w=() n=0 v=NEMOTRON_UPLOAD_0
  while [ "${!v+x}" ]; do
    w+=("${!v}")
    unset "$v"
    ((n++))
    v=NEMOTRON_UPLOAD_$n
  done
  set -- "${w[@]}"
fi
unset NEMOTRON_BOOT
job=${1-} nodes=${2% *} late=${2#* } a=${NEMOTRON_POD_ATTEMPT:-0} stall=${NEMOTRON_STALL_SECONDS:-60}
i=@index@
[ "$nodes" != 1 ] || i=0
jobs=${job%/*} failed=$job.failed.$a

# CODE WHY: the last words, with the code `r` (script/markers.py); the others need not wait for node 0.
fail() {
  trap '' TERM INT HUP
  printf 'nemotron: %s\nnemotron-end: node=%s attempt='$a' exit_code='$1' phase=start received='$s' lines=1 node_name=%s reason_code='$r' reason=%s\n' "$2" "${i:-0}" "${NEMOTRON_NODE_NAME:-$HOSTNAME}" "$2"
  [ "$i" != 0 ] || { echo "$2" > "$failed."; mv "$failed." "$failed"; }
  rm -rf "$t" "$g"
  exit ${x:-$1}
} 2> /dev/null

# FILE: it is the part, whole.
whole() { [ "`sha256sum < "$1"`" = "$sha  -" ]; }

has() { command -v "$1" > /dev/null; }

need() {
  for n; do has "$n" || r=image fail 1 "the image has no $n, which the job's files need"; done
}

# COMMAND...: one that cannot fail without a word. tar does not say that the disk is full: writing does.
try() {
  e=`"$@" 2>&1` && return
  [ ! -d "$t" ] || q=`printf %9999s 2>&1 > "$t/.part"`
  fail 1 "$1 failed: ${q:-${e%%$'\n'*}}"
}

# URL FILE
download() {
  if has curl; then
    printf 'url = "%s"\n' "$1" | curl -fsS --retry 5 --connect-timeout 30 -Y 1000 -y "$stall" -o "$2" -K -
  elif has wget; then
    wget -qt5 -T "$stall" -O "$2" "$1"
  elif has python3; then
    printf %s "$1" | python3 -c 'import shutil,sys,urllib.request as u;shutil.copyfileobj(u.urlopen(sys.stdin.read(),timeout=int(sys.argv[2])),open(sys.argv[1],"wb"))' "$2" "$stall"
  else
    r=image fail 1 "the image has no curl, wget or python3"
  fi
}

# URL FILE: as often as makes sense.
fetch() {
  for n in 0 1 2; do
    sleep $n
    e=`download "$1" "$2" 2>&1` && whole "$2" && return
    case $e in nemotron:*) echo "$e"; exit 9 ;; esac
  done
  rm -f "$2"
  e=${e##*$'\n'}
  fail 1 "the $kind package cannot be downloaded: ${e:-no or a wrong answer}"
}

# URL COMMIT COMMIT:FOLDER TREE: a token is read by git's helper from the environment, and nothing ever asks.
checkout() {
  need git
  g=$t/.git
  export GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=true
  try git init -q "$g"
  try git -C "$g" -c http.lowSpeedLimit=1000 -c "http.lowSpeedTime=$stall" -c credential.helper= -c credential.helper='!f() { [ -z "$GIT_TOKEN" ] || printf "username=x-access-token\npassword=%s\n" "$GIT_TOKEN"; }; f' fetch -q --depth 1 "$1" "$2"
  [ "`git -C "$g" rev-parse "$3"`" = "$4" ] || fail 1 "commit $2 is not what was planned"
  git -C "$g" archive "$3" | tar -xof - -C "$to" || fail 1 "the code cannot be unpacked"
  rm -rf "$g"
}

# KIND DIGEST SIZE WAY COUNT WORD...
part() {
  kind=$1 sha=$2 to=$t way=$4
  file=$pool/$sha.tar.gz
  [ $kind != code ] || to=$t/code
  try mkdir -p "$to"
  shift 5
  case $way in
    git) checkout "$@"; return ;;
    inline)
      need base64
      file=$t/.part
      e=`{ printf %s "$@" | base64 -d > "$file"; } 2>&1`
      ;;
    s3)
      p=$file.partial.${job##*/}
      whole "$file" || { fetch "$1" "$p"; try mv -f "$p" "$file"; }
      ;;
    *) [ -f "$file" ] || fail 1 "the $kind package is not at $file: does run_dir_here name the same directory?" ;;
  esac 2> /dev/null
  whole "$file" || fail 1 "the $kind package did not arrive whole${e:+: $e}"
  try tar -xzof "$file" -C "$to"
  rm -f "$t/.part"
}

stage() {
  trap - TERM INT HUP
  set -o pipefail
  x=9
  pool=${jobs%/*}/packages
  need tar gzip sha256sum
  try mkdir -p "$jobs" "$pool"
  rm -rf "$job".partial.* "$failed"
  [ ! -e "$job" ] || fail 1 "$job is there already, and holds no job"
  try mkdir -m 700 "$t"
  shift 2
  while [ $# -gt 0 ]; do
    set -- $1 "${@:2}"
    part "${@:1:5+$5}"
    shift $5
    shift 5
  done
  try mv "$t" "$job"
}

# NAME: for the command, which comes later; or the end: 128 + its number, as everywhere (jobside/signals.py).
told() {
  case $1 in U*) nemotron_early+=" $1" && return ;; esac
  kill -- -$! 2> /dev/null
  ((n = 128 + `kill -l $1`))
  s=$1 r= fail $n "the job was told to stop (SIG$1) before it had started"
}

for n in TERM INT HUP USR1 USR2; do trap "told $n" $n; done
case $i in '' | *[!0-9]*) fail 1 "nothing says which of $nodes nodes this is: no @names@" ;; esac
r=files
if [ ! -f "$job/pod.sh" ] && [ "$i" = 0 ]; then
  t=$job.partial.$BASHPID
  set -m
  stage "$@" &
  set +m
  while wait $!; n=$?; kill -0 $!; do :; done 2> /dev/null
  [ $n != 9 ] || exit 1
  [ $n = 0 ] || [ -f "$job/pod.sh" ] || fail 1 "fetching the job's files ended with status $n"
fi
until [ -f "$job/pod.sh" ]; do
  [ ! -f "$failed" ] || r= fail 1 "node 0 failed: `cat "$failed"`"
  [ $SECONDS -lt $late ] || fail 1 "node 0 has put no job to $job in $late s: do all nodes see it?"
  sleep 1
  ls "$jobs" > /dev/null 2>&1
done
. "$job/pod.sh"
