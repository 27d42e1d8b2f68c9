# shellcheck shell=sh
#@ all more
# report.sh: answers. Every line is counted; only executions that were asked for are named.

h_begin_answer() {
    h_put "$h_nl@$h_nonce begin answer$h_nl"
}

h_end_answer() {
    h_put "@$h_nonce answer $h_lines end$h_nl"
}

# h_line TEXT: one line of an answer.
h_line() {
    h_lines=$((h_lines + 1))
    h_put "$1$h_nl"
}

# h_error REASON: the verb as a whole could not be done.
h_error() {
    h_line "error reason=$1"
}

# h_report_all: tells of every execution of the request's list, piece by piece.
h_report_all() {
    h_i=0
    while [ "$h_i" -lt "$h_chunks" ]; do
        h_i=$((h_i + 1))
        eval "h_piece=\$h_ids_$h_i"
        h_report_piece "$h_piece"
    done
}

# h_report_piece LINES: each line is `ID`, `ID WITNESS` or `ID WITNESS TOKEN`. Fences are synced before any is told.
h_report_piece() {
    h_fences=
    h_each "$1" h_note_fence
    h_synced=yes
    if [ -n "$h_fences" ]; then
        # shellcheck disable=SC2086 # our own names, made of safe characters only
        (cd "$h_store" && h_sync $h_fences x) || h_synced=no
    fi
    h_each "$1" h_report
}

# h_each LINES FUNCTION: calls FUNCTION ID WITNESS TOKEN for each line.
h_each() {
    h_f=$2
    h_todo=$1
    while [ -n "$h_todo" ]; do
        h_l=${h_todo%%"$h_nl"*}
        h_todo=${h_todo#*"$h_nl"}
        # shellcheck disable=SC2086 # words are wanted
        "$h_f" $h_l - -
    done
}

# h_place ID WITNESS: h_dir is the directory to look in, h_at its witness. h_said is `witness` where the one that was named is in the store:
# only then does absent mean that it never started in this store.
h_place() {
    h_dir='' h_at=-
    h_said=none
    if [ "$2" != - ]; then
        if h_has_witness "$2"; then h_at=$2 h_said=witness; fi
        h_dir=$h_store/x/$2/$1
        [ ! -e "$h_dir/start" ] && [ ! -L "$h_dir/start" ] || return 0
        h_kept=$h_at
        h_find "$1"
        [ -n "$h_dir" ] || h_at=$h_kept
    else
        h_find "$1"
    fi
    [ -n "$h_dir" ] || h_dir=$h_store/x/-/$1
}

h_note_fence() {
    h_place "$1" "$2"
    h_record "$h_dir/start" start || return 0
    case $h_rec in *" kind=fence "*) h_fences="$h_fences x/$h_at/$1/start x/$h_at/$1 x/$h_at" ;; esac
}

# h_report ID WITNESS: the lines about one execution.
h_report() {
    h_place "$1" "$2"
    h_state "$h_dir" "$1"
    if [ "$h_st" = fenced ] && [ "$h_synced" = no ]; then
        h_st=unknown h_proof=sync
    fi
    [ "$h_st" != finished ] || h_proven "$h_dir"
    h_size "$h_dir/out"
    h_out=$h_val
    h_size "$h_dir/err"
    h_line "marker $1 $h_st witness=$h_at out=$h_out err=$h_val proof=$h_said how=$h_proof"
    [ "$h_st" != absent ] || return 0
    [ -z "$h_r_start" ] || h_line "start $h_r_start"
    [ -z "$h_r_ended" ] || h_line "ended $h_r_ended"
    [ -z "$h_r_finish" ] || h_line "finish $h_r_finish"
    if h_record "$h_dir/digest" digest; then h_line "digest $h_rec"; elif [ -s "$h_dir/digest" ]; then h_bad="$h_bad digest"; fi
    for h_x in $h_bad; do h_report_damage "$h_x"; done
}

h_report_damage() {
    h_size "$h_dir/$1"
    # a pipe in the place of a record would hold us
    # shellcheck disable=SC2046 # two numbers
    set -- "$1" "$h_val" $([ ! -f "$h_dir/$1" ] || cksum <"$h_dir/$1" 2>/dev/null)
    h_line "damaged $1 size=$2 cksum=${3:--}"
}
