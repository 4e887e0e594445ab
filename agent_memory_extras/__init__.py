"""What needs another program's protocol or another package: loaded only when its command is called or settings name it.

    context     what an agent is told before it begins      hooks      an agent's hooks
    sources     the conversation a memory comes from        mcp        the Model Context Protocol
    integrate   an agent's own settings                     schedule   cron and systemd timers
    files       other programs' files, changed with care    encoders   sentence encoders on this machine

Its modules import `agent_memory`, never the reverse.
"""
