# shellcheck shell=sh
#@ all more
# after.sh: a run and the executions that are in its way: the one that has the gate, the one that it follows.

# h_after: the execution that this one follows is closed first, in its own witness.
h_after() {
    # shellcheck disable=SC2086 # words are wanted
    set -- $h_q_after
    [ $# -eq 3 ] && h_is id "$1" && h_is witness "$2" || h_refuse request
    case $3 in closed | finished) ;; *) h_refuse request ;; esac
    h_fence "$1" "$2" "$h_token"
    h_sweep_litter
    [ "$h_val" = tried ] || [ "$h_val" = other-witness ] || {
        [ "$h_val" = store-changed ] || h_refuse "$h_val"
        h_say "after state=unknown"
    }
    h_after_state "$1" "$2" "$3"
}

h_after_state() {
    h_find "$1"
    h_adir=${h_dir:-$h_store/x/$2/$1}
    h_dir=$h_store/x/$h_witness/$h_id
    h_state "$h_adir" "$1"
    h_y=$h_st
    h_proven "$h_adir"
    [ "$h_st" = "$h_y" ] || h_refuse sync
    h_field "$h_r_finish" reason
    case $h_st:$3:$h_val in
        fenced:* | lost:* | finished:finished:* | finished:*:not-started) ;;
        *) h_say "after state=$h_st" ;;
    esac
}

# h_taken: somebody has the gate. Comes back if it is nobody.
h_taken() {
    h_state "$h_dir" "$h_id"
    h_proven "$h_dir"
    [ "$h_st" = absent ] || h_say "taken state=$h_st"
}
