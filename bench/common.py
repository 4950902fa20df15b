"""What the scripts of this folder share: where our program is, and which machine it runs on."""
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PINHOLE = os.environ.get("PINHOLE", os.path.join(ROOT, "build", "pinhole"))


def machine():
    """Processor and kernels, without measuring anything."""
    done = subprocess.run([PINHOLE, "bench", "--json", "-q", "--no-cold", "--no-limits", "--rounds", "1", "-p", "1", "-n", "1"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["machine"]
