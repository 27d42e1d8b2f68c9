# shellcheck shell=sh
# gc.sh: removes what was made under witnesses that the journal has closed.

h_gc_verb() {
    h_begin_answer
    if ! h_request || [ -z "$h_q_store" ]; then
        h_error request
    elif ! h_store_open; then
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
