// What a gateway says of its files at the start.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readGatewayConfig } from '../../lib/gateway/config.ts';
import { allFiles, producers, readFiles, tokenVerifier, watchFiles } from '../../lib/gateway/files.ts';
import { gatewayMetrics } from '../../lib/gateway/metrics.ts';
import { Producers } from '../../lib/gateway/producers-file.ts';
import { HANDSHAKE_FAILURES } from '../../lib/http/node/faults.ts';
import type { TlsMaterial } from '../../lib/identity/tls-material.ts';
import { ERROR_CODES } from '../../lib/ingest/errors.ts';
import { createLog } from '../../lib/process/log.ts';
import { StartFailure } from '../../lib/process/program.ts';
import { keepingLog } from '../support/gateway-in-process.ts';
import { Pki } from '../support/pki.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { jwks, TokenIssuer } from '../support/tokens.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

describe('files that are read side by side', () => {
  it('end the start with a line for each that cannot be used, and a bug is not one of them', async () => {
    const failed = (message: string): Promise<never> => Promise.reject(new StartFailure(2, message));
    await assert.rejects(allFiles([failed('one'), Promise.resolve(1), failed('two')]), { message: 'one\ntwo' });
    const bug = new TypeError('a bug');
    await assert.rejects(allFiles([failed('one'), Promise.reject(bug)]), bug);
    assert.deepEqual(await allFiles([Promise.resolve(1), Promise.resolve('a')]), [1, 'a']);
  });
});

