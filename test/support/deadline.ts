/** A generous deadline for tests that do not measure speed, because everything is slow on a busy machine. */
export const WITHIN_MS = 60_000;
