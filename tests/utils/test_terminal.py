import subprocess
import sys

CODE = "from rsl_rl.utils.terminal import replace_unencodable_output as f; f(); print('run größe')"


def test_replace_unencodable_output_of_an_ascii_terminal_prints_question_marks(root):
    command = [sys.executable, "-c", CODE]
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(root)}
    done = subprocess.run(command, capture_output=True, env=environment, cwd=root, check=False)
    assert (done.returncode, done.stdout) == (0, b"run gr??e\n"), done.stderr
