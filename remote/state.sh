# shellcheck shell=sh
#@ all more
# state.sh: what the markers of one execution say, and whether anything of it is alive (README section 6).

# h_state DIRECTORY ID: h_st is the state, h_proof how it is known; h_r_start, h_r_ended, h_r_finish the records, h_bad the files that
# cannot be read. Answers `fenced` for a fence that may not be on disk yet: who reports it syncs it first.
h_state() {
    h_st=absent h_proof=none h_r_start='' h_r_ended='' h_r_finish='' h_bad='' h_torn=no
    h_load "$1" start
    [ -n "$h_r_start$h_bad" ] || return 0
    h_load "$1" ended
    h_load_finish "$1"
    h_proof=record
    h_field "$h_r_start" id
    if [ -n "$h_bad" ] || [ "$h_val" != "$2" ]; then
        h_st=damaged
        return 0
    fi
    h_field "$h_r_start" kind
    case $h_val in
        fence) h_st=fenced ;;
        run) if [ -n "$h_r_finish" ]; then h_st=finished; else h_unfinished "$1" "$2"; fi ;;
        *) h_st=damaged ;;
    esac
}

# h_load DIRECTORY NAME: h_r_NAME is the record, or h_bad grows.
h_load() {
    h_record "$1/$2" "$2"
    case $? in
        0) eval "h_r_$2=\$h_rec" ;;
        1) if [ -e "$1/$2" ] || [ -L "$1/$2" ]; then h_bad="$h_bad $2"; fi ;;
    esac
}

# h_load_finish DIRECTORY: the same for `finish`, which lies under f.TOKEN at first, blank until the end. It may be renamed between our looks at
# the two names: where f.TOKEN is gone `finish` is looked at again.
h_load_finish() {
    h_load "$1" finish
    case $h_r_finish:$h_bad in ?*:* | *finish*) return 0 ;; esac
    h_field "$h_r_start" token
    h_early=$1/f.$h_val
    if h_record "$h_early" finish; then
        h_r_finish=$h_rec
    elif [ ! -e "$h_early" ]; then
        h_load "$1" finish
    else
        case $h_rec in ' '* | '') ;; *) h_torn=yes ;; esac
    fi
}

# h_unfinished DIRECTORY ID: a run without finish. A verdict of death is checked against finish once more: it may have landed in between.
h_unfinished() {
    h_alive "$1"
    h_sup=$h_val
    if [ "$h_sup" = yes ]; then
        h_st=running
        return 0
    fi
    h_load_finish "$1"
    h_load "$1" ended
    if [ -n "$h_r_finish" ]; then
        h_st=finished h_proof=record
    elif [ -n "$h_bad" ] || [ "$h_torn" = yes ]; then
        h_st=damaged
    elif [ -n "$h_r_ended" ]; then
        h_st=ended
    elif ! h_shut "$1" "$2"; then
        h_dead "$1" "$2"
    fi
}

# h_dead DIRECTORY ID: the supervisor does not live here. What is known of the command?
h_dead() {
    h_where
    h_field "$h_r_start" boot
    h_was_boot=$h_val
    h_field "$h_r_start" pidns
    if [ "$h_boot" = - ] || [ "$h_was_boot" = - ]; then
        h_st=unknown h_proof=boot
    elif [ "$h_boot" != "$h_was_boot" ]; then
        # another boot: of this machine if no other can have the store
        h_proof=boot
        if [ "$h_shared" = no ] || [ "$h_shared" = layer ]; then h_st=lost; else h_st=elsewhere; fi
    elif [ "$h_val" != "$h_ns" ] && [ "$h_shared" != layer ]; then
        h_st=elsewhere h_proof=pidns
    elif [ "$h_sup" = unknown ]; then
        h_st=unknown h_proof=fifo
    elif h_carried "$2"; then
        h_st=orphaned h_proof=environ
    elif h_field "$h_r_start" token && h_job_of "$1" "$h_val"; then
        h_st=orphaned h_proof=pid
    else
        h_st=lost h_proof=all
        # who died before it took `go` ran nothing, and with `go` in our hand nothing can run any more
        h_stat self
        ! h_take_go "$1" "$h_pid.$h_began" finder || h_shut "$1" "$2"
    fi
}

# h_alive DIRECTORY: h_val is yes, no or unknown: does the supervisor live? It holds the FIFO a.TOKEN open until it dies, which the kernel
# knows: through /proc in this pid namespace, by an open that does not wait in any.
h_alive() {
    h_proof=fd
    h_field "$h_r_start" token
    h_fifo=$1/a.$h_val
    h_field "$h_r_start" pid
    if [ "/proc/$h_val/fd/7" -ef "$h_fifo" ]; then
        h_val=yes
        return 0
    fi
    h_proof=fifo
    if [ ! -p "$h_fifo" ]; then
        # removed after finish, or never made durable: no supervisor of this boot holds it
        h_val=no
    elif h_fifo_open "$h_fifo"; then
        h_val=yes
    elif h_stat "$h_val" && h_field "$h_r_start" began && [ "$h_val" = "$h_began" ] && [ "$h_state1" != Z ]; then
        # the methods disagree
        h_val=unknown
    else
        h_val=no
    fi
}

# h_fifo_open FIFO: whether some process has it open. GNU dd can open without waiting; else half a second of waiting decides.
h_fifo_open() {
    case $h_fifom in
        dd) dd if=/dev/null of="$1" oflag=nonblock conv=nocreat,notrunc ;;
        *) timeout "$h_half" sh -c ': >"$1"' sh "$1" ;;
    esac 2>/dev/null
}

# h_find ID: h_dir is where that execution has a start marker, whatever its witness, with h_at; empty where it has none.
h_find() {
    h_dir='' h_at=-
    set +f
    for h_x in "$h_store"/x/*/"$1"/start; do
        [ -e "$h_x" ] || [ -L "$h_x" ] || continue
        h_dir=${h_x%/start}
        h_at=${h_dir%/*} h_at=${h_at##*/}
    done
    set -f
}
