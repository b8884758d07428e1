#!/usr/bin/env python3
"""Fails when source files include one another in a cycle. A unit is a header with the source of its name.

Usage: cycles.py FOLDER...    folders of sources, relative to the repository's root
"""
import os
import re
import sys

ENDS = (".h", ".hpp", ".c", ".cc", ".cu", ".cuh")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def unit(path):
    return os.path.splitext(path)[0]


def sources(folders):
    for folder in folders:
        for where, _, names in os.walk(folder):
            yield from (os.path.join(where, n) for n in names if n.endswith(ENDS))


def graph(folders):
    """Unit -> the units that it includes. Includes are relative to the file, or to one of the roots."""
    files = set(sources(folders))
    roots = ["runtime", "plugins", "plugin-api/cpp", "plugin-api/include"]
    edges = {}
    for path in sorted(files):
        to = edges.setdefault(unit(path), set())
        text = open(path, encoding="utf-8").read()
        for name in INCLUDE.findall(text):
            for root in [os.path.dirname(path), *roots]:
                found = os.path.normpath(os.path.join(root, name))
                if found in files:
                    if unit(found) != unit(path):
                        to.add(unit(found))
                    break
    return edges


def cycles(edges):
    """Strongly connected components of two or more units (Tarjan 1972)."""
    index, low, stack, result = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(component) > 1:
                result.append(sorted(component))

    sys.setrecursionlimit(10000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return result


def main():
    found = cycles(graph(sys.argv[1:]))
    for cycle in found:
        print("these include one another in a cycle: " + ", ".join(cycle))
    return 1 if found else 0


sys.exit(main())
