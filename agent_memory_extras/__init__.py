"""What needs another program's protocol, another package or another language: each loaded when something asks for it.

    context     what an agent is told before it begins      hooks      an agent's hooks
    sources     the conversation a memory comes from        mcp        the Model Context Protocol
    integrate   an agent's own settings                     schedule   cron and systemd timers
    agents      whose sessions are here, for `doctor`       files      other programs' files, changed with care
    encoders    sentence encoders on this machine           chinese    what goes wrong, in Chinese
    start       what the installed commands run

Its modules import `agent_memory`; that knows them by name alone (`beside`) and does without them.
"""
