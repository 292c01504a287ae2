// Which versions of node are known to be a bad choice, other than the pinned one.

/**
 * Fact: with 50,000 TLS connections that brought client certificates, a bare server of node 24.21.0 and 25.9.0 grew
 * from 77 to 190 MB by the 30,000th and fell only after that; 26.10.0 stayed between 73 and 101 MB all the time.
 * Measured by RSS, with the heap limited to 96 MB. Choice: warn on 24 and 25 as a whole; other versions of them were
 * not measured.
 */
const HOARDING = { from: 24, below: 26 } as const;

/** What an operator should know of this version of node (`process.versions.node`); undefined where there is nothing. */
export function runtimeWarning(version: string): string | undefined {
  const major = Number(version.split('.')[0]);
  if (major < HOARDING.from || major >= HOARDING.below) return undefined;
  return (
    `node ${version} holds memory of closed TLS connections with client certificates for long: ` +
    `use node ${HOARDING.below} or newer`
  );
}
