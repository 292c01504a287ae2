import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readGatewayConfig } from '../../lib/gateway/config.ts';
import { checkFiles, readFiles, watchFiles } from '../../lib/gateway/watched-files.ts';
import { gatewayMetrics } from '../../lib/gateway/metrics.ts';
import type { Producers } from '../../lib/gateway/producers-file.ts';
import { StartFailure } from '../../lib/process/program.ts';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { keepingLog } from '../support/gateway-in-process.ts';
import { Pki } from '../support/pki.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { jwks, TokenIssuer } from '../support/tokens.ts';
import { served } from '../identity/token-fixture.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

function configured(more: Readonly<Record<string, string>>) {
  const { config, report } = readGatewayConfig({ INGEST_QUEUE_URI: 'redis://localhost', ...more });
  assert.ok(config !== undefined, report.problems.join());
  return { config, ...keepingLog() };
}

describe('the files of a gateway that starts', () => {
  it('are used with a warning if one has expired, and fail a check', async () => {
    const pki = await Pki.create();
    const good = configured(pki.environment);
    await readFiles(good.config, good.log, SYSTEM);
    assert.deepEqual(good.lines, []);
    assert.deepEqual(await checkFiles(good.config, SYSTEM.clock), []);
    const notAfter = new Date(Date.now() - 60_000);
    const old = await pki.authority.issue({ commonName: 'localhost', server: true, notAfter });
    const path = pki.write('old.pem', old.certificate);
    const files = { INGEST_TLS_CERT: path, INGEST_TLS_KEY: pki.write('old-key.pem', old.key) };
    const { config, log, lines } = configured({ ...pki.environment, ...files });
    const { material } = await readFiles(config, log, SYSTEM);
    assert.equal(material.value.expiry.length, 2);
    const message = `INGEST_TLS_CERT="${path}": it has expired`;
    assert.deepEqual(lines, [{ level: 'warn', msg: message }]);
    await assert.rejects(checkFiles(config, SYSTEM.clock), { exitCode: 2, message });
  });

  it('are development certificates in a writable folder, with a warning, if none are configured', async () => {
    const folder = temporaryFolder();
    const { config, log, lines } = configured({ INGEST_STATE_DIR: folder });
    const { material } = await readFiles(config, log, SYSTEM);
    assert.equal(material.value.expiry.length, 2);
    assert.deepEqual([lines.length, lines[0]?.level, lines[0]?.['folder']], [1, 'warn', folder]);
    const file = join(folder, 'file');
    writeFileSync(file, '');
    for (const [path, code] of [
      [join(file, 'state'), 'ENOTDIR'],
      ['/proc/self/state/below', 'ENOENT'],
    ] as const) {
      const wrong = configured({ INGEST_STATE_DIR: path });
      await assert.rejects(readFiles(wrong.config, wrong.log, SYSTEM), {
        exitCode: 2,
        message: `INGEST_STATE_DIR="${path}": expected a writable folder for development certificates (${code})`,
      });
    }
  });

  it('end the start, and a check, with a line for each bad one', async () => {
    const pki = await Pki.create();
    const { config, log } = configured({
      ...pki.environment,
      INGEST_TLS_KEY: pki.path('none.pem'),
      INGEST_PRODUCERS_FILE: pki.write('producers.json', '[]'),
      INGEST_TOKEN_JWKS: pki.write('jwks.json', '{"keys":[]}'),
    });
    const failure: unknown = await readFiles(config, log, SYSTEM).catch((cause: unknown) => cause);
    assert.ok(failure instanceof StartFailure);
    assert.equal(failure.exitCode, 2);
    const [tls, keys, producers, ...more] = failure.message.split('\n');
    assert.match(tls ?? '', /^INGEST_TLS_KEY=.*ENOENT/);
    assert.match(keys ?? '', /^INGEST_TOKEN_JWKS=.*it has no keys/);
    assert.match(producers ?? '', /^INGEST_PRODUCERS_FILE="[^"]+": \/: /);
    assert.deepEqual(more, []);
    await assert.rejects(checkFiles(config, SYSTEM.clock), { exitCode: 2, message: failure.message });
  });
});

