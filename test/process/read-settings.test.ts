import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Settings, type Environment } from '../../lib/process/read-settings.ts';
import { addressText, type PlainSetting } from '../../lib/process/setting-kinds.ts';
import { bindsChannel, maskedUri, quotedValue, sqlitePath, sqliteUri } from '../../lib/process/uri.ts';
import { KNOWN_KEYS, RETIRED, SETTINGS, type Key } from '../../lib/process/settings.ts';
import { shownSettings } from '../../lib/process/settings-help.ts';
import { temporaryFolder } from '../support/scope.ts';

const folder = temporaryFolder();
const file = (name: string, content: string): string => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};

const gateway = (environment: Environment): Settings =>
  new Settings({ INGEST_QUEUE_URI: 'redis://h', ...environment }, 'gateway');

function uri(environment: Environment, key: Key = 'INGEST_QUEUE_URI'): [unknown, readonly string[]] {
  const settings = new Settings(environment, 'gateway');
  return [settings.get(key), settings.read({}).report.problems];
}

it('the settings in the log are those of this program that the environment sets, without secrets', () => {
  const environment = {
    INGEST_QUEUE_URI: 'redis+sentinel://:hunter2@h:1,i:2/main',
    INGEST_WAREHOUSE_URI_FILE: '/run/secrets/warehouse',
    INGEST_TOKEN_JWKS: 'https://user:hunter2@keys/?key=hunter2',
    INGEST_AUDIENCE: 'urn:x',
  };
  const others = {
    INGEST_AUDIENCE_FILE: '/x',
    INGEST_GATEWAY_ADDR: '',
    INGEST_BATCH_MAX: '9',
    PATH: 'x',
    INGEST_X: 'x',
  };
  assert.deepEqual(shownSettings({ ...environment, ...others }, 'gateway'), {
    ...environment,
    INGEST_QUEUE_URI: 'redis+sentinel://:***@h:1,i:2/main',
    INGEST_TOKEN_JWKS: 'https://user:***@keys/?***',
  });
});

describe('an environment', () => {
  it('has all its problems in one report, each with key, value and expectation', () => {
    const settings = gateway({
      INGEST_QUEUE_URI: 'http://user:hunter2@h/',
      INGEST_QUEUE_DURABILITY: 'maybe',
      INGEST_GATEWAY_ADDR: 'nowhere',
      INGEST_BODY_BYTES_MAX: 'x',
      INGEST_IN_FLIGHT_MAX: '0',
    });
    const [uri, ...others] = settings.read({}).report.problems;
    assert.ok(uri?.startsWith('INGEST_QUEUE_URI="http://user:***@h/": expected a URI that begins with redis:// or '));
    assert.deepEqual(others, [
      'INGEST_QUEUE_DURABILITY="maybe": expected one of warn, require',
      'INGEST_GATEWAY_ADDR="nowhere": expected host:port or [v6-address]:port, with a port from 0 to 65535',
      'INGEST_BODY_BYTES_MAX="x": expected a whole number from 1 to 67108864',
      'INGEST_IN_FLIGHT_MAX="0": expected a whole number from 1 to 1000000',
    ]);
    assert.deepEqual(
      [settings.get('INGEST_BODY_BYTES_MAX'), settings.get('INGEST_GATEWAY_ADDR')],
      [262_144, { host: '127.0.0.1', port: 8443 }],
      'the default replaces a value with a problem',
    );
  });

  it('has defaults for unset and empty settings', () => {
    const settings = gateway({ INGEST_BODY_BYTES_MAX: '', INGEST_AUDIENCE: '' });
    const keys = ['INGEST_BODY_BYTES_MAX', 'INGEST_LOG_LEVEL', 'INGEST_AUDIENCE', 'INGEST_TLS_CERT'] as const;
    assert.deepEqual(
      keys.map((key) => settings.get(key)),
      [262_144, 'info', 'ingest-gateway', undefined],
    );
    assert.equal(settings.given('INGEST_AUDIENCE'), false);
    assert.deepEqual(settings.read({}).report, { problems: [], warnings: [] });
  });

  it("may have any value for another program's key", () => {
    const environment = { INGEST_QUEUE_URI: 'redis://h', INGEST_WAREHOUSE_URI: 'sqlite:w', INGEST_BODY_BYTES_MAX: 'x' };
    assert.deepEqual(new Settings(environment, 'consumer').read({}).report, { problems: [], warnings: [] });
  });
});

