# What this login node is, and what of a job is there already: its package, our programs, its directory.
package_there=no programs_there=no job_there=no
if [ -n "$package" ] && [ -f "$package" ]; then package_there=yes; touch -c "$package"; fi
if have_programs; then programs_there=yes; fi
[ ! -d "$job" ] || job_there=yes
section found 0
printf '%s\037%s\037%s\037%s\037%s\037%s\037%s\n' "$HOME" "$(id -un)" "$(hostname)" "$package_there" "$programs_there" "$job_there" "$(slurm_name)"
