// Which connections to the queues a gateway gets, and when they are closed.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Dispatcher, QUEUES, Traffic, type DispatchedOutcome } from '../../lib/dispatcher/dispatcher.ts';
import { Sessions, type Credentials, type Session } from '../../lib/dispatcher/sessions.ts';
import { NOT_ASKED, type Queue, type QueueState } from '../../lib/ingest/queue.ts';
import { Counter } from '../../lib/telemetry/instruments.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const UP: QueueState = { available: true };
const AWAY: QueueState = { available: false, reason: 'connection refused' };
const down = (reason: string): QueueState => ({ available: false, reason });

/** A pair of connections that was opened, and what its queues say. */
interface Opened {
  readonly credentials: Credentials | undefined;
  readonly states: [QueueState, QueueState];
  closed: number;
}

function traffic(): Traffic {
  const outcomes = ['accepted', 'duplicate', 'differing', 'conflict', 'shed'] as const;
  return new Traffic(
    Object.fromEntries(outcomes.map((name) => [name, new Counter()])) as Record<DispatchedOutcome, Counter>,
  );
}

/** Sessions whose new connections find the queues in these states. */
function sessionsIn(even: QueueState, odd: QueueState) {
  const clock = new VirtualClock();
  const opened: Opened[] = [];
  const next: [QueueState, QueueState] = [even, odd];
  const sessions = new Sessions((credentials) => {
    const one: Opened = { credentials, states: [...next], closed: 0 };
    opened.push(one);
    const lane = (at: 0 | 1) => {
      const memory = new MemoryQueue(new MemoryQueueStore());
      const queue: Queue = {
        submit: (submission) => memory.submit(submission),
        find: (id, producer) => memory.find(id, producer),
        state: () => one.states[at],
        states: () => [one.states[at]],
        close: () => {
          one.closed += 0.5;
          return Promise.resolve();
        },
      };
      return { name: QUEUES[at], queue, traffic: traffic() };
    };
    return new Dispatcher([lane(0), lane(1)]);
  }, clock);
  return { sessions, opened, clock, next };
}

async function granted(answer: Promise<Session | string>): Promise<Session> {
  const session = await answer;
  assert.ok(typeof session !== 'string', 'refused');
  return session;
}

describe('the sessions of gateways', () => {
  it('opens connections with the credentials of a gateway, and without any for gateways that send none', async () => {
    const { sessions, opened } = sessionsIn(UP, UP);
    assert.deepEqual(
      opened.map(({ credentials }) => credentials),
      [undefined],
    );
    await granted(sessions.authenticate('shop', 'secret'));
    await granted(sessions.authenticate(undefined, 'other'));
    assert.deepEqual(
      opened.slice(1).map(({ credentials }) => credentials),
      [
        { user: 'shop', password: 'secret' },
        { user: undefined, password: 'other' },
      ],
    );
  });

  it('shares connections between gateways of the same user and password, until the last one is gone', async () => {
    const { sessions, opened } = sessionsIn(UP, UP);
    const [one, two] = [await granted(sessions.authenticate('u', 'p')), await granted(sessions.authenticate('u', 'p'))];
    assert.equal(one.queue, two.queue);
    assert.equal(opened.length, 2);
    one.release();
    assert.equal(opened[1]?.closed, 0);
    two.release();
    assert.equal(opened[1]?.closed, 1);
    assert.notEqual((await granted(sessions.authenticate('u', 'p'))).queue, one.queue);
  });

  it('shares none between passwords of one user, users of one password, or parts that make the same text', async () => {
    const { sessions, opened } = sessionsIn(UP, UP);
    const brought = [
      ['u', 'p'],
      ['u', 'q'],
      ['v', 'p'],
      ['u","p', ''],
      ['', 'u p'],
    ] as const;
    const queues = await Promise.all(brought.map(([user, password]) => granted(sessions.authenticate(user, password))));
    assert.equal(new Set(queues.map(({ queue }) => queue)).size, brought.length);
    assert.equal(opened.length, 1 + brought.length);
  });

  it('takes a gateway without a user name for the user `default`', async () => {
    const { sessions } = sessionsIn(UP, UP);
    const [named, unnamed] = [sessions.authenticate('default', 'p'), sessions.authenticate(undefined, 'p')];
    assert.equal((await granted(named)).queue, (await granted(unnamed)).queue);
  });

  for (const reason of ['WRONGPASS invalid', 'NOAUTH Authentication required.', 'NOPERM no', 'the user lacks rights']) {
    it(`refuses credentials that a queue answers with "${reason}", and closes what was opened with them`, async () => {
      const { sessions, opened } = sessionsIn(AWAY, down(reason));
      assert.equal(await sessions.authenticate('u', 'p'), reason);
      assert.equal(opened[1]?.closed, 1);
      assert.equal(await sessions.authenticate('u', 'p'), reason);
      assert.equal(opened.length, 3);
    });
  }

  it('keeps the connections of a gateway that is in when another one with its credentials is refused', async () => {
    const { sessions, opened } = sessionsIn(UP, UP);
    const session = await granted(sessions.authenticate('u', 'p'));
    opened[1]?.states.fill(down('NOAUTH'));
    assert.equal(await sessions.authenticate('u', 'p'), 'NOAUTH');
    assert.equal(opened[1]?.closed, 0);
    session.release();
    assert.equal(opened[1]?.closed, 1);
  });

  it('lets a gateway in that one queue takes, whatever the other one says', async () => {
    const { sessions } = sessionsIn(down('WRONGPASS'), UP);
    await granted(sessions.authenticate('u', 'p'));
  });

  it('lets a gateway in after a second where both queues are away, and refuses it where one comes back and says no', async () => {
    const { sessions, clock, opened } = sessionsIn(AWAY, AWAY);
    let decided = false;
    const waiting = sessions.authenticate('u', 'p').finally(() => (decided = true));
    await clock.advance(950);
    assert.equal(decided, false);
    await clock.advance(100);
    await granted(waiting);
    assert.equal(opened[1]?.closed, 0);
    const other = sessions.authenticate('u', 'q');
    await clock.advance(500);
    opened[2]?.states.splice(1, 1, down('WRONGPASS late'));
    await clock.advance(20);
    assert.equal(await other, 'WRONGPASS late');
  });

  it('says that a queue takes events while it does for some user, or would with credentials that none has brought', async () => {
    const { sessions, opened, next } = sessionsIn(UP, down('NOAUTH'));
    assert.deepEqual(
      QUEUES.map((name) => sessions.takesEvents(name)),
      [true, true],
    );
    opened[0]?.states.splice(0, 2, AWAY, AWAY);
    assert.deepEqual(
      QUEUES.map((name) => sessions.takesEvents(name)),
      [false, false],
    );
    next.splice(0, 2, AWAY, UP);
    const session = await granted(sessions.authenticate('u', 'p'));
    assert.deepEqual(
      QUEUES.map((name) => sessions.takesEvents(name)),
      [false, true],
    );
    opened[0]?.states.splice(0, 2, down('NOAUTH'), AWAY);
    assert.equal(sessions.takesEvents(QUEUES[0]), false);
    session.release();
    assert.equal(sessions.takesEvents(QUEUES[0]), true);
  });

  it('has the newest trouble to tell when neither queue takes events, and none while one does', async () => {
    const { sessions, opened, next } = sessionsIn(AWAY, UP);
    assert.equal(sessions.trouble, undefined);
    opened[0]?.states.splice(1, 1, down('it is full'));
    assert.equal(sessions.trouble, 'ingest-a: connection refused; ingest-b: it is full');
    next.splice(0, 2, UP, UP);
    await granted(sessions.authenticate('u', 'p'));
    assert.equal(sessions.trouble, undefined);
    opened[1]?.states.splice(0, 2, down('first'), down('second'));
    assert.equal(sessions.trouble, 'ingest-a: first; ingest-b: second');
    opened[0]?.states.fill(UP);
    assert.equal(sessions.trouble, undefined);
  });

  it('closes every connection at the end', async () => {
    const { sessions, opened } = sessionsIn(UP, UP);
    await granted(sessions.authenticate('u', 'p'));
    await sessions.close();
    assert.deepEqual(
      opened.map(({ closed }) => closed),
      [1, 1],
    );
  });
});

