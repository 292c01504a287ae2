// `make ingest-run` as a user meets it: what it prints works as it stands.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { TestProcess } from '../support/gateway.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';

const ROOT = join(import.meta.dirname, '../..');

function ask(stateDir: string, method: string, url: string, body?: string): Promise<string> {
  const tls = (name: string): Buffer => readFileSync(join(stateDir, 'tls', name));
  const options = {
    method,
    cert: tls('producer.pem'),
    key: tls('producer-key.pem'),
    ca: tls('ca.pem'),
    headers: { 'Content-Type': 'application/json' },
  };
  return new Promise((resolve, reject) => {
    const outgoing = request(url, options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('end', () => resolve(text));
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

const refused = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', () => resolve(true));
  });

describe('ingest-run', () => {
  it('prints commands that send an event, follow it from accepted to landed, and show it in the warehouse', async () => {
    const stateDir = temporaryFolder('ingest run ');
    const run = new TestProcess(
      join(ROOT, 'bin/node'),
      ['--disable-warning=ExperimentalWarning', join(ROOT, 'bin/ingest-run.ts')],
      {
        INGEST_STATE_DIR: stateDir,
        INGEST_GATEWAY_ADDR: '127.0.0.1:0',
        INGEST_CONSUMER_ADDR: '127.0.0.1:0',
      },
    );
    await run.line(/Ctrl-C ends everything/);
    const [send, look] = run.lines.filter((line) => line.startsWith('  curl '));
    const body = / -d '([^']+)'/.exec(send ?? '')?.[1] ?? '';
    const url = (line: string | undefined): string => /(https:\S+)$/.exec(line ?? '')?.[1] ?? '';
    assert.deepEqual(JSON.parse(await ask(stateDir, 'POST', url(send), body)), { id: 'first', status: 'accepted' });
    const landed = await eventually('the look-up says landed', async () => {
      const answer = JSON.parse(await ask(stateDir, 'GET', url(look))) as Record<string, unknown>;
      assert.ok(answer['status'] === 'accepted' || answer['status'] === 'landed');
      return answer['status'] === 'landed' && answer;
    });
    assert.deepEqual(landed['event'], JSON.parse(body));

    const show = run.lines.find((line) => line.includes('node:sqlite')) ?? '';
    assert.match(execFileSync('sh', ['-c', show], { encoding: 'utf8' }), /'first'.*"type":"example.created"/);
    assert.ok(run.lines.some((line) => line.startsWith('  sqlite3 -readonly ')));

    run.signal('SIGINT');
    assert.deepEqual(await run.exited(), { code: 0, signal: null }, run.output);
    const ports = [...run.output.matchAll(/(?:listening on https?:\/\/|Redis on )127\.0\.0\.1:(\d+)/g)].map((match) =>
      Number(match[1]),
    );
    assert.equal(ports.length, 3, run.output);
    for (const port of ports) assert.ok(await refused(port), `nothing listens on ${port} any more`);
  });
});
