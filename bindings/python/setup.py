# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds the C library with cargo, and a wheel that contains it.

The package calls the library by ctypes, so one wheel serves every Python of a platform: there is no extension module, and
nothing in it depends on Python's own interface. SUREFOOT_BUILD_LIBRARY names a library that is built already.
"""

import atexit
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # Before setuptools 70.1 it is a package of its own.
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
WORKSPACE = HERE.parent.parent
NAME = "libsurefoot.so"


def version() -> str:
    """That of the workspace, which the package's own file repeats for those who run it from the sources."""
    said = re.search(r'^VERSION = "(.*)"$', (HERE / "surefoot" / "_version.py").read_text(), re.M)
    manifest = WORKSPACE / "Cargo.toml"
    if not manifest.is_file():
        sys.exit(f"{manifest} is not there: build the package inside a checkout of Surefoot, with pip 21.3 or newer")
    workspace = re.search(r'^version = "(.*)"$', manifest.read_text(), re.M)
    if not said or not workspace or said[1] != workspace[1]:
        sys.exit("surefoot/_version.py does not have the version of Cargo.toml")
    return said[1]


def library() -> pathlib.Path:
    """The library, built by cargo unless it is named."""
    named = os.environ.get("SUREFOOT_BUILD_LIBRARY")
    if named:
        return pathlib.Path(named)
    cargo = shutil.which("cargo") or str(pathlib.Path.home() / ".cargo" / "bin" / "cargo")
    # As `make install` builds it: without what none of its functions reaches.
    command = [cargo, "rustc", "--locked", "--profile", "library", "--package", "surefoot-c", "--lib"]
    command += ["--crate-type", "cdylib"]
    try:
        built = subprocess.run(
            [*command, "--message-format=json-render-diagnostics"], cwd=WORKSPACE, stdout=subprocess.PIPE, text=True
        )
    except FileNotFoundError:
        sys.exit("there is no cargo, which builds the library: `make setup` in the checkout says how to get it")
    if built.returncode:
        sys.exit(f"{' '.join(command)} failed")
    for line in built.stdout.splitlines():
        for name in json.loads(line).get("filenames", []):
            if pathlib.Path(name).name == NAME:
                return pathlib.Path(name)
    sys.exit(f"cargo built no {NAME}")


class BuildWithLibrary(build_py):
    """Puts the library beside the modules."""

    def run(self) -> None:
        super().run()
        # An editable installation imports from the sources.
        base = HERE if getattr(self, "editable_mode", False) else pathlib.Path(self.build_lib)
        target = base / "surefoot" / NAME
        shutil.copyfile(library(), target)
        target.chmod(0o755)
        objcopy = shutil.which("objcopy")
        if objcopy:
            subprocess.run([objcopy, "--strip-unneeded", str(target)], check=True)

    def get_outputs(self, include_bytecode: bool = True) -> list:
        return [*super().get_outputs(include_bytecode), str(pathlib.Path(self.build_lib) / "surefoot" / NAME)]


# The oldest glibc that manylinux has a tag for, and how a library names the versions that it needs.
OLDEST_MINOR = 17
VERSION_OF_GLIBC = re.compile(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)")


def manylinux(built: pathlib.Path, platform: str) -> str:
    """The tag of PEP 600 for the oldest glibc that has all that the library uses; it needs nothing but glibc and libgcc."""
    machine = platform.removeprefix("linux_")
    minors = [int(minor) for minor in VERSION_OF_GLIBC.findall(built.read_bytes())]
    if machine == platform or not minors:  # Not Linux, or another C library.
        return platform
    return f"manylinux_2_{max(OLDEST_MINOR, *minors)}_{machine}"


class WheelOfPlatform(bdist_wheel):
    """One for this platform, and for every Python on it."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple:
        platform = super().get_tag()[2]
        built = pathlib.Path(self.get_finalized_command("build_py").build_lib) / "surefoot" / NAME
        # Without the library, as of an editable installation, nothing is known of it.
        return ("py3", "none", manylinux(built, platform) if built.is_file() else platform)


class WithLibrary(Distribution):
    """Installs where what is of one platform goes; there is no extension module that would say so."""

    def has_ext_modules(self) -> bool:
        return True


# Beside the sources a former build's modules would get into the next wheel.
work = tempfile.mkdtemp(prefix="surefoot-wheel-")
atexit.register(shutil.rmtree, work, ignore_errors=True)

setup(
    version=version(),
    distclass=WithLibrary,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelOfPlatform},
    options={"build": {"build_base": work}, "egg_info": {"egg_base": work}},
)
