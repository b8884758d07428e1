"""Runs a command on a terminal of its own and writes what it showed as HTML.

usage: terminal.py OUT.html COLUMNS COMMAND...

Two screens: one from the middle of the run, with the live line, and one of its end. Of the lines for steps the first and
the last few are kept. The terminal understands what the runtime and its scripts send: newlines, carriage returns, the
erasing of a line, and colors.
"""
import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import sys
import termios

SHOWN_STEPS = 3
SHOWN_SHARE = 0.6  # of the steps, in the first screen
PIECES = re.compile(r"\x1b\[(\d*(?:;\d+)*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")
CLASSES = {"1": "bold", "32": "green", "33": "yellow", "31": "red"}


def run(columns, command):
    """What the command wrote to a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI")}
    environment |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the last process has closed it
            break
        if not part:
            break
        written += part
    if child.wait() != 0:
        sys.exit(f"{command[0]} failed:\n{written.decode(errors='replace')[-2000:]}")
    return written.decode(errors="replace")


def lines_of(written):
    """The lines in the order in which they were finished, each as HTML; and those that were live, with their place."""
    lines, live, line, style = [], [], "", ""
    for codes, final, carriage_return, newline, text in PIECES.findall(written):
        if text:
            escaped = html.escape(text)
            line += f'<span class="{style}">{escaped}</span>' if style else escaped
        elif newline:
            lines.append(line)
            line = ""
        elif final == "K":
            if "━" in line or "─" in line:
                live.append((len(lines), line))
            line = ""
        elif final == "m":
            style = style if codes.strip("0;") else ""
            style = " ".join([style] + [CLASSES[code] for code in codes.split(";") if code in CLASSES]).strip()
    return lines + [line], live


def share_of_steps(bar):
    steps = re.match(r"(\d+)/(\d+) ", bar)
    return int(steps[1]) / int(steps[2]) if steps else 0


def is_step(line):
    return re.search(r": step +\d+/", line)


def shortened(lines):
    """Without most of the lines for steps between others."""
    kept, steps = [], []
    for line in lines + [None]:
        if line is not None and is_step(line):
            steps.append(line)
            continue
        kept += steps if len(steps) <= SHOWN_STEPS else steps[:SHOWN_STEPS - 1] + ["..."] + steps[-1:]
        steps = []
        if line is not None:
            kept.append(line)
    return kept


def screen(lines):
    return '<pre class="terminal">' + "\n".join(lines).strip("\n") + "</pre>\n"


def main():
    out, columns, *command = sys.argv[1:]
    written = run(int(columns), command)
    # A line that waits for its carriage return is erased after it, as a terminal would.
    lines, live = lines_of(written)
    place, bar = next((at, line) for at, line in live if share_of_steps(line) >= SHOWN_SHARE)
    last = next(i for i in reversed(range(len(lines))) if is_step(lines[i]))
    with open(out, "w", encoding="utf-8") as file:
        file.write(screen(shortened(lines[:place]) + [bar]) + screen(lines[last:]))


main()