describe('the value of a setting', () => {
  const same = (...texts: readonly string[]): Record<string, string> =>
    Object.fromEntries(texts.map((one) => [one, one]));
  const malformed = [':8443', 'host', 'host:', 'host:65536', '::1:8443', 'https://host:1', 'host:1/', 'a b:1'];
  const cases: Partial<Record<Key, readonly [good: Readonly<Record<string, unknown>>, bad: readonly string[]]>> = {
    INGEST_CONSUMER_BATCH_MAX: [
      { 1: 1, 10000: 10_000, '007': 7 },
      ['10001', '0', '-1', '1.5', '1e1', '0x1', ' 1', '1_0', '9'.repeat(20)],
    ],
    INGEST_CONSUMER_ADDR: [
      {
        '127.0.0.1:0': { host: '127.0.0.1', port: 0 },
        'localhost:65535': { host: 'localhost', port: 65535 },
        '[::1]:8443': { host: '::1', port: 8443 },
        '[fe80::1%eth0]:2': { host: 'fe80::1%eth0', port: 2 },
      },
      [...malformed, '[::1]', '[zz]:1', '[1.2.3.4]:1', 'host:+1'],
    ],
    INGEST_ADMIN_ONLY: [{ 1: true, 0: false }, ['true', 'yes', '2']],
    INGEST_AUDIENCE: [same('a', '!'.repeat(200)), ['two words', 'é', 'a'.repeat(201)]],
    INGEST_TOKEN_JWKS: [
      same('keys.json', '/etc/keys.json', 'https://keys:8443/x'),
      ['http://keys', 'HTTPS://', 'file:///keys.json', 'https://', 'https://user:hunter2@keys'],
    ],
  };
  for (const [key, [good, bad]] of Object.entries(cases))
    it(`of ${key} is checked completely`, () => {
      const { parse } = SETTINGS[key as Key] as PlainSetting<unknown>;
      for (const [text, value] of Object.entries(good)) assert.deepEqual(parse(text), value, text);
      for (const text of bad) assert.equal(parse(text), undefined, text);
    });
});

it('the text of an IPv6 address has brackets', () =>
  assert.deepEqual(
    ['::1', 'localhost'].map((host) => addressText({ host, port: 1 })),
    ['[::1]:1', 'localhost:1'],
  ));

describe('an unknown key', () => {
  it('with the prefix of the project is a warning that names the nearest known key', () => {
    const unknown = {
      INGEST_QUEUE_URL: 'x',
      INGEST_LOGLEVEL: 'x',
      ingest_addr: 'x',
      OTHER: 'x',
      INGEST_LOG_LEVEL: 'warn',
    };
    assert.deepEqual(gateway(unknown).read({}).report, {
      problems: [],
      warnings: [
        'INGEST_QUEUE_URL is not a known key; the nearest one is INGEST_QUEUE_URI',
        'INGEST_LOGLEVEL is not a known key; the nearest one is INGEST_LOG_LEVEL',
      ],
    });
  });

  it('of an earlier version is answered with what to do, and none that Kubernetes adds for a Service is unknown', () => {
    const services = {
      ...{
        INGEST_GATEWAY_SERVICE_HOST: '10.0.0.1',
        INGEST_GATEWAY_SERVICE_PORT: '443',
        INGEST_GATEWAY_PORT: 'tcp://a',
      },
      ...{ INGEST_GATEWAY_SERVICE_PORT_PRODUCERS: '443', INGEST_GATEWAY_PORT_443_TCP_ADDR: '10.0.0.1' },
      ...{ INGEST_REDIS_SERVICE_HOST: '10.0.0.2', INGEST_REDIS_PORT_6379_TCP: 'tcp://b', INGEST_OTHER_PORT: '1' },
      INGEST_GATEWAY_PORTS: '1',
    };
    const { warnings } = gateway({ INGEST_HEADERS_TIMEOUT_MS: '5', ...services }).read({}).report;
    assert.deepEqual(
      warnings.map((text) => text.replace(/;.*/, '')),
      [
        'INGEST_HEADERS_TIMEOUT_MS has no effect since an earlier version: the head of a request may take half of ' +
          'INGEST_REQUEST_TIMEOUT_MS',
        'INGEST_OTHER_PORT is not a known key',
        'INGEST_GATEWAY_PORTS is not a known key',
      ],
    );
    for (const key of Object.keys(RETIRED)) assert.ok(!KNOWN_KEYS.includes(key), key);
  });

  it('can be the _FILE form of a key that is not a URI', () => {
    const { warnings } = gateway({ INGEST_AUDIENCE_FILE: '/x', INGEST_WAREHOUSE_URI_FILE: '' }).read({}).report;
    assert.deepEqual(warnings, ['INGEST_AUDIENCE_FILE is not a known key; the nearest one is INGEST_AUDIENCE']);
  });
});

