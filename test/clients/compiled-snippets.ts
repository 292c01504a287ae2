// `make snippets` runs this file. The suite does not, because installing Go and a JDK takes longer than the suite.
import { before, describe, it } from 'node:test';
import { ensureCommand, SnippetRunner } from '../support/snippets.ts';

describe("the loops of the producers' page", () => {
  let runner: SnippetRunner;
  before(async () => {
    runner = await SnippetRunner.start();
  });

  it('in Go sends an event until it is accepted', async () => {
    await runner.sends('go', 'send.go', ensureCommand('go', 'golang-go'), ['run', 'send.go']);
  });

  it('in Java sends an event until it is accepted', async () => {
    ensureCommand('javac', 'default-jdk-headless');
    await runner.sends('java', 'Send.java', ensureCommand('java', 'default-jdk-headless'), ['Send.java']);
  });
});
