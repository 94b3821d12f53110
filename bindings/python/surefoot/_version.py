# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The version of the package, which is that of the workspace; `cargo test -p surefoot-c` compares the two."""

VERSION = "0.1.0"