describe('a URI', () => {
  it('is read from its key, or from the file of its _FILE key, without the last line break', () => {
    const wanted = 'redis://user:p%40ss@host:6379/2';
    assert.deepEqual(uri({ INGEST_QUEUE_URI: wanted }), [wanted, []]);
    assert.deepEqual(uri({ INGEST_QUEUE_URI_FILE: file('uri', `${wanted}\n`) }), [wanted, []]);
    assert.deepEqual(uri({ INGEST_QUEUE_URI: '', INGEST_QUEUE_URI_FILE: file('uri', wanted) }), [wanted, []]);
  });

  it('of PostgreSQL names one host and only supported parameters, and warns of an unencrypted connection', () => {
    const read = (rest: string): readonly [number, number] => {
      const { problems, warnings } = gateway({ INGEST_WAREHOUSE_URI: `postgres://${rest}` }).read({}).report;
      return [problems.length, warnings.filter((line) => /INGEST_WAREHOUSE_URI: .*not encrypted/.test(line)).length];
    };
    const wrong = `h1,h2/db u:p@h1:5432,h2:5433/db h/db?host=a,b h/db?sslmod=require h/db?sslmode=strict h/db?sslmode=
      h/db?sslmode=require&sslmode=disable h/db?sslmode=disable&sslrootcert=/ca.pem h/db?target_session_attrs=any h/db#x
      h/db?channel_binding=require h/db?sslmode=require&channel_binding=always h/db?sslrootcert=${join(folder, 'absent')}
      h/db?sslkey=${folder}/uri/below h/db?sslrootcert=/dev/zero h:65536/db`;
    for (const rest of wrong.split(/\s+/)) assert.equal(read(rest)[0], 1, rest);
    const encrypted = `h/db?sslmode=verify-full h/db?sslrootcert=${file('ca.pem', 'x')} localhost:5432/db [::1]/db
      u:p@ep-1.neon.tech/db?sslmode=require&channel_binding=require localhost/db?channel_binding=prefer
      h/db?host=%2Fvar%2Frun`;
    for (const rest of encrypted.split(/\s+/)) assert.deepEqual(read(rest), [0, 0], rest);
    for (const rest of ['h/db', 'u:p@192.0.2.1/db?sslmode=disable']) assert.deepEqual(read(rest), [0, 1], rest);
    const inFile = gateway({ INGEST_WAREHOUSE_URI_FILE: file('plain', 'postgres://h/db') }).read({}).report;
    assert.match(inFile.warnings.join(), /^INGEST_WAREHOUSE_URI: .*not encrypted/);
    const bindings = ['prefer', 'require', 'disable', ''].map((one) =>
      bindsChannel(`postgres://h/?channel_binding=${one}`),
    );
    assert.deepEqual(bindings, [true, true, false, false]);
  });

  it('with a blank is a problem that shows no password', () => {
    const queue = ['redis://u:first second@h', 'redis://a redis://u:secret@b', ' redis://u:first second@h'];
    const hidden = /^INGEST_QUEUE_URI="\*\*\*": expected .*percent-encoded/;
    for (const value of [...queue, 'redis://h/0 1', 'redis://u:first\tsecond@h'])
      assert.match(uri({ INGEST_QUEUE_URI: value })[1].join('\n'), hidden);
    for (const [value, masked] of [
      ['postgres://u:first second@h/db', '***'],
      ['sqlite:/var/first second.db', 'sqlite:/var/first second.db'],
    ] as const) {
      const [, [problem]] = uri({ INGEST_QUEUE_URI: 'redis://h', INGEST_WAREHOUSE_URI: value }, 'INGEST_WAREHOUSE_URI');
      assert.ok(
        problem?.startsWith(`INGEST_WAREHOUSE_URI="${masked}": expected user, password and path to be percent-encoded`),
        String(problem),
      );
    }
  });

  it('of SQLite has its path percent-encoded', () => {
    const read = (value: string): unknown =>
      uri({ INGEST_QUEUE_URI: 'redis://h', INGEST_WAREHOUSE_URI: value }, 'INGEST_WAREHOUSE_URI')[1].length;
    assert.deepEqual(['sqlite:/var/a%20b%25.db', 'sqlite:/var/100%.db'].map(read), [0, 1]);
    assert.equal(sqlitePath('sqlite:/var/a%20b%25.db'), '/var/a b%.db');
    assert.equal(sqliteUri('/var/a b%.db'), 'sqlite:/var/a%20b%25.db');
    assert.equal(sqlitePath('postgres://h/db'), undefined);
  });

  it('that is missing, set twice, or in a missing file, an empty file or a folder is a problem that names the key', () => {
    assert.deepEqual(uri({ INGEST_QUEUE_URI: 'redis://h' }, 'INGEST_WAREHOUSE_URI'), [undefined, []]);
    const twice = { INGEST_QUEUE_URI: 'redis://h', INGEST_QUEUE_URI_FILE: file('uri', 'redis://h') };
    const paths = [join(folder, 'absent'), file('empty', '\n'), folder];
    for (const [environment, expected] of [
      [{}, /^INGEST_QUEUE_URI: is required: .*redis:\/\/.*INGEST_QUEUE_URI_FILE/],
      [twice, /^INGEST_QUEUE_URI_FILE=.*only one of INGEST_QUEUE_URI and INGEST_QUEUE_URI_FILE/],
      ...paths.map(
        (path) => [{ INGEST_QUEUE_URI_FILE: path }, new RegExp(`^INGEST_QUEUE_URI_FILE="${path}": `)] as const,
      ),
    ] as const) {
      const [value, problems] = uri(environment);
      assert.deepEqual([value, problems.length], [undefined, 1]);
      assert.match(problems.join(), expected);
    }
  });

  it('of another scheme or without a scheme or a host is a problem that shows no password', () => {
    const wrong = `user:hunter2@host http://u:hunter2@host redis:hunter2 redis:// hunter2 redis//u:hunter2@host
      redis://u:hunter2@host:99999 redis://u:hunter2@host:0 redis+cluster://u:hunter2@a:99999,b:1`;
    for (const text of [...wrong.split(/\s+/), 'redis://u:hunter2@ho st'])
      for (const environment of [{ INGEST_QUEUE_URI: text }, { INGEST_QUEUE_URI_FILE: file('secret', text) }]) {
        const [value, problems] = uri(environment);
        assert.deepEqual([value, problems.length], [undefined, 1], text);
        assert.match(problems[0] ?? '', /^INGEST_QUEUE_URI(_FILE)?=(?!.*hunter2)/);
      }
  });

  it('with #, / or ? in its password is a problem that explains the encoding and shows no password', () => {
    for (const start of ['redis://user', 'postgres://user', 'redis+sentinel://user'])
      for (const password of ['12#34', 'ab#cd', '12/34', 'ab?cd']) {
        const key = start.startsWith('redis') ? 'INGEST_QUEUE_URI' : 'INGEST_WAREHOUSE_URI';
        const environment = { INGEST_QUEUE_URI: 'redis://h', [key]: `${start}:${password}@host:6379/main` };
        const [value, [problem = '', ...others]] = uri(environment, key);
        assert.deepEqual([value, others], [undefined, []]);
        assert.match(problem, /: expected .*percent-encoded.* # %23.*\/ %2F and \? %3F$/);
        assert.doesNotMatch(problem, /12|34|ab|cd/, start);
      }
  });

  it('is masked without its password and query', () => {
    for (const [text, masked] of [
      ['rediss://user:hunter2@host:6379/1', 'rediss://user:***@host:6379/1'],
      ['redis://:hunter2@host', 'redis://:***@host'],
      ['postgres://host/db?password=hunter2', 'postgres://host/db?***'],
      ...['#', '/', '?'].map((mark) => [`redis://user:123${mark}45@host`, 'redis://***'] as const),
      ['redis://host/#x', 'redis://host/#***'],
      ['no uri hunter2', '***'],
      ['rediss+sentinel://user:hunter2@s1:2,s2:2/main?db=1', 'rediss+sentinel://user:***@s1:2,s2:2/main?***'],
      ['redis+cluster://:hunter2@h1:1,h2:2', 'redis+cluster://:***@h1:1,h2:2'],
      ['redis+cluster://u:hun@ter2@h1:1,h2:2', 'redis+cluster://u:***@h1:1,h2:2'],
    ] as const)
      assert.equal(maskedUri(text), masked);
    assert.equal(quotedValue('INGEST_LOG_LEVEL', 'loud'), '"loud"');
    assert.equal(quotedValue('INGEST_WAREHOUSE_URI', 'sqlite:a b/c.db'), '"sqlite:a b/c.db"');
  });
});
