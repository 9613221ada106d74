"""Starts a daemon and takes in the children that it leaves: QEMU, of which libvirtd lets go at once.

libvirtd takes a guest for stopped when its process is gone. Whose child that is has to fetch it, and the first
process of a container may take seconds for that. Usage: orphans.py COMMAND…; ends as COMMAND does, and goes on
in the background for as long as there is anybody left.
"""

import ctypes
import os
import sys

PR_SET_CHILD_SUBREAPER = 36

told, tell = os.pipe()
if os.fork():
    os.close(tell)
    sys.exit((os.read(told, 1) or b"\1")[0])
os.setsid()
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
code = os.spawnvp(os.P_WAIT, sys.argv[1], sys.argv[1:])
os.write(tell, bytes([min(abs(code), 255)]))
# Whoever reads what we were given must see its end.
nothing = os.open(os.devnull, os.O_RDWR)
for inherited in (0, 1, 2):
    os.dup2(nothing, inherited)
os.closerange(3, 256)
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
