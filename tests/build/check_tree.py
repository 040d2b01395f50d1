#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rules about the text of the tree, checked by ctest and by pre-commit.

    check_tree.py layering|text|quotes|links|format|selftest [--root DIR]

layering  a component includes only the components that ALLOWED below names
text      ASCII, lines of at most 100 columns, SPDX line, #pragma once, nothing of FORBIDDEN
quotes    indented lines of a page that says <!-- quotes: FOLDER --> occur in a file of FOLDER
links     what a page links to in this tree is there
format    clang-format has nothing to change in .hpp and .cpp (kernels are laid out by hand)
selftest  each rule reports a violation planted for it, and is silent about its correct twin

Exit code 0: nothing found, 1: findings, one a line as file:line: sentence, 2: usage.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# "a: b" = a may include b. A component may always include itself.
ALLOWED = {
    "core": set(),
    "reference": {"core"},
    "diagnosis": {"core"},
    "store": {"core"},
    "backends/simulator": {"core"},
    "backends/cuda": {"core"},
    "kernels": {"core", "reference"},
    "stress": {
        "core", "kernels", "backends/simulator", "backends/cuda", "reference", "diagnosis", "store",
    },
    "properties": {"core", "kernels", "reference", "stress"},
    "reports": {"core", "diagnosis", "store"},
    "app": None,  # everything
}

SOURCE_SUFFIXES = {".hpp", ".cpp", ".cu", ".cuh"}
SCRIPT_SUFFIXES = {".cmake", ".py", ".sh"}
SCRIPT_NAMES = {"CMakeLists.txt", "run", ".clang-format", ".clang-tidy", ".gitignore"}
MAX_COLUMNS = 100

# What no source or script may hold, and why; a source may name a fast-math flag in its messages.
# Split so that this file does not hold it either.
FORBIDDEN = {
    "Fetch" "Content": "a build fetches nothing: dependencies come from the system",
    "External" "Project_Add": "a build fetches nothing: dependencies come from the system",
    "-ffast" "-math": "fast-math removes the NaN logic that the comparator stands on",
    "use_fast" "_math": "fast-math changes the values that a kernel is judged by",
    "DIS" "ABLED_": "a disabled test is a hole: fix it or delete it",
    "/ho" "me/": "a path of somebody's machine",
    "/ro" "ot/": "a path of somebody's machine",
    "/Us" "ers/": "a path of somebody's machine",
}

LINK = re.compile(r"\]\(([^)\s]+)\)")
QUOTES = re.compile(r"^<!-- quotes: (\S+) -->$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")')


