"""Messages of XLIFF that have elements inside, as texts with tags, and back."""

import copy
import html
import re
from collections.abc import Sequence
from typing import Any

_XMLNS = re.compile(r"""\sxmlns(?::\w+)?=("[^"]*"|'[^']*')""")
_NATIVE = ("ph", "bpt", "ept", "it")
"""Elements whose text is code of the program that wrote it, but for that of `sub` in them."""


def is_kept(unit: Any) -> bool:
    """Return whether what a message is in is not to be translated."""
    if (node := getattr(unit, "xmlelement", None)) is None:
        return False
    values = (each.get("translate") for each in (node, *node.iterancestors()))
    return next(filter(None, values), "yes").lower() == "no"


def has_elements(unit: Any) -> bool:
    """Return whether a message has elements inside, or is divided into segments."""
    node = getattr(unit, "source_dom", None)
    return node is not None and (len(node) > 0 or _source(unit) is not node)


def read_texts(unit: Any) -> list[str]:
    """Return the texts of a message that has elements inside: all, or its segments, and `sub`."""
    return [*map(_read, _parts(_source(unit)))]


def read_targets(unit: Any) -> list[str]:
    """Return something for each segment that has a target, and "" for the others."""
    wanted, found = _by_id(_source(unit)), _by_id(unit.target_dom)
    parts = [found.get(name) for name in wanted] if found else [unit.target_dom]
    return ["" if part is None else _shown(part) for part in parts]


def _shown(part):
    return "".join(part.itertext()).strip() or "".join(str(each.tag) for each in part)


def write_texts(unit: Any, texts: Sequence[str], only_missing: bool) -> None:
    """Set the target of a message that has elements inside to what `read_texts` returned.

    Raises:
        SyntaxError: If a text is no XML.
    """
    from lxml import etree

    source, old = _source(unit), unit.target_dom
    names = {name: uri for each in source.iter("{*}*") for name, uri in each.nsmap.items()}
    spaces = " ".join(f'xmlns{f":{name}" if name else ""}="{uri}"' for name, uri in names.items())
    target = copy.deepcopy(source)
    done = {} if old is None or not only_missing else _by_id(old)
    done = {part: done[name] for name, part in _by_id(target).items() if name in done}
    done = {part: each for part, each in done.items() if _shown(each)}
    # In reverse, as a text may be in the code of another one.
    for part, text in reversed([*zip(_parts(target), texts, strict=True)]):
        new = etree.fromstring(f"<target {spaces}>{text}</target>")
        kept = {str(number): each for number, each in enumerate(_kept_elements(part))}
        for mark in list(new.iter("{*}X")):
            if mark.get("id") in kept:
                element = copy.deepcopy(kept[mark.get("id")])
                element.tail = mark.tail
                mark.getparent().replace(mark, element)
        new = copy.deepcopy(done.get(part, new))
        part.text, part[:] = new.text, list(new)
    target.tag = source.tag.removesuffix(_name(source)) + "target"
    target.attrib.clear()
    target.tail = None
    if old is not None:
        target.attrib.update(old.attrib)
        unit.xmlelement.remove(old)
    source.addnext(target)


def _source(unit):
    """Return the source of a message, in segments if a program has divided it."""
    segmented = unit.xmlelement.find("{*}seg-source")
    return unit.source_dom if segmented is None else segmented


def _by_id(node):
    """Return the segments of a source or target that are translated, by their ids or numbers."""
    kept = {inner for each in _kept_elements(node) for inner in each.iter()}
    marks = [each for each in node.iter("{*}mrk") if each.get("mtype") == "seg"]
    return {each.get("mid", i): each for i, each in enumerate(marks) if each not in kept}


def _parts(source):
    """Return the elements whose content is translated, each before those inside of it."""
    code = [each for each in _kept_elements(source) if _name(each) in _NATIVE]
    return [
        *(_by_id(source).values() or [source]),
        *(sub for x in code for sub in x.iter("{*}sub")),
    ]


def _name(element):
    return element.tag.rpartition("}")[2]


def _read(part):
    from lxml import etree

    part = copy.deepcopy(part)
    for number, each in enumerate([*_kept_elements(part)]):
        mark = etree.Element("X", {"id": str(number)})
        mark.tail = each.tail
        each.getparent().replace(each, mark)
    inside = "".join(etree.tostring(each, encoding="unicode") for each in part)
    text = html.escape(part.text or "", quote=False).replace("\r", "&#13;")
    return text + re.sub("<[^<>]*>", lambda tag: _XMLNS.sub("", tag[0]), inside)


def _kept_elements(source):
    """Yield the outermost elements of a message whose text is code or protected."""
    for each in source.iterchildren("{*}*"):
        name = _name(each)
        is_kept = name in _NATIVE or each.get("translate") == "no"
        is_kept |= name == "mrk" and each.get("mtype") == "protected"
        if is_kept and (each.text or len(each)):
            yield each
        else:
            yield from _kept_elements(each)
