// `make generators`: clients of orval and Kubb work against a real gateway, and the validators of OpenAPI and AsyncAPI
// accept both API files. Outside the suite, because the tools bring 380 packages.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { API_FILE } from '../support/api-file.ts';
import { ClientRunner, clientsFolder, faultsOf, HEAD, SAID } from './generated-client.ts';

const QUEUE_FILE = new URL('../../openapi/queue.asyncapi.yaml', import.meta.url).pathname;
const TOOLS = new URL('../../.ingest/generators/', import.meta.url).pathname;
const tools = createRequire(join(TOOLS, 'package.json'));

/** A package in `TOOLS`, whose types are unknown here. */
const load = async <Exports>(name: string): Promise<Exports> =>
  (await import(pathToFileURL(tools.resolve(name)).href)) as Exports;

describe('the API file', () => {
  it('gets no error and no warning from `redocly lint`, as the file of the queue', () => {
    for (const file of [API_FILE, QUEUE_FILE]) {
      const args = [join(TOOLS, 'node_modules/@redocly/cli/bin/cli.js'), 'lint', '--extends=recommended', file];
      const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env });
      assert.equal(status, 0, stdout + stderr);
      assert.match(stdout + stderr, /description is valid/);
      assert.doesNotMatch(stdout + stderr, /\bwarning/i, file);
    }
  });
});

describe('the file of the queue', () => {
  it('gets no diagnostic from the parser of AsyncAPI', async () => {
    const { Parser } = await load<{
      Parser: new () => { parse(text: string): Promise<{ document?: object; diagnostics: { message: string }[] }> };
    }>('@asyncapi/parser');
    const { document, diagnostics } = await new Parser().parse(readFileSync(QUEUE_FILE, 'utf8'));
    assert.ok(document !== undefined);
    assert.deepEqual(diagnostics, []);
  });
});

describe('a client generated', () => {
  const folder = clientsFolder('generators');
  let runner: ClientRunner;
  before(async () => {
    runner = await ClientRunner.start();
  });

  it('by orval type-checks, knows every code, and works', async () => {
    const { generate } = await load<{ generate: (options: object) => Promise<void> }>('orval');
    await generate({
      input: API_FILE,
      output: {
        target: join(folder, 'orval.ts'),
        client: 'fetch',
        baseUrl: { runtime: "process.env['GATEWAY']" },
        urlEncodeParameters: true,
      },
    });
    const path = join(folder, 'with-orval.ts');
    writeFileSync(
      path,
      `import { acceptEvent, findEvent, ready } from './orval.ts';
${HEAD}
void baseUrl;
globalThis.fetch = fetch;
const accepted = await acceptEvent({ id: 'a/b 1', type: 'order.placed', total: 2 });
if (accepted.status !== 202) throw new Error('not accepted');
say({ id: accepted.data.id, status: accepted.data.status });
const found = await findEvent('a/b 1');
if (found.status !== 200 || found.data.status !== 'accepted') throw new Error('not accepted');
say([found.data.status, found.data.id, found.data.event['total']]);
const refused = await acceptEvent({ id: 'b', type: 'two words' });
if (refused.status !== 400) throw new Error('not refused');
const code: 'INVALID_EVENT' | 'INVALID_COMPRESSION' = refused.data.code;
const retryable: boolean = refused.data.retryable;
say([code, retryable, 'errors' in refused.data ? refused.data.errors?.[0]?.path : undefined]);
const unknown = await findEvent('unknown');
if (unknown.status !== 404) throw new Error('not unknown');
const notFound: 'EVENT_NOT_FOUND' = unknown.data.code;
say([notFound, unknown.data.retryable]);
say((await ready()).data.status);
// @ts-expect-error -- an event needs a type
void (() => acceptEvent({ id: 'c' }));
`,
    );
    assert.deepEqual(faultsOf(path), []);
    assert.deepEqual(await runner.run(path), SAID);
  });

  it('by Kubb type-checks, knows every code, and works', async () => {
    const script = `import { build } from '@kubb/core';
import { pluginClient } from '@kubb/plugin-client';
import { pluginOas } from '@kubb/plugin-oas';
import { pluginTs } from '@kubb/plugin-ts';
const plugins = [pluginOas({}), pluginTs({}), pluginClient({ client: 'fetch', dataReturnType: 'full' })];
const input = { path: ${JSON.stringify(API_FILE)} };
const { error } = await build({ config: { root: '.', input, output: { path: './kubb' }, plugins } });
if (error !== undefined) throw error;
`;
    writeFileSync(join(folder, 'generate.js'), script);
    // Kubb writes some files relative to the working directory.
    const generated = spawnSync(process.execPath, ['generate.js'], { cwd: folder, encoding: 'utf8' });
    assert.equal(generated.status, 0, generated.stderr);
    const path = join(folder, 'with-kubb.ts');
    writeFileSync(
      path,
      `import { setConfig } from '@kubb/plugin-client/clients/fetch';
import { acceptEvent } from './kubb/clients/acceptEvent.ts';
import { findEvent } from './kubb/clients/findEvent.ts';
import { ready } from './kubb/clients/ready.ts';
import type { AcceptEvent400 } from './kubb/types/AcceptEvent.ts';
import type { FindEvent404 } from './kubb/types/FindEvent.ts';
${HEAD}
globalThis.fetch = fetch;
setConfig({ baseURL: baseUrl, headers: { 'Content-Type': 'application/json' } });
const accepted = await acceptEvent({ id: 'a/b 1', type: 'order.placed', total: 2 });
say({ id: accepted.data.id, status: accepted.data.status });
const found = await findEvent(encodeURIComponent('a/b 1'));
if (found.data.status !== 'accepted') throw new Error('not accepted');
say([found.data.status, found.data.id, found.data.event['total']]);
const refused = await acceptEvent({ id: 'b', type: 'two words' });
if (refused.status !== 400) throw new Error('not refused');
const problem = refused.data as unknown as AcceptEvent400;
const code: 'INVALID_EVENT' | 'INVALID_COMPRESSION' = problem.code;
const retryable: boolean = problem.retryable;
say([code, retryable, 'errors' in problem ? problem.errors?.[0]?.path : undefined]);
const unknown = (await findEvent('unknown')).data as unknown as FindEvent404;
const notFound: 'EVENT_NOT_FOUND' = unknown.code;
say([notFound, unknown.retryable]);
say((await ready()).data.status);
// @ts-expect-error -- an event needs a type
void (() => acceptEvent({ id: 'c' }));
`,
    );
    assert.deepEqual(faultsOf(path), []);
    assert.deepEqual(await runner.run(path), SAID);
  });
});
