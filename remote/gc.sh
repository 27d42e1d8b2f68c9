# shellcheck shell=sh
#@ all
# gc.sh: removes what was made under witnesses that the journal has closed; or tells which witnesses of a journal are here.

h_gc_verb() {
    h_begin_answer
    if ! h_request || [ -z "$h_q_store" ]; then
        h_error request
    elif ! h_opened; then
        h_error "$h_why"
    elif [ -n "$h_q_journal" ]; then
        h_store_line
        h_gc_list
    elif ! h_make_dir "$h_store/gone"; then
        h_error "$h_why"
    else
        h_store_line
        h_where
        h_gc_sweep
        h_i=0
        while [ "$h_i" -lt "$h_chunks" ]; do
            h_i=$((h_i + 1))
            eval "h_piece=\$h_ids_$h_i"
            h_gc_piece "$h_piece"
        done
    fi
    h_end_answer
}

# h_gc_list: the journal's witnesses that are here, and whether anything was begun under them.
h_gc_list() {
    set +f
    for h_z in "$h_store/x/$h_q_journal"_*; do
        [ -d "$h_z" ] && h_is witness "${h_z##*/}" || continue
        h_val=empty
        for h_y in "$h_z"/act_*; do
            [ ! -e "$h_y" ] || h_val=used
            break
        done
        h_line "witness ${h_z##*/} $h_val"
    done
    set -f
}

# h_gc_piece LINES: renamed away and synced before anything is deleted: a late dispatch finds no witness, and runs nothing. One sync a piece; it is
# made also where nothing is left to rename, since who did that may have been cut off before its own.
h_gc_piece() {
    h_away=''
    h_each "$1" h_gc_look
    h_random
    h_into=$h_store/gone/$h_boot.$h_val
    h_synced=yes
    # shellcheck disable=SC2086 # our own names, made of safe characters only
    mkdir "$h_into" && { [ -z "$h_away" ] || (cd "$h_store/x" && mv $h_away "$h_into"); } 2>/dev/null
    h_sync "$h_store/x" "$h_into" "$h_store/gone" || h_synced=no
    h_each "$1" h_gc_tell
    [ "$h_synced" = no ] || rm -rf "$h_into"
}

# h_gc_look WITNESS: adds it to h_away if it can go.
h_gc_look() {
    h_y=$h_store/x/$1
    h_is witness "$1" && [ ! -L "$h_y" ] && [ -d "$h_y" ] && ! h_gc_busy "$h_y" || return 0
    h_away="$h_away $1"
}

# h_gc_tell WITNESS: what became of it.
h_gc_tell() {
    h_is witness "$1" || return 0
    h_y=$h_store/x/$1
    if [ -L "$h_y" ]; then
        h_line "kept $1 reason=store-symlink"
    elif [ -e "$h_y" ]; then
        case " $h_away " in *" $1 "*) h_line "kept $1 reason=store" ;; *) h_line "kept $1 reason=running" ;; esac
    elif [ "$h_synced" = no ]; then
        h_line "kept $1 reason=sync"
    else
        h_line "gone $1"
    fi
}

# h_gc_sweep: what a gc of an earlier boot was cut off from deleting. What this boot renamed may not be on disk yet, and another gc may be at it.
h_gc_sweep() {
    [ "$h_boot" != - ] && [ "${h_shared-}" = no ] || return 0
    set +f
    for h_z in "$h_store"/gone/*; do
        case ${h_z##*/} in "$h_boot".* | '*') ;; *) rm -rf "$h_z" ;; esac
    done
    set -f
}

# h_gc_busy DIRECTORY: whether a supervisor lives in it.
h_gc_busy() {
    set +f
    for h_z in "$1"/*/start; do
        [ -e "$h_z" ] && [ ! -e "${h_z%/start}/finish" ] || continue
        h_record "$h_z" start || continue
        h_r_start=$h_rec
        h_alive "${h_z%/start}"
        if [ "$h_val" = yes ] || [ "$h_val" = unknown ]; then
            set -f
            return 0
        fi
    done
    set -f
    return 1
}