def tree_files(root):
    """Files of the tree, relative to root: what git tracks or would track, else what is there."""
    try:
        out = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, capture_output=True,
        ).stdout
        names = [Path(os.fsdecode(name)) for name in out.split(b"\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = [
            path.relative_to(root) for path in root.rglob("*")
            if not {"build", ".git", ".venv"} & set(path.relative_to(root).parts)
        ]
    return sorted(name for name in names if (root / name).is_file())


def component_of(path):
    """The component a file belongs to, None for tests, examples, bench and the like."""
    text = path.as_posix()
    for component in ALLOWED:
        if text.startswith(component + "/"):
            return component
    return None


def include_owners(files):
    """Maps 'faultline/x' to the component whose include/ folder holds it."""
    owners = {}
    for path in files:
        component = component_of(path)
        parts = path.parts
        if component and "include" in parts:
            below = parts[parts.index("include") + 1:]
            if len(below) >= 3 and below[0] == "faultline":
                folder = "/".join(below[:-1])
                if owners.setdefault(folder, component) != component:
                    raise SystemExit(f"{path}: {folder} belongs to {owners[folder]} already")
    return owners


def check_layering(root, files):
    owners = include_owners(files)
    checked = 0
    for path in files:
        component = component_of(path)
        if component is None or path.suffix not in SOURCE_SUFFIXES:
            continue
        checked += 1
        public = "include" in path.parts
        allowed = ALLOWED[component]
        for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            included = match.group(1) or match.group(2)
            where = f"{path.as_posix()}:{number}"
            if ".." in Path(included).parts:
                reached = Path(os.path.normpath(path.parent / included))
                if public or component_of(reached) != component:
                    yield f"{where}: {included} leaves its component"
                continue
            if public and re.match(r"(cuda|nv_|cublas|curand|cooperative_groups|mma\.h)", included):
                if path.suffix != ".cuh":
                    yield f"{where}: a public header carries no CUDA type, but includes {included}"
                continue
            target = owners.get("/".join(Path(included).parts[:-1]))
            if target is None and included.startswith("faultline/"):
                yield f"{where}: {included} belongs to no component"
                continue
            if target is None and match.group(2):
                # A private header: found beside the file, or by its path from the root.
                beside = (root / path).parent / included
                found = path.parent / included if beside.is_file() else Path(included)
                target = component_of(found) if (root / found).is_file() else None
            if target in (None, component) or allowed is None or target in allowed:
                continue
            yield (f"{where}: {component} may not include {target} ({included}); it may include "
                   f"{', '.join(sorted(allowed)) or 'nothing'}")
    if checked == 0:
        yield "no source file was found: nothing checked is not success"


def check_text(root, files):
    checked = 0
    for path in files:
        source = path.suffix in SOURCE_SUFFIXES
        script = path.suffix in SCRIPT_SUFFIXES or path.name in SCRIPT_NAMES
        prose = path.suffix == ".md"
        if not (source or script or prose):
            continue
        checked += 1
        name = path.as_posix()
        data = (root / path).read_bytes()
        lines = data.decode("utf-8", errors="replace").split("\n")
        for number, line in enumerate(lines, 1):
            if not line.isascii():
                bad = next(c for c in line if not c.isascii())
                yield f"{name}:{number}: U+{ord(bad):04X} is not ASCII"
            if prose:
                continue
            if len(line) > MAX_COLUMNS:
                yield f"{name}:{number}: {len(line)} columns, at most {MAX_COLUMNS}"
            if line != line.rstrip():
                yield f"{name}:{number}: white space at the end of the line"
            for token, why in FORBIDDEN.items():
                if token in line and not (source and "fast" in token):
                    yield f"{name}:{number}: '{token}' - {why}"
        if data and not data.endswith(b"\n"):
            yield f"{name}:{len(lines)}: no newline at the end"
        if source and not lines[0].startswith("// SPDX-License-Identifier: Apache-2.0"):
            yield f"{name}:1: the first line must be // SPDX-License-Identifier: Apache-2.0"
        if path.suffix in {".hpp", ".cuh"} and "#pragma once" not in lines:
            yield f"{name}:1: no #pragma once"
    if checked == 0:
        yield "no file was found: nothing checked is not success"


def check_quotes(root, files):
    for page in (path for path in files if path.suffix == ".md"):
        lines = (root / page).read_text(errors="replace").splitlines()
        folders = [match.group(1) for line in lines if (match := QUOTES.match(line))]
        if not folders:
            continue
        originals = {
            line.strip() for path in files if path.as_posix().startswith(folders[0] + "/")
            for line in (root / path).read_text(errors="replace").splitlines()
        }
        quoted = 0
        for number, line in enumerate(lines, 1):
            if line.startswith("    ") and line.strip() != "...":
                quoted += 1
                if line.strip() not in originals:
                    yield f"{page.as_posix()}:{number}: no line of {folders[0]} is: {line.strip()}"
        if quoted == 0:
            yield f"{page.as_posix()}:1: quotes nothing of {folders[0]}"


def check_links(root, files):
    for page in (path for path in files if path.suffix == ".md"):
        lines = (root / page).read_text(errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            for target in LINK.findall("" if line.startswith("    ") else line):
                path = target.split("#")[0]
                if re.match(r"[a-z]+:", target) or not path:
                    continue
                if not (root / page.parent / path).exists():
                    yield f"{page.as_posix()}:{number}: there is no {target}"


def check_format(root, files, clang_format):
    sources = [path.as_posix() for path in files if path.suffix in {".hpp", ".cpp"}]
    if not sources:
        yield "no source file was found: nothing checked is not success"
        return
    run = subprocess.run([clang_format, "--dry-run", "-Werror", *sources], cwd=root,
                         capture_output=True, text=True, check=False)
    named = set()
    for line in run.stderr.splitlines():
        path = line.split(":")[0]
        if path in sources and path not in named:
            named.add(path)
            yield f"{line} (run: clang-format -i {path})"
    if run.returncode != 0 and not named:
        yield f"{clang_format} ended with exit code {run.returncode}: {run.stderr.strip()}"


# ---- selftest: (rule, files, part of the expected finding or None for silence) ---------------

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
CORE = {"core/include/faultline/core/a.hpp": SPDX + "#pragma once\n"}
STORE = {"store/include/faultline/store/s.hpp": SPDX + "#pragma once\n"}
PLANTED = [
    ("layering", {**CORE, "store/src/s.cpp": "#include <faultline/core/a.hpp>\n"}, None),
    ("layering", {**STORE, "core/src/a.cpp": "#include <faultline/store/s.hpp>\n"},
     "core/src/a.cpp:1: core may not include store"),
    ("layering", {**STORE, "diagnosis/src/d.cpp": '#include "faultline/store/s.hpp"\n'},
     "diagnosis may not include store"),
    ("layering", {**STORE, "reports/src/r.cpp": "#  include <faultline/store/s.hpp>\n"}, None),
    ("layering", {"stress/src/p.hpp": "", "kernels/k.cu": '#include "stress/src/p.hpp"\n'},
     "kernels may not include stress"),
    ("layering", {"stress/src/p.hpp": "", "stress/src/k.cpp": '#include "p.hpp"\n'}, None),
    ("layering", {"core/src/a.cpp": '#include "../../store/src/s.hpp"\n'}, "leaves its component"),
    ("layering", {"core/src/x/a.cpp": '#include "../b.hpp"\n'}, None),
    ("layering", {"core/src/a.cpp": "#include <faultline/nowhere/s.hpp>\n"}, "no component"),
    ("layering", {"core/include/faultline/core/a.hpp": "#include <cuda_runtime.h>\n"},
     "no CUDA type"),
    ("layering", {"README.md": ""}, "nothing checked"),
    ("layering", {**STORE, "app/src/main.cpp": "#include <faultline/store/s.hpp>\n"}, None),
    ("layering", {
        "backends/cuda/include/faultline/cuda/b.hpp": "",
        "backends/simulator/src/s.cpp": "#include <faultline/cuda/b.hpp>\n",
    }, "backends/simulator may not include backends/cuda"),
    ("text", {"a/ok.cpp": SPDX + "int x;\n"}, None),
    ("text", {"a/x.cpp": "int x;\n"}, "SPDX"),
    ("text", {"a/x.hpp": SPDX + "int x;\n"}, "#pragma once"),
    ("text", {"a/x.cpp": SPDX + "// " + "x" * 98 + "\n"}, "101 columns"),
    ("text", {"a/x.cpp": SPDX + "// caf\u00e9\n"}, "U+00E9"),
    ("text", {"a/x.md": "caf\u00e9\n"}, "U+00E9"),
    ("text", {"a/x.cpp": SPDX + "int x; \n"}, "white space"),
    ("text", {"a/x.cpp": SPDX + "int x;"}, "no newline"),
    ("text", {"LICENSE": ""}, "nothing checked"),
    ("quotes", {"d.md": "<!-- quotes: e -->\n    x = 1;\n    ...\n", "e/m.cpp": " x = 1;\n"}, None),
    ("quotes", {"d.md": "<!-- quotes: e -->\n    x = 2;\n", "e/m.cpp": "x = 1;\n"},
     "d.md:2: no line of e is: x = 2;"),
    ("quotes", {"d.md": "<!-- quotes: e -->\n    x = 1;\n", "f/m.cpp": "x = 1;\n"}, "d.md:2"),
    ("quotes", {"d.md": "<!-- quotes: e -->\nx = 1;\n", "e/m.cpp": "x = 1;\n"}, "quotes nothing"),
    ("quotes", {"d.md": "    not a quoting page\n"}, None),
    ("links", {"a/d.md": "[x](../e.md#y), [z](#y), [w](https://w.org)\n", "e.md": ""}, None),
    ("links", {"a/d.md": "[x](e.md)\n", "e.md": ""}, "a/d.md:1: there is no e.md"),
] + [("text", {"CMakeLists.txt": f"# {token}\n"}, f"'{token}'") for token in FORBIDDEN]


def selftest():
    for number, (rule, files, expected) in enumerate(PLANTED):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            found = list(RULES[rule](root, tree_files(root)))
            if expected is None and found:
                yield f"planted case {number} ({rule}) is correct, but: {found}"
            if expected is not None and not any(expected in finding for finding in found):
                yield f"planted case {number} ({rule}): no finding with '{expected}' in {found}"


RULES = {
    "layering": check_layering, "text": check_text, "quotes": check_quotes, "links": check_links,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rule", choices=[*RULES, "format", "selftest"])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--clang-format", default="clang-format")
    options = parser.parse_args()
    if options.rule == "selftest":
        findings = list(selftest())
    elif options.rule == "format":
        findings = list(check_format(options.root, tree_files(options.root), options.clang_format))
    else:
        findings = list(RULES[options.rule](options.root, tree_files(options.root)))
    for finding in findings:
        print(finding)
    print(f"{options.rule}: {len(findings)} finding(s)")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
