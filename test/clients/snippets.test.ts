// The README's snippets for curl and Python, as they stand there. Those in Go and Java are run by `make snippets`.
import { execFileSync } from 'node:child_process';
import { before, describe, it } from 'node:test';
import { ensureCommand, SnippetRunner } from '../support/snippets.ts';

/** A Python that has requests: the first on PATH, or Debian's. */
function python(): string {
  for (const command of ['python3', '/usr/bin/python3']) {
    try {
      execFileSync(command, ['-c', 'import requests'], { stdio: 'ignore' });
      return command;
    } catch {
      // Another one may have it.
    }
  }
  // The package brings no command: its name is asked for in vain, and what installs it is what counts.
  try {
    ensureCommand('python3-requests', 'python3-requests');
  } catch {
    // Told by whoever runs the Python.
  }
  return '/usr/bin/python3';
}

describe("the README's snippets", () => {
  let runner: SnippetRunner;
  before(async () => {
    runner = await SnippetRunner.start();
  });

  it('for curl sends an event', async () => {
    ensureCommand('curl', 'curl');
    await runner.sends('sh', 'send.sh', 'sh', ['send.sh']);
  });

  it('for Python sends an event', async () => {
    await runner.sends('python', 'send.py', python(), ['send.py']);
  });
});
