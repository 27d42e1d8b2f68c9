"""The readers of the markers, function by function: what happens to a file between two of their looks cannot be arranged from outside."""

from __future__ import annotations

import subprocess

import pytest

from harness.wrapper import wrapper_text
from tests.wrapper.host import Host, new_id

MOVES = {
    "between the looks": 'h_field() { [ ! -e "$d/f.$t" ] || mv "$d/f.$t" "$d/finish"; h_val=$t; }',
    "while it is opened": (
        'h_record() { h_rec=; [ -e "$1" ] || return 2; case $1 in */f.*) mv "$1" "$d/finish"; return 1 ;; esac;'
        ' IFS= read -r h_rec <"$1"; }'
    ),
}


@pytest.mark.parametrize("when", MOVES)
def test_a_finish_that_is_renamed_while_it_is_looked_for_is_found(every: Host, when: str) -> None:
    every.run(["true"], identifier := new_id())
    every.settle(identifier)
    place = every.directory(identifier)
    token = (place / "start").read_text().split(" token=")[1].split(" ")[0]
    (place / "finish").rename(place / f"f.{token}")
    script = (
        f"{wrapper_text().decode()}\nset -u\nd='{place}' t={token} h_nl='\n'\n{MOVES[when]}\n"
        'h_r_start=" token=$t " h_r_finish= h_bad= h_torn=no\nh_load_finish "$d"; echo "$h_torn$h_bad $h_r_finish"'
    )
    told = subprocess.run(
        [str(every.bin / "sh"), "-s"], input=script, env=every.env, capture_output=True, check=True, text=True
    )
    assert told.stdout.startswith("no 1 finish "), told
