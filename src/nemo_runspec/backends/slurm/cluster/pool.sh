# The pool: code packages and programs of ours, by their digests. A job has copies of its own, or links that stay.
# `programs`: a line for each, as sha256sum writes it: DIGEST  NAME. `days`: how long what nobody asks for is kept.
#
# COMMAND...: runs it; where it fails, its last words are the answer.
must() {
  local said
  said=`"$@" 2>&1` || { section end 1 "`printf '%s\n' "$said" | tail -n 3`"; exit 0; }
}

prune() { find "$pool" -maxdepth 1 -type f -mtime "+$days" -delete 2> /dev/null; }

# FILE: it is a file of mine, no link to one: what belongs to somebody else may be changed while a job waits.
mine() { [ -f "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && [ -r "$1" ]; }

# They are all in the pool, by their names. What is in them is looked at where they are taken.
have_programs() {
  local digest name files=()
  [ "$programs" ] || return
  while read -r digest name; do
    mine "$pool/$digest" || return
    files+=("$pool/$digest")
  done <<< "$programs"
  touch -c "${files[@]}"
} 2> /dev/null

# Those in the new directory are what their digests say.
are_right() { (cd "$scratch" && sha256sum -c <<< "$programs") > /dev/null 2>&1; }

# FILE NAME: a second name for it, else a copy, where the file system has none.
also() {
  ln "$1" "$2" && mine "$2" && return
  rm -f "$2"
  cp -p "$1" "$2"
} 2> /dev/null

# From the pool to the new directory.
take_programs() {
  local digest name
  while read -r digest name; do
    also "$pool/$digest" "$scratch/$name" && mine "$scratch/$name" || return
  done <<< "$programs"
  are_right
}

# From the new directory to the pool, in the place of what may be there. Without a pool the next job brings them again.
keep_programs() {
  local digest name new
  [ -d "$pool" ] && are_right || return
  while read -r digest name; do
    new=$pool/.$digest.$$.$RANDOM
    also "$scratch/$name" "$new" && mv -fT "$new" "$pool/$digest" || { rm -f "$new"; return 1; }
  done <<< "$programs"
  prune
} 2> /dev/null
