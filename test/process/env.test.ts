// Reading an environment: all problems at once, each with key, value and what is wanted, and no secret in any of them.
import assert from 'node:assert/strict';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { EnvReader, KNOWN_KEYS, maskedUri, shown, type Environment } from '../../lib/process/env.ts';
import { temporaryFolder } from '../support/scope.ts';

const folder = temporaryFolder();
const file = (name: string, content: string): string => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};

/** The URI that an environment gives, and the problems that it makes. */
function uri(environment: Environment, required = true): [string | undefined, readonly string[]] {
  const env = new EnvReader(environment);
  const value = env.uri('INGEST_QUEUE_URI', ['redis:', 'rediss:'], required);
  return [value, env.report().problems];
}

describe('an environment', () => {
  it('tells all its problems in one report, each with key, value and what is wanted', () => {
    const env = new EnvReader({ A: 'x', B: '5', C: 'loud', D: 'nowhere', INGEST_QUEUE_URI: 'http://user:hunter2@h/' });
    assert.equal(env.integer('A', 1, 0, 10), 1);
    assert.equal(env.integer('B', 1, 6, 10), 1);
    assert.equal(env.oneOf('C', 'info', ['info', 'warn']), 'info');
    assert.deepEqual(env.address('D', { host: '::1', port: 1 }), { host: '::1', port: 1 });
    env.uri('INGEST_QUEUE_URI', ['redis:', 'rediss:'], true);
    assert.deepEqual(env.report().problems, [
      'A="x": a whole number from 0 to 10 is wanted',
      'B="5": a whole number from 6 to 10 is wanted',
      'C="loud": one of info, warn is wanted',
      'D="nowhere": host:port or [v6-address]:port is wanted, with a port from 0 to 65535',
      'INGEST_QUEUE_URI="http://user:***@h/": a URI that begins with redis:// or rediss:// is wanted',
    ]);
  });

  it('gives defaults for what is unset or empty', () => {
    const env = new EnvReader({ A: '', B: '', C: '', D: '' });
    assert.deepEqual(
      [env.integer('A', 7, 0, 9), env.oneOf('B', 'x', ['x']), env.text('C', 'y'), env.text('D')],
      [7, 'x', 'y', undefined],
    );
    assert.deepEqual(env.report(), { problems: [], warnings: [] });
  });

  it('takes whole numbers in plain digits within their bounds, and nothing else', () => {
    for (const [text, wanted] of [
      ['0', 0],
      ['10', 10],
      ['007', 7],
      ['11', -1],
      ['-1', -1],
      ['1.5', -1],
      ['1e1', -1],
      ['0x1', -1],
      [' 1', -1],
      ['1_0', -1],
      ['9'.repeat(20), -1],
    ] as const) {
      assert.equal(new EnvReader({ N: text }).integer('N', -1, 0, 10), wanted, text);
    }
  });

  it('takes addresses with a port, IPv6 ones in brackets', () => {
    const fallback = { host: 'fallback', port: 1 };
    for (const [text, host, port] of [
      ['127.0.0.1:0', '127.0.0.1', 0],
      ['localhost:65535', 'localhost', 65535],
      ['[::1]:8443', '::1', 8443],
      ['0.0.0.0:1', '0.0.0.0', 1],
      ['[fe80::1%eth0]:2', 'fe80::1%eth0', 2],
      [':8443', 'fallback', 1],
      ['host', 'fallback', 1],
      ['host:', 'fallback', 1],
      ['host:65536', 'fallback', 1],
      ['::1:8443', 'fallback', 1],
      ['https://host:1', 'fallback', 1],
      ['host:1/', 'fallback', 1],
      ['a b:1', 'fallback', 1],
      ['[::1]', 'fallback', 1],
      ['host:+1', 'fallback', 1],
    ] as const) {
      assert.deepEqual(new EnvReader({ A: text }).address('A', fallback), { host, port }, text);
    }
  });
});

describe('an unknown key', () => {
  it('is a warning that names the nearest known one; other prefixes are none of our business', () => {
    const { warnings, problems } = new EnvReader({
      INGEST_QUEUE_URL: 'x',
      INGEST_LOGLEVEL: 'x',
      ingest_addr: 'x',
      OTHER: 'x',
      INGEST_LOG_LEVEL: 'x',
    }).report();
    assert.deepEqual(problems, []);
    assert.deepEqual(warnings, [
      'INGEST_QUEUE_URL is not a known key; the nearest one is INGEST_QUEUE_URI',
      'INGEST_LOGLEVEL is not a known key; the nearest one is INGEST_LOG_LEVEL',
    ]);
  });

  it('is found for every single slip in a known key', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...KNOWN_KEYS),
        fc.nat(),
        fc.constantFrom('drop', 'double', 'change'),
        (key, seed, slip) => {
          const at = 7 + (seed % (key.length - 7));
          const typed =
            key.slice(0, at) + { drop: '', double: (key[at] ?? '').repeat(2), change: '9' }[slip] + key.slice(at + 1);
          fc.pre(!KNOWN_KEYS.includes(typed));
          const [warning = '', ...more] = new EnvReader({ [typed]: '' }).report().warnings;
          assert.deepEqual(more, []);
          const named = warning.replace(`${typed} is not a known key; the nearest one is `, '').split(' or ');
          assert.ok(named.includes(key), warning);
        },
      ),
    );
  });

  it('names both where two are equally near', () => {
    assert.deepEqual(new EnvReader({ INGEST_TLS_CLIENT_CR: 'x' }).report().warnings, [
      'INGEST_TLS_CLIENT_CR is not a known key; the nearest one is INGEST_TLS_CLIENT_CA or INGEST_TLS_CLIENT_CRL',
    ]);
  });
});

