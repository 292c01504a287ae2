import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { cpSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { text as bodyOf } from 'node:stream/consumers';
import { before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { listening } from '../send/server.ts';
import { TestGateway, PATIENT } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';
import { ADDRESS, python, snippet, SnippetRunner } from '../support/snippets.ts';

const EVENTS = 40;
/** Both ends of the range that the page names. */
const PACKAGES = ['undici-6@npm:undici@6.21.0', 'undici@8.12.4'];
const PROGRAMS = ['undici', 'undici-6', 'python'] as const;

/** Sends the events `NAME-0`, `NAME-1` … at the same time, and prints the ids for which `send` returned. */
const SEND_ALL = `
const [name, count] = process.argv.slice(2);
const ids = Array.from({ length: count }, (_, at) => \`\${name}-\${at}\`);
const ended = await Promise.allSettled(ids.map((id) => send({ id, type: 'order.placed' }, 20)));
console.log(JSON.stringify(ids.filter((_, at) => ended[at].status === 'fulfilled')));
process.exit(0);
`;
const SEND_ALL_PYTHON = `    from concurrent.futures import ThreadPoolExecutor
    name, count = sys.argv[1:]
    ids = [f"{name}-{at}" for at in range(int(count))]
    with ThreadPoolExecutor(len(ids)) as threads:
        bodies = [json.dumps({"id": id, "type": "order.placed"}) for id in ids]
        results = threads.map(lambda body: send(session, body, 20), bodies)
        print(json.dumps([id for id, (accepted, _) in zip(ids, results) if accepted]))
`;

const programOf = (name: (typeof PROGRAMS)[number]): string =>
  name === 'python'
    ? (snippet('python').split('    accepted, answer = ')[0] ?? '') + SEND_ALL_PYTHON
    : snippet('js undici').replace("from 'undici'", `from '${name}'`) + SEND_ALL;

const page =
  (status: number, headers: Record<string, string> = {}) =>
  (response: ServerResponse) =>
    void response.writeHead(status, { 'Content-Type': 'text/html', ...headers }).end('<html>not a gateway</html>');
const soon = (): string => new Date(Date.now() + 1_500).toUTCString();

/** Answers of a proxy to the first try of an event. The event is sent again after the first REPEATED of them. */
const FOREIGN: readonly ((response: ServerResponse) => void)[] = [
  page(502),
  page(504),
  (response) => page(503, { 'Retry-After': soon() })(response),
  (response) => response.req.socket.destroy(),
  page(200),
  page(202),
  page(303, { Location: '/login' }),
  (response) => void response.writeHead(204).end(),
  (response) => void response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"status":"ok"}'),
  (response) => {
    response.writeHead(202, { 'Content-Type': 'application/json', 'Content-Length': '99' });
    response.write('{"id":', () => response.req.socket.destroy());
  },
];
const REPEATED = 4;

describe("the loops of the producers' page, with many events at a time,", () => {
  let redis: TestRedis;
  let pki: Pki;
  let gateway: TestGateway;
  let shedding: SnippetRunner;
  let folder: string;

  before(async () => {
    [redis, pki, shedding] = await Promise.all([TestRedis.start(), Pki.create(), SnippetRunner.start()]);
    gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_PRODUCER_RATE_MAX: '5' });
    ({ folder } = shedding);
    writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}\n');
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
    execFileSync('npm', ['install', ...options, ...PACKAGES], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
  });

  /** Runs a program against a server with the certificate of `pki`, in a copy of the folder with an identity for it. */
  async function runs(port: number, file: string, text: string, producer: string, ...args: string[]): Promise<string> {
    const { cert, key } = await pki.producer(producer);
    const path = temporaryFolder();
    cpSync(folder, path, { recursive: true, verbatimSymlinks: true });
    const pem = { 'ca.pem': pki.authority.certificate, 'producer.pem': cert, 'producer-key.pem': key };
    const program = { [file]: text.replaceAll(ADDRESS, `https://127.0.0.1:${port}`) };
    for (const [name, content] of Object.entries({ ...pem, ...program })) writeFileSync(join(path, name), content);
    return run(path, file, producer, ...args);
  }

  async function run(cwd: string, file: string, ...args: readonly string[]): Promise<string> {
    const command = file.endsWith('.py') ? python() : process.execPath;
    return (await promisify(execFile)(command, [file, ...args], { cwd, timeout: 60_000 })).stdout;
  }

  const queued = async (stem: string): Promise<number> => {
    const bodies = (await redis.entries()).map(({ fields }) => JSON.parse(fields['body'] ?? '') as { id: string });
    return bodies.filter(({ id }) => id.startsWith(stem)).length;
  };

  for (const library of PROGRAMS) {
    const file = `send-${library}.${library === 'python' ? 'py' : 'mjs'}`;
    const all = programOf(library);

    it(`have every event accepted with ${library}`, async () => {
      await runs(gateway.port, file, all, library, String(EVENTS));
      assert.equal(await queued(`${library}-`), EVENTS);
    });

    it(`take no answer but an acceptance for one with ${library}`, async () => {
      const tried = new Set<string>();
      const { certificate: cert, key } = pki.server;
      const accepted: string[] = [];
      const answer = (id: string, response: ServerResponse): void => {
        const foreign = tried.has(id) ? undefined : FOREIGN[Number(id.split('-').at(-1))];
        tried.add(id);
        if (id === '') return page(200)(response);
        if (foreign !== undefined) return foreign(response);
        accepted.push(id);
        response.writeHead(202).end(JSON.stringify({ id, status: 'accepted' }));
      };
      const server = createServer({ cert, key }, (request, response) => {
        const body = bodyOf(request).catch(() => '');
        void body.then((text) => answer(/"id": ?"([^"]*)"/.exec(text)?.[1] ?? '', response));
      });
      const printed = await runs(await listening(server), file, all, library, String(FOREIGN.length));
      const returned = JSON.parse(printed) as string[];
      for (const id of returned) assert.ok(accepted.includes(id), `${id} is lost`);
      for (let at = 0; at < REPEATED; at += 1) assert.ok(returned.includes(`${library}-${at}`), `${at} of ${printed}`);
    });

    it(`have shed events sent again with ${library}, and stop at an untrusted server`, async () => {
      writeFileSync(join(folder, file), all.replaceAll(ADDRESS, shedding.gateway.url));
      shedding.gateway.reset();
      shedding.gateway.next('unavailable', 'shed', 'shed', 'internal', 'shed');
      await run(folder, file, library, String(EVENTS));
      assert.deepEqual([shedding.gateway.events.length, shedding.gateway.requests], [EVENTS, EVENTS + 5]);
      const { path, link } = await shedding.distrusting(file, all);
      assert.equal(await run(path, file, library, '1'), '[]\n');
      assert.ok(link.taken <= 4, `${link.taken} connections`);
    });

    if (library === 'python') continue; // the loop that sends one event has this test
    it(`have an event accepted behind a balancer without a backend, and during a renewal, with ${library}`, async () => {
      const one = snippet('js undici').replace("from 'undici'", `from '${library}'`);
      const text = `${one}console.log((await send({ id: 'shop-${library}', type: 'order.placed' })).status);
        process.exit(0);`;
      await shedding.outlives('one.mjs', text, process.execPath, ['one.mjs']);
    });
  }
});
