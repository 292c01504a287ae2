// What one client may take, but for what connection-limits.test.ts has.
import { describe } from 'node:test';
import { requestText } from '../support/wire.ts';
import { attacker, describeFloods, describeUnread, itStandsStrangers, type Flood } from './connection-limits.ts';

/** By what they have the gateway do; each kind on a gateway of its own. */
const FLOODS: Readonly<Record<string, Readonly<Record<string, Flood>>>> = {
  'short answers': {
    'metrics, from nobody, by node:http': [
      () => undefined,
      `${requestText('HEAD /health/live')}${'GET /metrics HTTP/1.1\r\nHost: g\r\n\r\n'.repeat(2_500)}`,
    ],
    'metrics, from nobody': [() => undefined, 'GET /metrics HTTP/1.1\r\nHost: g\r\n\r\n'.repeat(2_500)],
    'requests that are refused': [() => undefined, requestText('GET /x').repeat(2_000)],
    'requests that are refused, by node:http': [() => undefined, requestText('PUT /x').repeat(2_000)],
  },
  'look-ups': {
    'look-ups of a large event': [() => attacker, 'GET /events/large HTTP/1.1\r\nHost: g\r\n\r\n'.repeat(2_500)],
    'look-ups of a large event, by node:http': [
      () => attacker,
      `${requestText('HEAD /health/live')}${'GET /events/large HTTP/1.1\r\nHost: g\r\n\r\n'.repeat(2_500)}`,
    ],
  },
};

for (const [kind, floods] of Object.entries(FLOODS)) describeFloods(kind, floods);

describeUnread('HEAD');

describe('strangers that hold every connection, and come again as they are cut', () => {
  itStandsStrangers('0', ['silent', 'stalled', 'nameless']);
});