describe('a URI', () => {
  it('is read from its key, or from the file that its _FILE key names, without the last line break', () => {
    const wanted = 'redis://user:p%40ss@host:6379/2';
    assert.deepEqual(uri({ INGEST_QUEUE_URI: wanted }), [wanted, []]);
    assert.deepEqual(uri({ INGEST_QUEUE_URI_FILE: file('uri', `${wanted}\n`) }), [wanted, []]);
    assert.deepEqual(uri({ INGEST_QUEUE_URI: '', INGEST_QUEUE_URI_FILE: file('uri', wanted) }), [wanted, []]);
  });

  it('is missed by name, with both ways to give it, when it is required', () => {
    assert.deepEqual(uri({}, false), [undefined, []]);
    const [value, [problem]] = uri({});
    assert.equal(value, undefined);
    assert.match(problem ?? '', /^INGEST_QUEUE_URI: is required: .*redis:\/\/.*INGEST_QUEUE_URI_FILE/);
  });

  it('may not be given twice', () => {
    const [value, problems] = uri({ INGEST_QUEUE_URI: 'redis://h', INGEST_QUEUE_URI_FILE: file('uri', 'redis://h') });
    assert.equal(value, undefined);
    assert.match(problems.join(), /^INGEST_QUEUE_URI_FILE=.*only one of INGEST_QUEUE_URI and INGEST_QUEUE_URI_FILE/);
  });

  it('has one problem, that names the file, when its file is absent, empty or a folder', () => {
    for (const [path, why] of [
      [join(folder, 'absent'), /ENOENT/],
      [file('empty', '\n'), /empty/],
      [folder, /EISDIR/],
    ] as const) {
      const [value, problems] = uri({ INGEST_QUEUE_URI_FILE: path });
      assert.equal(value, undefined);
      assert.equal(problems.length, 1);
      assert.match(problems[0] ?? '', why);
      assert.ok(problems[0]?.startsWith(`INGEST_QUEUE_URI_FILE=${JSON.stringify(path)}: `), String(problems[0]));
    }
  });

  it('of another scheme or without a host is a problem that does not show the password, from a file either', () => {
    for (const text of [
      'http://u:hunter2@host',
      'redis:hunter2',
      'redis://',
      'hunter2',
      'redis//u:hunter2@host',
      'redis://u:hunter2@ho st',
      'redis://u:hunter2@host:99999',
    ]) {
      const secret = file('secret', text);
      chmodSync(secret, 0o600);
      for (const environment of [{ INGEST_QUEUE_URI: text }, { INGEST_QUEUE_URI_FILE: secret }]) {
        const [value, problems] = uri(environment);
        assert.equal(value, undefined, text);
        assert.equal(problems.length, 1);
        assert.match(problems[0] ?? '', /^INGEST_QUEUE_URI(_FILE)?=/);
        assert.doesNotMatch(problems[0] ?? '', /hunter2/);
      }
    }
  });

  it('is shown without password and query', () => {
    assert.equal(maskedUri('rediss://user:hunter2@host:6379/1'), 'rediss://user:***@host:6379/1');
    assert.equal(maskedUri('redis://:hunter2@host'), 'redis://:***@host');
    assert.equal(maskedUri('postgres://host/db?password=hunter2'), 'postgres://host/db?***');
    assert.equal(maskedUri('redis://pass#hunter2@host'), 'redis://pass#***');
    assert.equal(maskedUri('no uri hunter2'), '***');
    assert.equal(shown('INGEST_LOG_LEVEL', 'loud'), '"loud"');
    assert.equal(shown('INGEST_WAREHOUSE_URI', 'sqlite:a b/c.db'), '"sqlite:a b/c.db"');
  });

  it('never shows its password, whatever it is', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 6 }), (password) => {
        const text = `redis://user:${encodeURIComponent(`!${password}!`)}@host`;
        assert.ok(!maskedUri(text).includes(encodeURIComponent(password)));
      }),
    );
  });
});
