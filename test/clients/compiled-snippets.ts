// `make snippets` runs this file. The suite does not, because installing Go and a JDK takes longer than the suite.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { openLink } from '../support/link.ts';
import { atEnd } from '../support/scope.ts';
import { ADDRESS, ensureCommand, snippet, SnippetRunner } from '../support/snippets.ts';

const [GOROUTINES, EVENTS, CONNECTIONS] = [200, 2_000, 32];
const SEND_MANY = `
func main() {
	client, _ := newClient()
	done := make(chan bool)
	for n := 0; n < ${GOROUTINES}; n++ {
		go func(n int) {
			for i := n; i < ${EVENTS}; i += ${GOROUTINES} {
				try(client, fmt.Sprintf("{\\"id\\":\\"many-%d\\",\\"type\\":\\"order.placed\\"}", i))
			}
			done <- true
		}(n)
	}
	for n := 0; n < ${GOROUTINES}; n++ {
		<-done
	}
}
`;

describe("the loops of the producers' page", () => {
  let runner: SnippetRunner;
  before(async () => {
    runner = await SnippetRunner.start();
  });

  it('in Go sends an event until it is accepted', async () => {
    await runner.sends('go', 'send.go', ensureCommand('go', 'golang-go'), ['run', 'send.go']);
  });

  it(`in Go sends the events of ${GOROUTINES} goroutines over at most ${CONNECTIONS} connections`, async () => {
    const link = await openLink({ host: '127.0.0.1', port: Number(new URL(runner.gateway.url).port) });
    atEnd(() => link.close());
    const [library = ''] = snippet('go').split('func main() {');
    const text = library.replaceAll(ADDRESS, `https://127.0.0.1:${link.port}`) + SEND_MANY;
    writeFileSync(join(runner.folder, 'many.go'), text.replace('\t"math/rand"\n', ''));
    const go = ensureCommand('go', 'golang-go');
    await promisify(execFile)(go, ['run', 'many.go'], { cwd: runner.folder, timeout: 150_000 });
    assert.equal(runner.gateway.events.filter(({ id }) => id.startsWith('many-')).length, EVENTS);
    assert.ok(link.taken <= CONNECTIONS, `${link.taken} connections`);
  });

  it('in Java sends an event until it is accepted', async () => {
    ensureCommand('javac', 'default-jdk-headless');
    await runner.sends('java', 'Send.java', ensureCommand('java', 'default-jdk-headless'), ['Send.java']);
  });
});
