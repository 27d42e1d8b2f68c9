"""Reads OpenSSH client configuration: which values hold for one host.

The rules are those of ssh_config(5): the first value of a keyword wins (identities and certificates add up), `Host` and `Match` blocks,
`Include`, a second pass where `Match final` is used. A condition that we would have to run or look up to decide is refused, not guessed.
"""

from __future__ import annotations

import difflib
import glob
import grp
import os
import pwd
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.adapters.known_hosts import pattern_list_match
from harness.adapters.ssh_files import ABSENT, read_regular
from harness.ports import RequestError

_LINE: Final = re.compile(r'\s*"?([A-Za-z0-9]+)"?(?:\s*=\s*|\s+|$)(.*)', re.DOTALL)
_RAW: Final = frozenset({"proxycommand", "knownhostscommand", "remotecommand", "localcommand"})
_ADD_UP: Final = frozenset({"identityfile", "certificatefile"})
_INCLUDE_DEPTH: Final = 16
_BLOCKS: Final = ("host", "match", "include")
# Keywords of older releases that look like others and are none of them.
_OLD: Final = frozenset({"identityfile2", "userknownhostsfile2", "globalknownhostsfile2", "usersh"})
_ALIKE: Final = 0.8


@dataclass(frozen=True, slots=True)
class Source:
    """One configuration file: where its relative includes live, whether it must be there and be ours alone to write."""

    path: str
    folder: str
    required: bool = False
    private: bool = True


@dataclass(slots=True)
class Answers:
    """Keyword (lower case) to its words, and to the place that set it."""

    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def put(self, keyword: str, words: Sequence[str], place: str) -> None:
        """Takes a value unless there is one; identities and certificates add up, each once."""
        if keyword in _ADD_UP:
            old = self.values.get(keyword, ())
            self.values[keyword] = old + tuple(word for word in words if word not in old)
        else:
            # Of ProxyJump and ProxyCommand the first that is named decides for both.
            rival = {"proxyjump": "proxycommand", "proxycommand": "proxyjump"}.get(keyword, keyword)
            if rival in self.values:
                return
            self.values.setdefault(keyword, tuple(words))
        self.places.setdefault(keyword, place)

    def first(self, keyword: str) -> str | None:
        """The value of a keyword with one word; None where nothing was said."""
        words = self.values.get(keyword)
        return words[0] if words else None


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked: the name as it was typed, and who asks. `decide`: the keywords (lower case) that count for the one who asks."""

    name: str
    local_user: str
    decide: tuple[str, ...] = ()


def read(sources: Sequence[Source], query: Query, given: Answers) -> Answers:
    """`given` (what the command line said) and what the files add to it. Raises RequestError for a file that cannot be used."""
    first = _Reader(query, given, host=query.name, final=False)
    for source in sources:
        first.file(source, active=True, depth=0)
    if first.wants_final:
        # As ssh: the second pass matches Host against what the first one found, and cannot change it.
        host = first.host_name().lower()
        given.values["hostname"] = (host,)
        second = _Reader(query, given, host=host, final=True)
        for source in sources:
            second.file(source, active=True, depth=0)
    return given


class _Reader:
    """One pass over the files."""

    def __init__(self, query: Query, answers: Answers, host: str, final: bool) -> None:
        self._query = query
        self._host = host
        self._answers = answers
        self._final = final
        self.wants_final = False

    def file(self, source: Source, active: bool, depth: int) -> None:
        """Reads one file; `active` is False inside a block that does not match."""
        if depth > _INCLUDE_DEPTH:
            raise RequestError(f"{source.path}: too many files that include each other; nothing was sent")
        block = active
        for number, text in enumerate(_lines(source), start=1):
            keyword, rest = _keyword(text)
            if not keyword:
                continue
            place = f"{source.path}:{number}"
            self._refuse_mistyped(keyword, place)
            words = [rest.strip()] if keyword in _RAW else split_words(rest, place)
            if keyword == "host":
                block = active and _host_matches(words, self._host)
            elif keyword == "match":
                block = self._match(words, place, active)
            elif not words or not words[0]:
                raise RequestError(f"{place}: {keyword} has no value; nothing was sent")
            elif keyword == "include":
                self._include(words, source, block, depth)
            elif block:
                self._answers.put(keyword, words, place)

    def _refuse_mistyped(self, keyword: str, place: str) -> None:
        """ssh refuses every keyword that it does not know. Here it is one that is nearly one that counts; others may be of a later release."""
        names = (*_BLOCKS, *self._query.decide)
        if keyword in names or keyword in _OLD:
            return
        ignored = ",".join(self._answers.values.get("ignoreunknown", ())).lower()
        near = difflib.get_close_matches(keyword, names, 1, _ALIKE)
        if near and not pattern_list_match(ignored, keyword):
            raise RequestError(
                f"{place}: there is no keyword {keyword}; nothing was sent",
                f"write {near[0]} there, if that was meant",
            )

    def host_name(self) -> str:
        """HostName as far as it is known now."""
        return (self._answers.first("hostname") or self._host).replace("%h", self._host)

    def _include(self, words: Sequence[str], source: Source, active: bool, depth: int) -> None:
        for word in words:
            path = os.path.expanduser(word)
            found = sorted(glob.glob(os.path.join(source.folder, path)))
            for name in found:
                self.file(
                    Source(name, source.folder, required=True, private=source.private), active, depth + 1
                )

    def _match(self, words: Sequence[str], place: str, active: bool) -> bool:
        pending = list(words)
        matches = active  # as ssh: a second pass is asked for also by a block that cannot match
        while pending:
            criterion, separator, value = pending.pop(0).partition("=")
            pending[:0] = [value] if separator else []
            wanted = not criterion.startswith("!")
            criterion = criterion.removeprefix("!").lower()
            if criterion in {"canonical", "final"}:
                self.wants_final |= criterion == "final"
                holds = self._final
            elif criterion == "all":
                holds = True
            elif not pending:
                raise RequestError(f"{place}: Match {criterion} names nothing; nothing was sent")
            else:
                patterns = pending.pop(0)
                # As ssh: what a block cannot match any more is not looked at.
                holds = matches and self._holds(criterion, patterns, place)
            matches = matches and holds is wanted
        return matches

    def _holds(self, criterion: str, patterns: str, place: str) -> bool:
        subjects: dict[str, Callable[[], str]] = {
            "host": self.host_name,
            "originalhost": lambda: self._query.name,
            "user": lambda: self._answers.first("user") or self._query.local_user,
            "localuser": lambda: self._query.local_user,
            "tagged": lambda: self._answers.first("tag") or "",
        }
        subject = subjects.get(criterion)
        if subject is None:
            raise RequestError(
                f"{place}: it depends on 'Match {criterion}' how this host is reached, and that is not supported; nothing was sent",
                "name the host in a Host block, or use -F FILE",
            )
        if criterion in {"host", "originalhost"}:
            return pattern_list_match(patterns.lower(), subject().lower())
        return pattern_list_match(patterns, subject())


def _lines(source: Source) -> list[str]:
    try:
        data, seen = read_regular(source.path)
    except OSError as error:
        if error.errno in ABSENT and not source.required:
            return []
        raise RequestError(f"{source.path}: {error.strerror}; nothing was sent") from None
    if source.private and not _ours_alone(seen):
        raise RequestError(
            f"{source.path} can be written by others; nothing was sent", f"chmod go-w {source.path}"
        )
    return data.decode("utf-8", "surrogateescape").split("\n")


def _ours_alone(seen: os.stat_result) -> bool:
    """Owned by us or root, and written by nobody else; the group may write where it is the account's own (umask 002)."""
    group = bool(seen.st_mode & stat.S_IWGRP) and not _private_group(seen.st_gid)
    return seen.st_uid in {0, os.getuid()} and not group and not seen.st_mode & stat.S_IWOTH


