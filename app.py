"""Synthesises every stack of one environment. Needs no account, network, Docker, git or clock."""

from __future__ import annotations

from infra.application import build, new_app

if __name__ == "__main__":
    app = new_app()
    build(app)
    app.synth()
