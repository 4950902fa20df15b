"""What the scripts of this folder share: where our program is, running it or a peer, and which machine this is."""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PINHOLE = os.environ.get("PINHOLE", os.path.join(ROOT, "build", "pinhole"))


def run(command, may_fail=False):
    """What it printed; a status other than 0 ends the script, with the end of what it complained of."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode and not may_fail:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {' '.join(command)}\n  left with {done.returncode}: "
                 f"{done.stderr.strip()[-400:]}")
    return done


def machine():
    """Processor and kernels, without measuring anything."""
    return json.loads(run([PINHOLE, "bench", "--json", "-q", "--no-cold", "--no-limits", "--rounds", "1", "-p", "1", "-n",
                           "1"]).stdout)["machine"]