def _private_group(number: int) -> bool:
    try:
        mine, group = pwd.getpwuid(os.getuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return number == mine.pw_gid and group.gr_name == mine.pw_name and not set(group.gr_mem) - {mine.pw_name}


def _keyword(text: str) -> tuple[str, str]:
    found = None if text.lstrip().startswith("#") else _LINE.match(text)
    return (found[1].lower(), found[2]) if found else ("", "")


def _host_matches(patterns: Sequence[str], name: str) -> bool:
    return pattern_list_match(",".join(patterns), name)


_WORD: Final = re.compile(
    r"""\s*(?:
        (?P<end>\#.*|$)
      | (?P<word>(?:"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | \\. | \\$ | [^\s"'\\])+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_PART: Final = re.compile(r""""((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|(\\.|\\$|[^"'\\]+)""", re.DOTALL)
_ESCAPE: Final = re.compile(r"""\\(["'\\ ])""")


def split_words(text: str, place: str) -> list[str]:
    """The words of a line, quotes and backslashes as OpenSSH reads them, a comment left out. Raises RequestError for an open quote."""
    words: list[str] = []
    position = 0
    while found := _WORD.match(text, position):
        if found["word"] is None:
            return words
        words.append(
            "".join(
                _ESCAPE.sub(r"\1", "".join(filter(None, part.groups())))
                for part in _PART.finditer(found["word"])
            )
        )
        position = found.end()
    raise RequestError(f"{place}: a quote is not closed; nothing was sent")
