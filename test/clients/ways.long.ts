// Each program of openapi/PRODUCERS.md through the same faults. `make snippets` sets SNIPPETS=all, which adds Go and
// Java; installing them takes longer than the other tests.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { cpSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { listening } from '../send/server.ts';
import { freePort } from '../support/free-port.ts';
import { openLink } from '../support/link.ts';
import { Pki } from '../support/pki.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { python, snippet, SnippetRunner, type Program } from '../support/snippets.ts';
import { tool } from '../support/tool.ts';

/** Both ends of the range that the page names. */
const UNDICI = ['undici-6@npm:undici@6.21.0', 'undici@8.12.4'];

const undici = (name: string): Program => ({
  text: `${snippet('js undici').replace("from 'undici'", `from '${name}'`)}
await send({ id: 'shop-order-undici', type: 'order.placed' }).then(
  ({ status }) => console.log(status),
  () => (process.exitCode = 1),
);
await dispatcher.close();`,
  file: `${name}.mjs`,
  command: process.execPath,
  args: [],
});

const WAYS: Readonly<Record<string, () => Program>> = {
  'in shell': () => ({ text: snippet('sh'), file: 'send.sh', command: 'sh', args: [] }),
  'in Python': () => ({ text: snippet('python'), file: 'send.py', command: python(), args: [] }),
  'with ingest-client': () => ({
    text: snippet('js'),
    file: 'send.mjs',
    command: process.execPath,
    args: ['--disable-warning=ExperimentalWarning'],
  }),
  'with undici 6': () => undici('undici-6'),
  'with undici 8': () => undici('undici'),
  ...(process.env['SNIPPETS'] === 'all' && {
    'in Go': () => ({ text: snippet('go'), file: 'send.go', command: tool('go', 'golang-go'), args: ['run'] }),
    'in Java': () => {
      tool('javac', 'default-jdk-headless');
      return { text: snippet('java'), file: 'Send.java', command: 'java', args: [] };
    },
  }),
};

type Answer = (response: ServerResponse) => unknown;

const page =
  (status: number, headers: Record<string, string> = {}): Answer =>
  (response) =>
    response.writeHead(status, { 'Content-Type': 'text/html', ...headers }).end('<html>not a gateway</html>');

/** Answers that are neither an acceptance nor a refusal, although some have its status or its form. */
const FOREIGN: readonly Answer[] = [
  page(502),
  page(202),
  page(303, { Location: '/login' }),
  (response) => response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"status":"ok"}'),
  (response) => response.writeHead(204).end(),
  (response) => {
    response.writeHead(202, { 'Content-Type': 'application/json', 'Content-Length': '99' });
    response.write('{"status":"accepted",', () => response.req.socket.destroy());
  },
];

/** How a balancer without a backend ends connections after the ClientHello. */
const ENDS = ['FIN', 'FIN', 'RST', 'RST', 'plain HTTP'];
const PLAIN = 'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n';

let runner: SnippetRunner;
before(async () => {
  runner = await SnippetRunner.start();
  // npm would remove the client from a folder that it did not install it in.
  const cwd = temporaryFolder();
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', ['install', ...options, ...UNDICI], { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
  cpSync(join(cwd, 'node_modules'), join(runner.folder, 'node_modules'), { recursive: true });
});

/** Starts a server that gives the answers to events, in order, and then accepts each. */
function answering(answers: readonly Answer[]): Promise<number> {
  const { certificate: cert, key } = runner.pki.server;
  const tls = { cert, key, ca: runner.pki.authority.certificate, requestCert: true, rejectUnauthorized: true };
  const waiting = [...answers];
  const server = createHttpsServer(tls, (request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      const id = /"id": ?"([^"]*)"/.exec(text)?.[1];
      if (id === undefined) return page(200)(response);
      const headers = { 'Content-Type': 'application/json', Connection: 'close' };
      const accept: Answer = () => response.writeHead(202, headers).end(JSON.stringify({ id, status: 'accepted' }));
      return (waiting.shift() ?? accept)(response);
    });
  });
  return listening(server);
}

/** Closes connections to the gateway as in ENDS, and then does not listen for two seconds. */
async function startBalancer() {
  const balancer = { port: await freePort(), connections: 0 };
  const target = Number(new URL(runner.gateway.url).port);
  const ends = [...ENDS];
  const server = createServer((client) => {
    balancer.connections += 1;
    client.on('error', () => undefined);
    const end = ends.shift();
    if (end === undefined) {
      const backend = connect(target, '127.0.0.1').on('error', () => client.destroy());
      client.pipe(backend).pipe(client);
      client.once('close', () => backend.destroy());
      return;
    }
    client.once('data', () => {
      if (end === 'RST') client.resetAndDestroy();
      else client.end(end === 'FIN' ? '' : PLAIN);
      if (ends.length > 0) return;
      server.close();
      // A program repeats the fifth try within these two seconds.
      void delay(2_000).then(() => server.listen(balancer.port, '127.0.0.1'));
    });
  });
  server.listen(balancer.port, '127.0.0.1');
  await eventually('the balancer listens', () => server.listening);
  atEnd(() => void server.close());
  return balancer;
}

