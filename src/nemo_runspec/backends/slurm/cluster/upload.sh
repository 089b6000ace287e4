# Takes a code package from its input: whole, or not at all.
# COMMAND...: runs it; where it fails, its last words are the answer.
must() {
  local said
  said=`"$@" 2>&1` || { section end 1 "`printf '%s\n' "$said" | tail -n 3`"; exit 0; }
}

folder=${package%/*} scratch=${package%/*}/.${package##*/}.$$.$RANDOM
must mkdir -p "$folder"
umask 077
trap 'rm -f "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
receive() {
  cat > "$scratch" || return
  [ "`wc -c < "$scratch"`" -eq "$size" ] || { echo 'the package did not arrive whole'; return 1; }
}
must receive
must mv -f "$scratch" "$package"
find "$folder" -maxdepth 1 -name '*.tar.gz' -mtime "+$days" -delete 2> /dev/null
section end 0
