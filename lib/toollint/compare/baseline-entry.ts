// One known finding of a baseline.
import type { Finding } from '../document/report-schema.ts';

/** Why a finding may stay, and until when. */
export interface Acceptance {
  readonly reason: string;
  /** The last day, as YYYY-MM-DD. */
  readonly until?: string | undefined;
  readonly owner?: string | undefined;
}

export interface BaselineEntry {
  /** Has no line and column if it comes from a baseline file. */
  readonly finding: Finding;
  readonly accepted?: Acceptance | undefined;
}
