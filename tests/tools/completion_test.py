"""Completion in bash, zsh and fish, each asked itself, offers every flag of --help and the values that flags take."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT, wait_until  # noqa: E402  (found through the path above)

import pyte

BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", "build/dev")).resolve()
SHARE = BUILD / "share"
BASH = SHARE / "bash-completion" / "completions" / "superpipe"
ZSH = SHARE / "zsh" / "site-functions"
FISH = SHARE / "fish" / "vendor_completions.d" / "superpipe.fish"
SUPERPIPE = BUILD / "bin" / "superpipe"
POLICIES = ["auto", "lru", "naive", "resident", "superpipeline", "superpipeline-paper"]


def help_of(*words: str) -> str:
    return subprocess.run([SUPERPIPE, *words, "--help"], capture_output=True, text=True, check=True).stdout


def flags_in_help(*words: str) -> list[str]:
    """Those that help explains, and those that it names as rarely needed."""
    text = help_of(*words)
    flags = re.findall(r"^  (-\S+)", text, re.MULTILINE)
    rare = " ".join(text.split()).partition("in the manual: ")[2].partition(". ")[0]
    flags += rare.split(", ") if rare else []
    return sorted(",".join(flags).split(","))


def subcommands() -> list[str]:
    return re.findall(r"^  (\w+) ", help_of().partition("Subcommands:")[2], re.MULTILINE)


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.screen = pyte.Screen(200, 50)
        self.stream = pyte.ByteStream(self.screen)
        self.child, self.end = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, {**environment, "TERM": "xterm"})

    def close(self) -> None:
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        os.close(self.end)

    def type(self, keys: str) -> None:
        os.write(self.end, keys.encode())

    def read(self, seconds: float) -> None:
        if select.select([self.end], [], [], seconds)[0]:
            self.stream.feed(os.read(self.end, 1 << 16))

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait_for(self, part: str) -> None:
        deadline = time.monotonic() + LIMIT
        while part not in self.text():
            if time.monotonic() > deadline:
                raise AssertionError(f"{part!r} is not on the screen:\n{self.text()}")
            self.read(0.1)


class CompletionCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-completion-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("run.sptrace", "a trace.sptrace"):
            (self.folder / name).touch()
        (self.folder / "bin").mkdir()
        # Whoever completes a process asks the command which there are.
        fake = self.folder / "bin" / "superpipe"
        fake.write_text("#!/bin/sh\necho '    PID  PROGRAM'\necho '   4711  python  auto'\necho '  47110  train   auto'\n")
        fake.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "HOME": folder.name,
                            "XDG_CONFIG_HOME": folder.name, "XDG_DATA_HOME": folder.name, "LC_ALL": "C.UTF-8"}

    def ask(self, shell: str, *words: str) -> list[str]:
        """What completing the last of `words` behind `superpipe` offers, sorted; `words` as the shell divides them."""
        raise NotImplementedError


class Shared:
    """What holds in every shell that can be asked for its offers."""

    def test_offers_every_subcommand(self) -> None:
        self.assertEqual(self.ask("r"), sorted(name for name in subcommands() if name.startswith("r")))
        self.assertLessEqual(set(subcommands()), set(self.ask("")))
        self.assertEqual(self.ask("--ver"), ["--version"])

    def test_offers_every_flag_of_help(self) -> None:
        for name in subcommands():
            with self.subTest(name):
                self.assertEqual(self.ask(name, "--"),
                                 [flag for flag in flags_in_help(name) if flag.startswith("--")])
        self.assertIn("--plan", self.ask("run", "--"))

    def test_offers_the_values_of_choices(self) -> None:
        self.assertEqual(self.ask("run", "--policy", ""), POLICIES)
        self.assertEqual(self.ask("run", "--policy", "l"), ["lru"])
        self.assertEqual(self.ask("run", "--writeback", ""), ["always", "digest"])
        self.assertEqual(self.ask("run", "--log", ""), ["debug", "error", "info", "off", "warning"])
        self.assertEqual(self.ask("export", "--format", "c"), ["collapsed", "csv"])
        self.assertEqual(self.ask("export", "--stacks", "p"), ["peak"])
        self.assertEqual(self.ask("report", "--link", "gen4"), ["gen4", "gen4x8"])
        self.assertEqual(self.ask("plan", "--fit", "rtx409"), ["rtx4090"])
        listed = subprocess.run([SUPERPIPE, "doctor", "--list"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(self.ask("doctor", "--probe", "H1"), sorted(re.findall(r"\bH1\d?\b", listed)))
        self.assertEqual(self.ask("env", "--format", "d"), ["docker"])

    def test_completes_the_last_of_a_list(self) -> None:
        self.assertEqual(self.ask("plan", "--policy", "lru,na"), ["lru,naive"])

    def test_gives_a_number_its_unit(self) -> None:
        self.assertEqual(self.ask("run", "--gpu-mem", "6"), sorted(["6K", "6M", "6G", "6T", "6%"]))
        self.assertEqual(self.ask("run", "--gpu-mem", "x"), [])
        self.assertEqual(self.ask("run", "--k", "4"), [])

    def test_completes_files(self) -> None:
        self.assertEqual(self.ask("profile", "-o", "run."), ["run.sptrace"])
        self.assertEqual(self.ask("profile", "--trace", "run."), ["run.sptrace"])
        self.assertEqual(self.ask("plan", "run."), ["run.sptrace"])
        self.assertEqual(self.ask("copy-runtime", "run."), ["run.sptrace"])
        self.assertEqual(self.ask("report", "run.sptrace", "run."), ["run.sptrace"])
        self.assertEqual(self.ask("export", "run.sptrace", "--format", "csv", "-o", "run."), ["run.sptrace"])

    def test_offers_processes_and_then_a_size(self) -> None:
        self.assertEqual(self.ask("budget", "4"), ["4711", "47110"])
        self.assertEqual(self.ask("top", "4711"), ["4711", "47110"])
        self.assertIn("6G", self.ask("budget", "4711", "6"))

    def test_completes_the_command_behind_the_separator(self) -> None:
        self.assertIn("superpipe", self.ask("run", "--k", "4", "--", "superp"))
        self.assertEqual(self.ask("run", "--", "cat", "run."), ["run.sptrace"])
        self.assertNotIn("--policy", self.ask("run", "--", "cat", "--pol"))


class Bash(Shared, CompletionCase):
    # What readline does before it calls the function, whose offers it then prints.
    DRIVER = """
