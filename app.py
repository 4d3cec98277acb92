"""Synthesises every stack of one environment. Needs no account, network, Docker, git or clock."""

from __future__ import annotations

import sys

from infra.application import build, new_app
from infra.command_line import context_of

if __name__ == "__main__":
    app = new_app(context_of(sys.argv[1:]))
    build(app)
    app.synth()
