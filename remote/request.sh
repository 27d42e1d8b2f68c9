# shellcheck shell=sh
#@ all super
# request.sh: reads a request from stdin (README section 4). Nothing is done before its end word.

# h_request: reads one whole request into variables. 1: cut, or not understood; nothing was changed.
# Leaves h_id h_witness h_token h_q_* and h_s_SECTION (code), and the lists h_ids_1 ... h_ids_N of at most 50 lines each (h_chunks = N).
h_request() {
    h_q_stdin='' h_q_timeout='' h_q_grace=5 h_q_after='' h_q_path='' h_q_journal='' h_q_out=0 h_q_err=0 h_q_wait=no h_q_hold=no
    h_q_mode='' h_q_max=100 h_s_command='' h_s_env='' h_s_cwd='' h_s_verify=''
    h_request_begin || return 1
    while [ "$h_left" -gt 0 ]; do
        IFS= read -r h_l || return 1
        h_left=$((h_left - 1))
        case $h_l in
            "section "*" "*) h_section "${h_l#section }" || return 1 ;;
            *" "*) h_key "${h_l%% *}" "${h_l#* }" || return 1 ;;
            *) return 1 ;;
        esac
    done
    IFS= read -r h_l || return 1
    [ "$h_l" = "@$h_nonce end" ] || return 1
    h_chunk_close
    [ -z "$h_q_path" ] || h_store=$h_q_path
}

# h_request_begin: skips padding up to the line with our nonce; h_left is the number of lines.
h_request_begin() {
    h_skip=0
    while IFS= read -r h_l; do
        case $h_l in
            "@$h_nonce request "*)
                h_left=${h_l#"@$h_nonce request "}
                h_is number "$h_left"
                return
                ;;
        esac
        h_skip=$((h_skip + 1))
        [ "$h_skip" -lt 200 ] || return 1
    done
    return 1
}

# h_section "NAME N": N raw lines of code. They are gathered in pieces, so that long ones do not cost their square.
h_section() {
    h_name=${1%% *} h_n=${1#* }
    h_is number "$h_n" && [ "$h_n" -le "$h_left" ] || return 1
    h_left=$((h_left - h_n)) h_code='' h_piece='' h_in_piece=0
    while [ "$h_n" -gt 0 ]; do
        IFS= read -r h_l || return 1
        h_n=$((h_n - 1)) h_in_piece=$((h_in_piece + 1))
        h_piece=$h_piece$h_l$h_nl
        [ "$h_in_piece" -lt 64 ] || { h_code=$h_code$h_piece; h_piece='' h_in_piece=0; }
    done
    h_code=$h_code$h_piece
    case $h_name in
        command) h_s_command=$h_code ;;
        env) h_s_env=$h_code ;;
        cwd) h_s_cwd=$h_code ;;
        verify) h_s_verify=$h_code ;;
        *) return 1 ;;
    esac
    h_code='' h_piece=''
}

# h_key KEY VALUE: one line of the request. 1: not understood.
h_key() {
    case $1 in
        store) h_is hex "$2" && h_q_store=$2 ;;
        path) h_decode "$2" && h_q_path=$h_val ;;
        witness) h_is witness "$2" && h_witness=$2 && h_list "$2" ;;
        journal) h_is journal "$2" && h_q_journal=$2 ;;
        id) h_list "$2" && h_id=${2%% *} && h_is id "$h_id" ;;
        token) h_is hex "$2" && h_token=$2 ;;
        stdin) h_is number "$2" && h_q_stdin=$2 ;;
        # the exec string of install has counted them
        bytes) h_is number "$2" ;;
        timeout) h_is seconds "$2" && h_q_timeout=$2 ;;
        grace) h_is seconds "$2" && h_q_grace=$2 ;;
        after) h_q_after=$2 ;;
        out) h_is number "$2" && h_q_out=$2 ;;
        err) h_is number "$2" && h_q_err=$2 ;;
        max) h_is number "$2" && h_q_max=$2 ;;
        wait) case $2 in yes | no) h_q_wait=$2 ;; *) false ;; esac ;;
        hold) case $2 in yes | no) h_q_hold=$2 ;; *) false ;; esac ;;
        mode) case $2 in stop | fence) h_q_mode=$2 ;; *) false ;; esac ;;
        # one byte above 127: a shell that cannot hold such bytes in a variable would change the arguments without a word
        eight) [ "${#2}" -eq 1 ] ;;
        *) false ;;
    esac
}

# h_list TEXT: adds a line to the list in hand; full pieces become h_ids_N.
h_list() {
    h_ids=$h_ids$1$h_nl
    h_in_chunk=$((h_in_chunk + 1))
    [ "$h_in_chunk" -lt 50 ] || h_chunk_close
}

h_chunk_close() {
    [ -n "$h_ids" ] || return 0
    h_chunks=$((h_chunks + 1))
    eval "h_ids_$h_chunks=\$h_ids"
    h_ids='' h_in_chunk=0
}

# h_decode PATH: h_val is the path with its %ooo undone; 1 if it is no absolute path in that form.
h_decode() {
    case $1 in /*) ;; *) return 1 ;; esac
    case $1 in *[!A-Za-z0-9/._+@,:%-]*) return 1 ;; esac
    h_rest=$1 h_val=
    while :; do
        case $h_rest in
            *%*) h_val=$h_val${h_rest%%\%*}\\0; h_rest=${h_rest#*\%} ;;
            *) break ;;
        esac
        case $h_rest in [0-3][0-7][0-7]*) ;; *) return 1 ;; esac
    done
    h_val=$h_val$h_rest
    case $h_val in *\\*) ;; *) return 0 ;; esac
    # the dot keeps a newline at the end
    h_val=$(printf '%b.' "$h_val")
    h_val=${h_val%.}
}
