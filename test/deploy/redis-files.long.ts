// Starts the files of deploy/redis as a master, two replicas and three sentinels, and loses a replica and then the
// master. The commands of scale.md set the passwords and the addresses; only ports and folders are replaced.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { event, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { freePort, SERVER } from '../support/redis.ts';
import { eventually, exited, start, temporaryFolder, type Child } from '../support/scope.ts';
import { DEPLOY, deployFile } from './deploy-files.ts';
import { tool } from '../support/tool.ts';

const folder = temporaryFolder('redis-files-');
const cli = tool('redis-cli', 'redis-tools');
const [, commands = ''] = /^```\n(apt install redis-server [^]*?)^```$/m.exec(deployFile('scale.md')) ?? [];

/** Types the commands of scale.md that write files into a folder that replaces /etc. */
function configure(etc: string, isReplica: boolean): void {
  const lines = commands.split('\n').filter((line) => !/^(apt|systemctl) /.test(line));
  const script = lines
    .filter((line) => isReplica || !line.endsWith('# only on the two replicas'))
    .join('\n')
    .replace('/usr/lib/ingest-gateway/deploy/', DEPLOY)
    .replace('install -o redis -g redis', 'install')
    .replaceAll('/etc/', `${etc}/`)
    .replaceAll('MASTER', '127.0.0.1')
    .replaceAll(/([A-Z]+)_PASSWORD\/…/g, (_, name: string) => `${name}_PASSWORD/${name.toLowerCase()}secret`);
  mkdirSync(join(etc, 'redis'), { recursive: true });
  execFileSync('sh', ['-ec', script]);
}

/** One server or sentinel, which finds its file changed by Sentinel when it starts again. */
class Server {
  readonly port: number;
  readonly #file: string;
  #child: Child | undefined;

  constructor(port: number, name: 'redis' | 'sentinel', masterPort: number) {
    this.port = port;
    const etc = join(folder, `${name}-${port}`);
    configure(etc, name === 'redis' && port !== masterPort);
    this.#file = join(etc, 'redis', `${name}.conf`);
    const text = readFileSync(this.#file, 'utf8')
      .replaceAll('127.0.0.1 6379', `127.0.0.1 ${masterPort}`)
      .replace(/^port \d+$/m, `port ${port}`)
      .replace('dir /var/lib/redis', `dir ${etc}`)
      .replace('/etc/', `${etc}/`);
    writeFileSync(this.#file, text);
    this.start(name === 'sentinel' ? ['--sentinel'] : []);
  }

  start(args: readonly string[] = []): void {
    this.#child = start(SERVER, [this.#file, ...args]);
    this.#child.stdout.resume();
    this.#child.stderr.resume();
  }

  async kill(): Promise<void> {
    this.#child?.kill('SIGKILL');
    if (this.#child !== undefined) await exited(this.#child);
  }

  ask(...command: readonly string[]): string {
    const login = ['--user', 'ingest-operator', '--pass', 'operatorsecret', '--no-auth-warning'];
    return spawnSync(cli, ['-p', String(this.port), ...login, ...command], { encoding: 'utf8' }).stdout;
  }
}

it('with the files of deploy/redis, a lost replica costs nothing, a lost master some seconds, and no event', async (t) => {
  const ports = [await freePort(), await freePort(), await freePort()];
  const [masterPort = 0] = ports;
  const servers = ports.map((port) => new Server(port, 'redis', masterPort));
  await eventually('the master answers', () => servers[0]?.ask('PING').startsWith('PONG'));
  const sentinels: Server[] = [];
  while (sentinels.length < 3) sentinels.push(new Server(await freePort(), 'sentinel', masterPort));
  const isOne = (): boolean => sentinels.every((one) => one.ask('SENTINEL', 'CKQUORUM', 'ingest').startsWith('OK 3'));
  await eventually('the sentinels know each other', isOne, 60_000);
  for (const server of [...servers, ...sentinels]) {
    const { stdout } = spawnSync(cli, ['-p', String(server.port), 'INFO'], { encoding: 'utf8' });
    assert.match(stdout, /^NOAUTH/, 'strangers are refused');
  }
  const master = (): Server => {
    const [, port] = sentinels[0]?.ask('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'ingest').split('\n') ?? [];
    return servers.find((server) => String(server.port) === port) ?? assert.fail(`no master at ${port}`);
  };
  const online = (): number => master().ask('INFO', 'replication').split('state=online').length - 1;
  const replicas = (count: number): Promise<true> =>
    eventually(`${count} replicas are connected`, () => online() === count, 60_000);
  await replicas(2);

  const addresses = sentinels.map(({ port }) => `127.0.0.1:${port}`).join();
  const uri = (name: string): string => `redis+sentinel://ingest-${name}:${name}secret@${addresses}/ingest`;
  const warehouse = { INGEST_WAREHOUSE_URI: `sqlite:${join(folder, 'warehouse.db')}` };
  const landing = { ...warehouse, INGEST_QUEUE_URI: uri('consumer'), INGEST_CONSUMER_ADDR: '127.0.0.1:0' };
  await new Program('ingest-consumer', { env: landing }).listening();
  const env = { ...warehouse, INGEST_QUEUE_DURABILITY: 'require', INGEST_QUEUE_REPLICAS: '1' };
  const gateway = await TestGateway.start({ uri: uri('gateway') }, await Pki.create(), env);
  const client = gateway.client(await gateway.pki.producer('shop'));
  const accepted: string[] = [];
  const post = async (id: string): Promise<number> => {
    const { status } = await client.post(event(id));
    if (status === 202) accepted.push(id);
    return status;
  };
  const [, lost] = servers.filter((server) => server !== master());
  await lost?.kill();
  for (let at = 0; at < 50; at += 1) assert.equal(await post(`replica-lost-${at}`), 202);
  lost?.start();
  await replicas(2);

  const old = master();
  await old.kill();
  const killedMs = performance.now();
  let tries = 0;
  const isBack = async (): Promise<boolean> => (await post(`master-lost-${(tries += 1)}`)) === 202;
  await eventually('events are accepted again', isBack, 60_000);
  t.diagnostic(`accepted again after ${Math.round(performance.now() - killedMs)} ms`);
  assert.notEqual(master(), old);
  for (let at = 0; at < 50; at += 1) assert.equal(await post(`promoted-${at}`), 202);
  old.start();
  await replicas(2);
  assert.match(old.ask('INFO', 'replication'), /role:slave/);
  const landed = async (id: string): Promise<boolean> =>
    (await client.ask({ method: 'GET', path: `/events/${id}` })).body.includes('"landed"');
  for (const id of accepted) await eventually(`${id} has landed`, () => landed(id));
  client.close();
});
