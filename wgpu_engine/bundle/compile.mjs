// Compiles to bytecode, in Pyodide itself, what the engine loads of the standard library and of its own wheels.
// Usage: node compile.mjs PYODIDE_FOLDER OUT.zip PACKAGE

import { readFileSync, writeFileSync } from "node:fs";
import { resolve, join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, out, packageName] = process.argv.slice(2);
const indexURL = resolve(folder) + "/";
const { loadPyodide } = await import(pathToFileURL(join(indexURL, "pyodide.mjs")).href);
// stdout is not read by anybody, and what Pyodide says while it loads is of no interest
const python = await loadPyodide({ indexURL, packages: [packageName], stdout: () => {} });
python.FS.writeFile("/stdlib.zip", readFileSync(join(indexURL, "python_stdlib.zip")));
python.globals.set("package_name", packageName.replaceAll("-", "_"));
python.runPython(`
import contextlib
import importlib.util
import marshal
import sys
import zipfile
from pathlib import Path

import _imp

root = Path(importlib.util.find_spec(package_name).origin).parent
for path in sorted(root.rglob("*.py")):
    parts = path.relative_to(root.parent).with_suffix("").parts
    # some wait for JavaScript of the page or for libraries of the desktop: those load when they are wanted, or never
    with contextlib.suppress(Exception):
        importlib.import_module(".".join(parts).removesuffix(".__init__"))


def bytecode(source, path):
    magic = importlib.util.MAGIC_NUMBER
    code = compile(source, path, "exec", dont_inherit=True)
    # by hash and unchecked: times differ from build to build, and nothing is edited in there
    key = _imp.source_hash(int.from_bytes(magic[:2], "little"), source)
    return magic + (1).to_bytes(4, "little") + key + marshal.dumps(code)


library = next(path for path in sys.path if path.endswith(".zip"))
with zipfile.ZipFile("/out.zip", "w") as made:
    with zipfile.ZipFile("/stdlib.zip") as archive:
        loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        for name in sorted(archive.namelist()):
            if f"{library}/{name}" in loaded:
                made.writestr(f"stdlib/{name}", bytecode(archive.read(name), f"{library}/{name}"))
    for path in sorted(root.parent.rglob("*.py")):
        made.writestr(f"site/{path.relative_to(root.parent)}", bytecode(path.read_bytes(), str(path)))
`);
writeFileSync(out, python.FS.readFile("/out.zip"));
