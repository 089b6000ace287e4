# Makes the job directory: package and programs from the pool, everything else from the input. Whole, or not at all.
parent=${job%/*} name=${job##*/}
if [ -d "$job" ]; then section end 0; exit 0; fi

# Whoever waits for the jobs' secrets to be of no more use: it outlives this connection, and holds nothing of it.
keep_secrets() {
  [ "$keeper" ] || return 0
  setsid nohup bash -c "$keeper" nemotron-secrets "$parent" "$pause" "$rounds" < /dev/null > /dev/null 2>&1 &
}
[ -z "$store" ] || must mkdir -p -- "$store"
must mkdir -p "$parent"
[ -z "$sent" ] || mkdir -p "$pool" 2> /dev/null
umask 077
rm -rf -- "$parent/.$name."*   # of a submission that was cut off
scratch=$parent/.$name.$$.$RANDOM
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
must mkdir "$scratch" "$scratch/code"
# FILE...: wiped away since it was looked for: whoever sends this is told, and sends it too.
missing() {
  section missing 0 "$*"
  exit 0
}
[ -z "$package" ] || [ -f "$package" ] || missing "$package"
[ -z "$package" ] || must tar -x -z -p -o -f "$package" -C "$scratch/code"
must tar -x -p -o -m -f - -C "$scratch" # times are this machine's, whatever clock the sender has
whole() { rm "$scratch/.whole" 2> /dev/null || { echo "they did not arrive whole"; return 1; }; }
must whole
if [ "$sent" ]; then keep_programs; else take_programs || missing programs; fi
move() { mv -T "$scratch" "$job" || [ -d "$job" ]; }
must move
keep_secrets
section end 0