source "$1" || exit 1
shift
complete -p superpipe >/dev/null || exit 1
COMP_WORDS=(superpipe "$@")
COMP_CWORD=$#
COMPREPLY=()
_superpipe superpipe "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
((${#COMPREPLY[@]})) && printf '%s\\n' "${COMPREPLY[@]}"
exit 0
"""

    def ask(self, *words: str) -> list[str]:
        finished = subprocess.run(["bash", "--norc", "-c", self.DRIVER, "driver", BASH, *words], capture_output=True, text=True,
                                  timeout=LIMIT, cwd=self.folder, env=self.environment)
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        return sorted(set(finished.stdout.splitlines()))

    def test_reads_values_behind_an_equals_sign(self) -> None:
        self.assertEqual(self.ask("run", "--policy", "=", "l"), ["lru"])
        self.assertEqual(self.ask("run", "--policy", "="), POLICIES)
        self.assertEqual(self.ask("plan", "--gpu-mem", "=", "6G", "run."), ["run.sptrace"])
        self.assertEqual(self.ask("run", "--log", "debug", ":", "run."), ["run.sptrace"])

    def test_runs_nothing_that_was_typed(self) -> None:
        mark = self.folder / "ran"
        for typed in (f"`touch {mark}`", f"$(touch {mark})", f"x[$(touch {mark})]"):
            for words in (("run", "--gpu-mem", f"{typed}5"), ("budget", "4711", f"{typed}5"), ("run", "--gpu-mem", "=", f"{typed}5"),
                          ("plan", "x", "--policy", f"{typed},"), ("run", "--policy", typed), ("run", "--log", typed),
                          ("plan", typed), ("run", "--trace", typed), ("top", typed), ("run", f"--{typed}"), (typed,), (typed, "--"),
                          (typed, ""), ("run", typed, ""), ("run", "--", typed), ("run", "--log", "debug", ":", typed)):
                with self.subTest(words):
                    mark.unlink(missing_ok=True)
                    self.ask(*words)
                    self.assertFalse(mark.exists())
        self.assertIn("$(x)5G", self.ask("run", "--gpu-mem", "$(x)5"))
        self.assertIn("$(x),lru", self.ask("plan", "x", "--policy", "$(x),"))

    def test_tab_runs_nothing_that_was_typed(self) -> None:
        terminal = Terminal(["bash", "--norc", "-i"], self.folder, self.environment)
        self.addCleanup(terminal.close)
        terminal.type(f"PS1='ready> '; source {BASH}\r")
        terminal.wait_for("ready>")
        terminal.type("superpipe run --gpu-mem `touch${IFS}ran`5\t\tM --writeb\tdi\t")
        terminal.wait_for("--writeback digest")
        self.assertFalse((self.folder / "ran").exists())

    def test_keeps_blanks_of_file_names(self) -> None:
        self.assertEqual(self.ask("plan", "a"), ["a trace.sptrace"])

    def test_tab_completes_a_line(self) -> None:
        terminal = Terminal(["bash", "--norc", "-i"], self.folder, self.environment)
        self.addCleanup(terminal.close)
        terminal.type(f"PS1='ready> '; source {BASH}\r")
        terminal.wait_for("ready>")
        terminal.type("superpipe run --writeb\tdi\t--trace a\t")
        terminal.wait_for("superpipe run --writeback digest --trace a\\ trace.sptrace")


@unittest.skipUnless(shutil.which("fish"), "there is no fish (scripts/setup --developer)")
class Fish(Shared, CompletionCase):
    def ask(self, *words: str) -> list[str]:
        line = " ".join(("superpipe", *words))
        finished = subprocess.run(["fish", "--no-config", "-c", f"source {FISH}; complete -C {line!r}"], capture_output=True,
                                  text=True, timeout=LIMIT, cwd=self.folder, env=self.environment)
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        offers = (offer.split("\t")[0] for offer in finished.stdout.splitlines())
        # An abbreviation of what was typed, which fish offers too, does not count.
        return sorted({offer for offer in offers if offer.startswith(words[-1])})

    def test_reads_values_behind_an_equals_sign(self) -> None:
        self.assertEqual(self.ask("run", "--policy=l"), ["--policy=lru"])
        self.assertIn("--gpu-mem=6G", self.ask("run", "--gpu-mem=6"))

    def test_tells_what_flags_mean(self) -> None:
        finished = subprocess.run(["fish", "--no-config", "-c", f"source {FISH}; complete -C 'superpipe run --k'"],
                                  capture_output=True, text=True, timeout=LIMIT,
                                  env=self.environment)
        self.assertIn("--k\tLayers kept on the device", finished.stdout)


@unittest.skipUnless(shutil.which("zsh"), "there is no zsh (scripts/setup --developer)")
class Zsh(Shared, CompletionCase):
    SETUP = """
unsetopt beep
PS1='ready> '
fpath=({functions} $fpath)
autoload -Uz compinit && compinit -u -D
zstyle ':completion:*' completer _complete
"""
    # A key that completes as Tab does, and writes all matches to a file.
    OFFERS = """
compadd() {{
  local -a found
  builtin compadd -O found "$@" >/dev/null
  (($#found)) && print -rl -- ${{IPREFIX#-*=}}$^found >>{offers}
  builtin compadd "$@"
}}
offers() {{ zle complete-word; print -r -- done >>{offers} }}
zle -N offers
bindkey '^X^O' offers
"""

    def setUp(self) -> None:
        super().setUp()
        self.offers = self.folder / "bin" / "offers"

    def start(self, setup: str) -> Terminal:
        script = self.folder / "bin" / "setup.zsh"
        script.write_text(setup.format(functions=ZSH, offers=self.offers))
        terminal = Terminal(["zsh", "-f", "-i"], self.folder, self.environment)
        self.addCleanup(terminal.close)
        terminal.type(f"source {script}\r")
        terminal.wait_for("ready>")
        return terminal

    def ask(self, *words: str) -> list[str]:
        if not self.offers.exists():
            self.terminal = self.start(self.SETUP + self.OFFERS)
        self.offers.write_text("")
        # Control-U empties the line that the last question left.
        self.terminal.type("\x15" + " ".join(("superpipe", *words)) + "\x18\x0f")

        def has_answered() -> bool:
            self.terminal.read(0.05)
            return self.offers.read_text().endswith("done\n")

        wait_until(has_answered, self.terminal.text, rest=0)
        lines = self.offers.read_text().splitlines()[:-1]
        return sorted({line.rstrip("=") for line in lines})

    def test_reads_values_behind_an_equals_sign(self) -> None:
        self.assertEqual(self.ask("run", "--policy=l"), ["lru"])

    def test_tab_completes_a_line(self) -> None:
        terminal = self.start(self.SETUP)
        for keys, line in (("superpipe run --writeb\t", "superpipe run --writeback="), ("di\t", "--writeback=digest"),
                           ("--trace a\t", "superpipe run --writeback=digest --trace a\\ trace.sptrace")):
            terminal.type(keys)
            terminal.wait_for(line)


if __name__ == "__main__":
    unittest.main()
