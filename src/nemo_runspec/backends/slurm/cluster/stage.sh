# Makes the job directory: the package from its place, everything else from the input. Whole, or not at all.
# COMMAND...: runs it; where it fails, its last words are the answer.
must() {
  local said
  said=`"$@" 2>&1` || { section end 1 "`printf '%s\n' "$said" | tail -n 3`"; exit 0; }
}

parent=${job%/*} name=${job##*/}
if [ -d "$job" ]; then section end 0; exit 0; fi

# Whoever waits for the jobs' secrets to be of no more use: it outlives this connection, and holds nothing of it.
keep_secrets() {
  [ "$keeper" ] || return 0
  setsid nohup bash -c "$keeper" nemotron-secrets "$parent" "$pause" "$rounds" < /dev/null > /dev/null 2>&1 &
}
[ -z "$store" ] || must mkdir -p -- "$store"
must mkdir -p "$parent"
umask 077
rm -rf -- "$parent/.$name."*   # of a submission that was cut off
scratch=$parent/.$name.$$.$RANDOM
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
must mkdir "$scratch" "$scratch/code"
[ -z "$package" ] || must tar -x -z -p -o -f "$package" -C "$scratch/code"
must tar -x -p -o -m -f - -C "$scratch" # times are this machine's, whatever clock the sender has
whole() { rm "$scratch/.whole" 2> /dev/null || { echo "they did not arrive whole"; return 1; }; }
must whole
move() { mv -T "$scratch" "$job" || [ -d "$job" ]; }
must move
keep_secrets
section end 0
