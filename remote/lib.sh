# shellcheck shell=sh
#@ all front super
# lib.sh: words that every verb uses: settings, writing without an external program, records.
#
# Names of functions and variables begin with h_; there are no local variables (ksh93 has none in these functions), so a function
# that returns a value names the variable in its comment. Nothing here runs when the file is read; main.sh makes the one call.

# h_init STORE SHA NONCE: settings of this shell. The caller's locale is kept for the command, ours is bytes.
h_init() {
    set -uf
    h_store=$1 h_sha=$2 h_nonce=$3
    h_nl='
'
    h_lc_set=${LC_ALL+yes} h_lc=${LC_ALL-}
    LC_ALL=C
    h_use_print
    [ "$h_store" != - ] || h_store=${HOME:+$HOME/.local/state/harness-markers}
    # a request may name another store; the wrapper lies where the exec string found it
    h_bin=$h_store/bin
    h_lines=0 h_why=internal h_litter=
    h_id='' h_witness='' h_token='' h_q_store='' h_ids='' h_chunks=0 h_in_chunk=0
}

# h_locale: the caller's locale again, in a subshell that becomes another program.
h_locale() {
    if [ -n "$h_lc_set" ]; then LC_ALL=$h_lc; else unset LC_ALL; fi
}

# h_use_print: chooses a *builtin* that writes its argument as it is: nothing secret may become the argv of another program.
# With a PATH that holds nothing, only a builtin `print` is found (a program of that name exists on some hosts).
h_use_print() {
    h_path=${PATH-/usr/bin:/bin}
    # shellcheck disable=SC2123 # the search path is meant
    PATH=/-
    if command -v print >/dev/null 2>&1; then
        h_put() { print -rn -- "$1"; }
    else
        h_put() { printf %s "$1"; }
    fi
    PATH=$h_path
}

# h_field RECORD KEY: h_val is the value, `-` where the key is missing.
h_field() {
    case $1 in
        *" $2="*) h_val=${1#*" $2="} h_val=${h_val%% *} ;;
        *) h_val=- ;;
    esac
}

# h_is KIND VALUE: whether the value is of its alphabet.
h_is() {
    case $1 in
        id)
            case $2 in act_*) h_x=${2#act_} ;; *) return 1 ;; esac
            [ "${#h_x}" -eq 26 ] && case $h_x in *[!0-9A-Z]*) false ;; esac
            ;;
        hex) [ "${#2}" -eq 32 ] && case $2 in *[!0-9a-f]*) false ;; esac ;;
        witness) [ "${#2}" -le 100 ] && case $2 in '' | *[!A-Za-z0-9_]*) false ;; esac ;;
        journal) [ "${#2}" -le 40 ] && case $2 in '' | *[!A-Za-z0-9]*) false ;; esac ;;
        number) [ "${#2}" -le 15 ] && case $2 in '' | *[!0-9]*) false ;; esac ;;
        seconds) [ "${#2}" -le 15 ] && case $2 in '' | .* | *. | *[!0-9.]* | *.*.*) false ;; esac ;;
        *) false ;;
    esac
}

# h_record FILE KIND: h_rec is the line. Returns 1 for a damaged record, 2 where there is no such file.
# A shell drops NUL bytes while it reads; the file offset afterwards tells (fdinfo, no fork).
h_record() {
    h_rec=
    [ -e "$1" ] || [ -L "$1" ] || return 2
    [ -f "$1" ] && [ ! -L "$1" ] || return 1
    {
        IFS= read -r h_rec <&8 && h_offset 8 && h_more='' && ! IFS= read -r h_more <&8 && [ -z "$h_more" ]
    } 8<"$1" || return 1
    [ "$h_pos" = - ] || [ "$h_pos" -eq $((${#h_rec} + 1)) ] || return 1
    [ "${#h_rec}" -lt 4096 ] || return 1
    case $h_rec in *[!\ -~]*) return 1 ;; esac
    case $h_rec in "1 $2 "*" end") ;; *) return 1 ;; esac
}

# h_offset FD: h_pos is the file offset of our descriptor, `-` where the kernel does not tell.
h_offset() {
    h_pos=-
    { read -r h_x h_pos; } </proc/self/fdinfo/"$1" || h_pos=-
    case $h_pos in '' | *[!0-9]*) h_pos=- ;; esac
    return 0
}

# h_write FILE TEXT: makes FILE, which must not exist, with TEXT and a newline. 1 where that fails, with h_why.
h_write() {
    set -C
    h_put "$2$h_nl" >"$1"
    h_rc=$?
    set +C
    [ "$h_rc" -eq 0 ] || h_explain "${1%/*}"
    return "$h_rc"
}

# h_explain DIRECTORY: h_why says why something could not be made there.
h_explain() {
    if [ ! -d "$1" ]; then
        h_why=store
    elif [ ! -w "$1" ]; then
        h_why='readonly'
    else
        # a disk that failed may still be called writable
        h_x=$(LC_ALL=C mkdir "$1/t.$h_nonce" 2>&1 && rm -rf "$1/t.$h_nonce")
        case $h_x in *Read-only*) h_why='readonly' ;; *) h_why=space ;; esac
    fi
}

# h_size FILE: h_val is its size, `-` where there is none, or where nobody could count it: a `wc` that is killed says nothing, and nothing is not 0.
h_size() {
    h_val=-
    if [ -s "$1" ]; then
        h_val=$(wc -c <"$1") || h_val=$(wc -c <"$1") || h_val=-
        [ "$h_val" = - ] || h_val=$((h_val))
    elif [ -f "$1" ]; then
        h_val=0
    fi
}