describe('the start of the sessions', () => {
  const NOT_ASKED_YET = down(NOT_ASKED);

  /** Whether it has ended after so many milliseconds, and how. */
  const startIn = (even: QueueState, odd: QueueState, assertUsable: () => void = () => undefined) => {
    const { sessions, clock, opened } = sessionsIn(even, odd);
    const states = opened[0]?.states ?? assert.fail();
    let ended: unknown = 'waits';
    void sessions.start(assertUsable).then(
      (started) => (ended = started),
      (cause: unknown) => (ended = cause),
    );
    return { clock, states, ended: () => ended };
  };

  it('is over at once where one queue takes events and the other one has said why not', async () => {
    for (const [even, odd] of [
      [UP, AWAY],
      [AWAY, UP],
      [UP, UP],
      [AWAY, down('NOAUTH')],
    ] as const) {
      const { clock, ended } = startIn(even, odd);
      await clock.advance(0);
      assert.equal(ended(), true);
    }
  });

  it('waits for the queue that has said nothing yet, five seconds at most', async () => {
    const { clock, states, ended } = startIn(UP, NOT_ASKED_YET);
    await clock.advance(1_000);
    assert.equal(ended(), 'waits');
    states[1] = UP;
    await clock.advance(25);
    assert.equal(ended(), true);
    const silent = startIn(NOT_ASKED_YET, UP);
    await silent.clock.advance(5_000);
    assert.equal(silent.ended(), 'waits');
    await silent.clock.advance(50);
    assert.equal(silent.ended(), true);
  });

  it('fails where neither queue takes events in five seconds, and not where one comes back by then', async () => {
    const away = startIn(AWAY, AWAY);
    await away.clock.advance(5_000);
    assert.equal(away.ended(), 'waits');
    await away.clock.advance(50);
    assert.equal(away.ended(), false);
    const back = startIn(AWAY, AWAY);
    await back.clock.advance(4_900);
    back.states[0] = UP;
    await back.clock.advance(25);
    assert.equal(back.ended(), true);
  });

  it('ends with what is wrong with a queue, also where the other one takes events', async () => {
    const wrong = new Error('another number of partitions');
    let isWrong = false;
    const { clock, ended } = startIn(UP, NOT_ASKED_YET, () => {
      if (isWrong) throw wrong;
    });
    await clock.advance(500);
    assert.equal(ended(), 'waits');
    isWrong = true;
    await clock.advance(25);
    assert.equal(ended(), wrong);
  });
});
