# Takes a code package from its input: whole, or not at all.
scratch=$pool/.${package##*/}.$$.$RANDOM
must mkdir -p "$pool"
umask 077
trap 'rm -f "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
receive() {
  cat > "$scratch" || return
  [ "`wc -c < "$scratch"`" -eq "$size" ] || { echo 'the package did not arrive whole'; return 1; }
}
must receive
must mv -f "$scratch" "$package"
prune
section end 0