const FAULTS: Readonly<Record<string, (program: Program) => Promise<void>>> = {
  'sends an event until it is accepted, and stops if it is refused for good': async (program) => {
    const { gateway } = runner;
    gateway.next('unavailable', 'rateLimited', 'shed', 'internal');
    const startMs = performance.now();
    assert.match(await runner.run(program), /accepted/);
    assert.ok(performance.now() - startMs >= 2_000, 'two of the refusals say Retry-After: 1');
    const [event, ...others] = gateway.events;
    assert.deepEqual(others, []);
    assert.equal(event?.type, 'order.placed');
    assert.match(event?.id ?? '', /^shop-order-/);
    assert.equal(gateway.requests, 5);
    gateway.giveAway(event?.id ?? '');
    await assert.rejects(runner.run(program), { code: 1 });
    assert.equal(gateway.requests, 6);
  },

  'sends nothing to a server that it does not trust': async (program) => {
    const link = await openLink({ host: '127.0.0.1', port: Number(new URL(runner.gateway.url).port) });
    atEnd(() => link.close());
    const folder = temporaryFolder('ingest-snippets-');
    cpSync(runner.folder, folder, { recursive: true, verbatimSymlinks: true });
    writeFileSync(join(folder, 'ca.pem'), (await Pki.create()).authority.certificate);
    await assert.rejects(runner.run(program, link.port, folder), { code: 1 });
    // ingest-client waits for a gateway that is not trusted, for as long as for one that is down.
    const triesMax = program.file === 'send.mjs' ? 10 : 4;
    assert.ok(link.taken >= 1 && link.taken <= triesMax, `${link.taken} connections`);
    assert.equal(runner.gateway.requests, 0);
  },

  'takes no answer of a proxy for an acceptance': async (program) => {
    let answers = 0;
    const counted = FOREIGN.map((answer) => (response: ServerResponse) => {
      answers += 1;
      return answer(response);
    });
    assert.match(await runner.run(program, await answering(counted)), /accepted/);
    assert.equal(answers, FOREIGN.length);
  },

  'waits for the backend of a balancer that closes handshakes, answers in plain HTTP, and refuses connections': async (
    program,
  ) => {
    const balancer = await startBalancer();
    assert.match(await runner.run(program, balancer.port), /accepted/);
    assert.equal(balancer.connections, ENDS.length + 1);
    assert.equal(runner.gateway.events.length, 1);
  },

  'uses a certificate that was renewed in two steps for its next connection': async (program) => {
    const renewed = await runner.pki.producer('shop');
    const serialOf = (pem: string | Buffer): string => new X509Certificate(pem).serialNumber;
    const old = serialOf(readFileSync(join(runner.folder, 'producer.pem')));
    const serials: (string | undefined)[] = [];
    const write = (name: string, pem: string): void => {
      writeFileSync(join(runner.folder, `${name}.new`), pem);
      renameSync(join(runner.folder, `${name}.new`), join(runner.folder, name));
    };
    const record = ({ req }: ServerResponse): unknown =>
      serials.push((req.socket as TLSSocket).getPeerX509Certificate()?.serialNumber);
    const port = await answering([
      (response) => {
        record(response);
        write('producer.pem', renewed.cert);
        void delay(500).then(() => write('producer-key.pem', renewed.key));
        response.writeHead(503, { 'Content-Type': 'application/json', Connection: 'close' });
        response.end('{"code":"QUEUE_UNAVAILABLE","retryable":true}');
      },
      (response) => {
        record(response);
        response.writeHead(503, { Connection: 'close' }).end();
      },
    ]);
    assert.match(await runner.run(program, port), /accepted/);
    assert.deepEqual(serials, [old, serialOf(renewed.cert)]);
  },
};

for (const [way, program] of Object.entries(WAYS))
  describe(`the program of the producers' page ${way}`, () => {
    for (const [what, fault] of Object.entries(FAULTS))
      it(what, async () => {
        runner.gateway.reset();
        await assert.doesNotReject(fault(program()));
      });
  });

const [TASKS, EVENTS, CONNECTIONS] = [200, 2_000, 32];

/** The same programs, with TASKS that send EVENTS at the same time. */
const MANY: Readonly<Record<string, (program: Program) => string>> = {
  'with undici 8': () => `${snippet('js undici')}
const idsOf = (task) => Array.from({ length: ${EVENTS / TASKS} }, (_, at) => \`many-\${task}-\${at}\`);
const all = async (task) => { for (const id of idsOf(task)) await send({ id, type: 'order.placed' }); };
await Promise.all(Array.from({ length: ${TASKS} }, (_, task) => all(task)));
process.exit(0);
`,
  'in Python': ({ text }) => `${text.split('    accepted, answer = ')[0] ?? ''}
    from concurrent.futures import ThreadPoolExecutor
    bodies = [json.dumps({"id": f"many-{at}", "type": "order.placed"}) for at in range(${EVENTS})]
    with ThreadPoolExecutor(${TASKS}) as threads:
        assert all(accepted for accepted, _ in threads.map(lambda body: send(session, body), bodies))
`,
  'in Go': ({ text }) => `${text.split('func main() {')[0]?.replace('\t"math/rand"\n', '') ?? ''}
func main() {
	client, _ := newClient()
	done := make(chan bool)
	for n := 0; n < ${TASKS}; n++ {
		go func(n int) {
			for i := n; i < ${EVENTS}; i += ${TASKS} {
				try(client, fmt.Sprintf("{\\"id\\":\\"many-%d\\",\\"type\\":\\"order.placed\\"}", i))
			}
			done <- true
		}(n)
	}
	for n := 0; n < ${TASKS}; n++ {
		<-done
	}
}
`,
};

for (const [way, textOf] of Object.entries(MANY).filter(([way]) => way in WAYS))
  it(`the client ${way} sends the events of ${TASKS} tasks over at most ${CONNECTIONS} connections`, async () => {
    runner.gateway.reset();
    const link = await openLink({ host: '127.0.0.1', port: Number(new URL(runner.gateway.url).port) });
    atEnd(() => link.close());
    const program = WAYS[way]?.() as Program;
    await runner.run({ ...program, text: textOf(program), file: `many-${program.file}` }, link.port);
    assert.equal(runner.gateway.events.length, EVENTS);
    assert.ok(link.taken <= CONNECTIONS, `${link.taken} connections`);
  });