it('the files of a running gateway reach their users after a change, and bad ones are counted and logged', async () => {
  const pki = await Pki.create();
  const issuer = await TokenIssuer.create('one');
  const { config, log, lines } = configured({
    ...pki.environment,
    INGEST_PRODUCERS_FILE: pki.write('producers.json', '{"producers":{}}'),
    INGEST_TOKEN_JWKS: pki.write('jwks.json', jwks(issuer)),
  });
  const files = await readFiles(config, log, SYSTEM);
  const metrics = gatewayMetrics(SYSTEM.clock);
  const told: string[] = [];
  const users = {
    gateway: {
      replaceTls: () => Promise.resolve(void told.push('tls')),
      replaceProducers: (rows: Producers) => void told.push(String(rows.rulesFor('shop').disabled)),
      forgetVerdicts: () => void told.push('forget'),
    },
    metrics,
  };
  const watched = watchFiles(config, files, users, log, new VirtualClock());
  const kinds = ['tls', 'token_keys', 'producers'];
  const samples = async (name: string): Promise<number[]> => {
    const text = await metrics.registry.metrics();
    return kinds.map((kind) => Number(new RegExp(`^${name}\\{kind="${kind}"\\} (\\d+)$`, 'm').exec(text)?.[1]));
  };
  assert.deepEqual(await samples('ingest_reload_current'), [1, 1, 1]);
  for (const name of ['server.pem', 'producers.json', 'jwks.json']) pki.write(name, 'broken');
  watched.reload();
  assert.match(lines.shift()?.msg ?? '', /^SIGHUP: loading/);
  await eventually('each is refused', () => lines.length === 3);
  const refused = lines.map(({ level, kind }) => `${level} ${String(kind)}`).toSorted();
  assert.deepEqual(refused, ['error producers', 'error tls', 'error token_keys']);
  for (const name of ['server.pem', 'producers.json', 'jwks.json'])
    assert.match(lines.map(({ reason }) => reason).join(), new RegExp(`="${pki.path(name)}": `));
  assert.deepEqual(await samples('ingest_reload_failures_total'), [1, 1, 1]);
  assert.deepEqual(await samples('ingest_reload_current'), [0, 0, 0]);
  assert.deepEqual(told, []);
  pki.write('server.pem', pki.server.certificate);
  pki.write('ca.pem', pki.authority.certificate + new CertificateAuthority('ended', -1).certificate);
  const rows = '"shop":{"disabled":"moved","audience":["other"]},"bank":{"audience":["ingest-gateway","third"]}';
  pki.write('producers.json', `{"producers":{${rows}}}`);
  pki.write('jwks.json', jwks(issuer));
  watched.reload();
  await eventually('each is in use', () => told.length === 3);
  const warnings = lines.filter(({ level }) => level === 'warn').map(({ msg }) => String(msg));
  for (const wanted of ['"shop" grants the audience "other"', '"bank" grants the audience "third"', 'CN=ended'])
    assert.ok(warnings.some((text) => text.includes(wanted)) && warnings.length === 3, wanted);
  assert.equal(files.verifier?.keys, files.keys?.value);
  assert.deepEqual(told.toSorted(), ['forget', 'moved', 'tls']);
  assert.deepEqual(await samples('ingest_reloads_total'), [1, 1, 1]);
  assert.deepEqual(await samples('ingest_reload_current'), [1, 1, 1]);
  watched.stop();
});

it('SIGHUP requests the token keys at a URL again, also during a request, and a failure that repeats is logged once', async () => {
  const [pki, issuer] = await Promise.all([Pki.create(), TokenIssuer.create('first')]);
  const requests: ServerResponse[] = [];
  const url = await served((_request, response) => void requests.push(response));
  const { config, log, lines } = configured({ ...pki.environment, INGEST_TOKEN_JWKS: url });
  const files = await readFiles(config, log, SYSTEM);
  const metrics = gatewayMetrics(SYSTEM.clock);
  let forgotten = 0;
  const gateway = {
    replaceTls: async () => undefined,
    replaceProducers: () => undefined,
    forgetVerdicts: () => void (forgotten += 1),
  };
  const watched = watchFiles(config, files, { gateway, metrics }, log, new VirtualClock());
  const current = async (): Promise<string | undefined> =>
    /ingest_reload_current\{kind="token_keys"\} (\d)/.exec(await metrics.registry.metrics())?.[1];
  const answered = async (count: number, status: number, keys = jwks(issuer)): Promise<void> => {
    await eventually('the keys are requested', () => requests.length === count);
    requests[count - 1]?.writeHead(status).end(status === 200 ? keys : '');
  };
  watched.reload();
  await eventually('the keys are requested', () => requests.length === 1);
  watched.reload(); // The keys may have been published after the first request was answered.
  await answered(1, 500);
  await answered(2, 500);
  await eventually('the metric follows', async () => (await current()) === '0');
  watched.reload();
  await answered(3, 200);
  await eventually('the metric follows', async () => (await current()) === '1');
  watched.reload();
  await answered(4, 200);
  watched.reload();
  await answered(5, 200, jwks(await TokenIssuer.create('second')));
  await eventually('verdicts by other keys are dropped', () => forgotten === 1);
  const levels = lines.flatMap(({ msg, level }) => (msg.startsWith('the token keys') ? level : []));
  assert.deepEqual(levels, ['error', 'info']);
  watched.stop();
});
