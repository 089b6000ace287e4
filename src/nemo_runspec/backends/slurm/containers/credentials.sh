# Tells the file's path on the first line, and then what is in it. enroot.conf(5) names the folder.
folder=${ENROOT_CONFIG_PATH:-${XDG_CONFIG_HOME:-$HOME/.config}/enroot}
printf '%s\n' "$folder/.credentials"
if [ -e "$folder/.credentials" ]; then cat -- "$folder/.credentials"; fi
