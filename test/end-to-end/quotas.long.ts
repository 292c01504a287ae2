// A producers file that a gateway cannot start with.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';

describe('the producers file', () => {
  it('that is bad is reported by --check and by the start, with exit 2 and every problem', async () => {
    const redis = await TestRedis.start();
    const folder = temporaryFolder('ingest-producers-');
    const bad = join(folder, 'bad.json');
    writeFileSync(bad, '{"producers":{"a":{"rate":0},"b":{"types":"order"},"c":{"speed":1}}}');
    const broken = join(folder, 'broken.json');
    writeFileSync(broken, '{');
    const good = join(folder, 'good.json');
    writeFileSync(good, '{"producers":{"a":{"rate":1}}}');
    const run = (path: string, args: readonly string[]): Program =>
      new Program('ingest-gateway', {
        env: { INGEST_QUEUE_URI: redis.uri, INGEST_GATEWAY_ADDR: '127.0.0.1:0', INGEST_PRODUCERS_FILE: path },
        cwd: folder,
        args,
      });
    for (const args of [['--check'], []]) {
      for (const [path, problem] of [
        [bad, /INGEST_PRODUCERS_FILE=.*\/producers\/a\/rate.*\/producers\/b\/types.*\/producers\/c\/speed/],
        [broken, /INGEST_PRODUCERS_FILE=.*not JSON/],
        [join(folder, 'nowhere.json'), /INGEST_PRODUCERS_FILE=.*expected a readable file \(ENOENT\)/],
      ] as const) {
        const program = run(path, args);
        assert.equal(await program.ended, 2, program.output);
        assert.match(program.output, problem);
      }
    }
    assert.equal(await run(good, ['--check']).ended, 0);
  });
});
