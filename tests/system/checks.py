"""What the scripts of this folder share: counting checks, running the program, and the last line."""
import subprocess
import sys

passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("FAILED", what)


def runner(pinhole):
    """run(arguments) of this program: what came of it."""
    return lambda *args: subprocess.run([pinhole, *args], capture_output=True, text=True, check=False)


def checked(run):
    """The same, whose status 0 is a check of its own."""
    def run_well(*args):
        r = run(*args)
        check(r.returncode == 0, r.stderr)
    return run_well


def end():
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)
