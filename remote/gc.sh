# shellcheck shell=sh
#@ all
# gc.sh: removes what was made under witnesses that the journal has closed.

h_gc_verb() {
    h_begin_answer
    if ! h_request || [ -z "$h_q_store" ]; then
        h_error request
    elif ! h_store_open; then
        h_error "$h_why"
    elif ! h_make_dir "$h_store/gone"; then
        h_error "$h_why"
    else
        h_store_line
        h_i=0
        while [ "$h_i" -lt "$h_chunks" ]; do
            h_i=$((h_i + 1))
            eval "h_piece=\$h_ids_$h_i"
            h_each "$h_piece" h_gc_one
        done
    fi
    h_end_answer
}

# h_gc_one WITNESS: renamed away and synced before anything is deleted: a late dispatch finds no witness, and runs nothing.
h_gc_one() {
    h_is witness "$1" || return 0
    h_y=$h_store/x/$1
    if [ -L "$h_y" ]; then
        h_line "kept $1 reason=store-symlink"
        return
    fi
    if [ -d "$h_y" ]; then
        if h_gc_busy "$h_y"; then
            h_line "kept $1 reason=running"
            return
        fi
        h_random
        mv "$h_y" "$h_store/gone/$h_val" && h_sync "$h_store/x" "$h_store/gone" || {
            h_line "kept $1 reason=store"
            return
        }
        rm -rf "$h_store/gone/$h_val"
    fi
    h_line "gone $1"
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
