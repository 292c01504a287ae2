// Checks whether all answers about one event can be true. Two answers are not compared if Redis' clock was moved
// between them, because after 24 hours the queue may forget an id and accept the event again.
import { isAccepted, type Try } from './ledger.ts';

export function keptVariants(tries: readonly Try[]): ReadonlySet<number> {
  const own = tries.filter(({ producer }) => producer === 'own');
  const kept = new Set(own.map(({ variant }) => variant));
  const first = own.find(({ answer }) => answer?.status === 202);
  for (const one of own) {
    if (one.answer?.status !== 202 || first === undefined || moved(first, one)) continue;
    // `differs` means that another body is stored. Without `differs`, this body is stored.
    for (const variant of [...kept]) if ((variant === one.variant) === one.answer.differs) kept.delete(variant);
  }
  return kept;
}

/**
 * Returns another producer's tries that may have been accepted because Redis' clock was moved in between. The later
 * event goes to quarantine.
 */
export function takenForAnother(tries: readonly Try[]): readonly Try[] {
  const owners = tries.filter((one) => one.producer === 'own' && mayHaveBeenTaken(one));
  return tries.filter(
    (one) => one.producer === 'other' && mayHaveBeenTaken(one) && owners.some((own) => moved(own, one)),
  );
}

/** Returns the owner's tries with another body that may have been accepted because Redis' clock was moved. */
export function takenAgain(tries: readonly Try[]): readonly Try[] {
  const taken = tries.filter((one) => one.producer === 'own' && mayHaveBeenTaken(one));
  return taken.filter((one) => taken.some((other) => other.variant !== one.variant && moved(other, one)));
}

export function lies(tries: readonly Try[]): string[] {
  const found: string[] = [];
  const accepted = tries.filter(({ answer }) => answer?.status === 202);
  for (const one of tries) {
    const { answer } = one;
    if (answer === undefined) continue;
    if (answer.differs && !answer.duplicate) found.push('`differs` without `duplicate`');
    if (
      answer.duplicate &&
      !tries.some((other) => mayHaveBeenTaken(other) && other !== one && other.sentMs < one.doneMs)
    )
      found.push('`duplicate`, but no other try could have been taken');
    const before = accepted.find((other) => other.doneMs < one.sentMs && !moved(other, one));
    if (answer.status === 202 && !answer.duplicate && before !== undefined)
      found.push('accepted as new, though it had been accepted');
    if (answer.status === 409 && one.producer === 'own') found.push('a conflict told to the owner of the id');
    if (answer.status === 202 && one.producer === 'other' && before !== undefined)
      found.push('accepted from another producer, though the id was taken');
  }
  const fresh = accepted.filter(({ answer }) => answer?.duplicate === false);
  if (fresh.length > 1 && fresh.every((one) => !moved(fresh[0] ?? one, one)))
    found.push('accepted as new more than once');
  if (isAccepted(tries) && keptVariants(tries).size === 0) found.push('no body fits what `differs` said');
  return found;
}

/** A try without an answer, or with a retryable one, may have been accepted. */
const mayHaveBeenTaken = ({ answer }: Try): boolean =>
  answer === undefined || answer.status === 202 || answer.status >= 500 || answer.status === 408;

/** True if the clock may have moved during or between the two tries. */
function moved(one: Try, other: Try): boolean {
  const from = Math.min(one.clockMoves[0], other.clockMoves[0]);
  return from % 2 === 1 || from !== Math.max(one.clockMoves[1], other.clockMoves[1]);
}