describe('the files of a gateway that starts', () => {
  it('are used although one has expired, and a warning names its key and path; without one there is none', async (t) => {
    const pki = await Pki.create();
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    const warnings: string[] = [];
    t.mock.method(log, 'warn', (message: string) => warnings.push(message));
    const read = async (more: Readonly<Record<string, string>> = {}) => {
      const env = { INGEST_QUEUE_URI: 'redis://localhost', ...pki.environment, ...more };
      const { config, report } = readGatewayConfig(env);
      assert.ok(config !== undefined, report.problems.join());
      return readFiles(config, log, SYSTEM);
    };
    await read();
    assert.deepEqual(warnings, []);
    const old = await pki.authority.issue({
      commonName: 'localhost',
      server: true,
      notAfter: new Date(Date.now() - 60_000),
    });
    const path = pki.write('old.pem', old.certificate);
    const { material } = await read({ INGEST_TLS_CERT: path, INGEST_TLS_KEY: pki.write('old-key.pem', old.key) });
    assert.equal(material.expiry.length, 2);
    assert.deepEqual(warnings, [`INGEST_TLS_CERT="${path}": it has expired, so producers will be refused`]);
  });

  it('are taken into use again at SIGHUP: material by the gateway, rows by the quotas, and both are counted', async () => {
    const pki = await Pki.create();
    const log = createLog('test', 'error').child({}, { level: 'silent' });
    const path = pki.write('producers.json', '{"producers":{}}');
    const { config } = readGatewayConfig({
      ...{ INGEST_QUEUE_URI: 'redis://localhost', INGEST_PRODUCERS_FILE: path },
      ...pki.environment,
    });
    assert.ok(config !== undefined);
    const files = await readFiles(config, log, SYSTEM);
    pki.write('producers.json', '{"producers":{"shop":{"disabled":"moved"}}}');
    const metrics = gatewayMetrics(ERROR_CODES, HANDSHAKE_FAILURES, SYSTEM.clock);
    const [material, forgotten, rows] = [
      Promise.withResolvers<TlsMaterial>(),
      Promise.withResolvers<void>(),
      Promise.withResolvers<Producers>(),
    ];
    const seen: TlsMaterial[] = [];
    const users = {
      gateway: { replaceTls: material.resolve, forgetVerdicts: forgotten.resolve },
      quotas: { replace: rows.resolve },
      metrics,
      onMaterial: (changed: TlsMaterial) => void seen.push(changed),
    };
    const watched = watchFiles(config, files, users, log, new VirtualClock());
    watched.reload();
    assert.equal((await rows.promise).rulesFor('shop').disabled, 'moved');
    assert.deepEqual([await material.promise], seen);
    await forgotten.promise;
    watched.stop();
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([metrics.tlsReloads.value, metrics.producersReloads.value], [1, 1]);
    assert.deepEqual([metrics.tlsReloadFailures.value, metrics.producersReloadFailures.value], [0, 0]);
  });

  /** A gateway's configuration with `more`, and a log that keeps its lines. */
  function configured(more: Readonly<Record<string, string>>) {
    const { config, report } = readGatewayConfig({ INGEST_QUEUE_URI: 'redis://localhost', ...more });
    assert.ok(config !== undefined, report.problems.join());
    return { config, ...keepingLog() };
  }

  it('are certificates for development where none are named, with a warning, and in a folder that can be written', async () => {
    const folder = temporaryFolder();
    const { config, log, lines } = configured({ INGEST_STATE_DIR: folder });
    const { tls } = await readFiles(config, log, SYSTEM);
    assert.deepEqual(Object.keys(tls), ['cert', 'key', 'clientCa']);
    for (const path of Object.values(tls)) assert.ok(existsSync(path as string), path as string);
    assert.deepEqual(lines, [
      {
        level: 'warn',
        msg: 'no TLS material is configured: using development certificates, which are not for production',
        folder,
      },
    ]);
    const file = join(folder, 'file');
    writeFileSync(file, '');
    const wrong = configured({ INGEST_STATE_DIR: join(file, 'state') });
    await assert.rejects(readFiles(wrong.config, wrong.log, SYSTEM), {
      exitCode: 2,
      message: `INGEST_STATE_DIR="${join(file, 'state')}": expected a writable folder for development certificates (ENOTDIR)`,
    });
  });

  it('are token keys only where they are named, and say what is wrong with them', async () => {
    const pki = await Pki.create();
    const none = configured(pki.environment);
    assert.equal(await tokenVerifier(none.config), undefined);
    const { config } = configured({ ...pki.environment, INGEST_TOKEN_JWKS: pki.write('jwks.json', 'no keys') });
    await assert.rejects(tokenVerifier(config), (cause) => {
      assert.ok(cause instanceof StartFailure);
      assert.equal(cause.exitCode, 2);
      assert.match(cause.message, /jwks\.json/);
      return true;
    });
  });

  it('restrict no producer where there is no producers file, and say what is wrong with one', async () => {
    const pki = await Pki.create();
    assert.equal(await producers(configured(pki.environment).config), Producers.UNRESTRICTED);
    const path = pki.path('none.json');
    const { config } = configured({ ...pki.environment, INGEST_PRODUCERS_FILE: path });
    await assert.rejects(producers(config), {
      exitCode: 2,
      message: `INGEST_PRODUCERS_FILE="${path}": expected a readable file (ENOENT)`,
    });
    pki.write('none.json', '[]');
    await assert.rejects(producers(config), { exitCode: 2, message: /^INGEST_PRODUCERS_FILE="[^"]+": \/: / });
  });

  it('stay as they are where changed ones cannot be used, each of which is counted and logged', async () => {
    const pki = await Pki.create();
    const issuer = await TokenIssuer.create('one');
    const { config, log, lines } = configured({
      ...pki.environment,
      INGEST_PRODUCERS_FILE: pki.write('producers.json', '{"producers":{}}'),
      INGEST_TOKEN_JWKS: pki.write('jwks.json', jwks(issuer)),
    });
    const files = await readFiles(config, log, SYSTEM);
    const metrics = gatewayMetrics(ERROR_CODES, HANDSHAKE_FAILURES, SYSTEM.clock);
    const told: string[] = [];
    const users = {
      gateway: { replaceTls: () => told.push('tls'), forgetVerdicts: () => told.push('forget') },
      quotas: undefined,
      metrics,
      onMaterial: () => told.push('material'),
    };
    const watched = watchFiles(config, files, users, log, new VirtualClock());
    for (const name of ['server.pem', 'producers.json', 'jwks.json']) pki.write(name, 'broken');
    watched.reload();
    assert.deepEqual(lines.splice(0), [
      { level: 'info', msg: 'SIGHUP: loading TLS material, token keys and the producers file again' },
    ]);
    await eventually('each is refused', () => lines.length === 3);
    assert.equal(metrics.tlsReloadFailures.value, 1);
    assert.equal(metrics.producersReloadFailures.value, 1);
    assert.deepEqual(told, []);
    assert.ok(lines.every(({ level }) => level === 'error'));
    assert.ok(lines.some(({ msg }) => msg === 'changed token keys refused; the last good ones stay'));
    const line = lines.find(({ msg }) => msg === 'a changed producers file was refused; the last good one stays');
    assert.match(String(line?.['reason']), /^not JSON/);
    lines.length = 0;
    pki.write('server.pem', pki.server.certificate);
    pki.write('producers.json', '{"producers":{}}');
    pki.write('jwks.json', jwks(issuer));
    watched.reload();
    await eventually('each is in use', () => told.length === 4);
    assert.deepEqual(told.toSorted(), ['forget', 'forget', 'material', 'tls']);
    assert.ok(lines.some(({ msg }) => msg === 'token keys changed and are in use'));
    assert.ok(lines.some(({ msg }) => msg === 'the producers file changed and is in use'));
    watched.stop();
  });

  it('are watched as they looked before they were read, and no longer than the gateway runs', async () => {
    const pki = await Pki.create();
    const path = pki.write('producers.json', '{"producers":{}}');
    const { config, log } = configured({ ...pki.environment, INGEST_PRODUCERS_FILE: path });
    const files = await readFiles(config, log, SYSTEM);
    assert.deepEqual([...files.before.keys()].toSorted(), [...Object.values(config.tls).slice(1), path].toSorted());
    const clock = new VirtualClock();
    const users = {
      gateway: { replaceTls: () => undefined, forgetVerdicts: () => undefined },
      quotas: undefined,
      metrics: gatewayMetrics(ERROR_CODES, HANDSHAKE_FAILURES, SYSTEM.clock),
      onMaterial: () => undefined,
    };
    const watched = watchFiles(config, files, users, log, clock);
    await eventually('both are watched', () => clock.pending === 2);
    watched.stop();
    assert.equal(clock.pending, 0);
  });
});
