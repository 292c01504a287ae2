/** For what a test waits for without asking how soon: on a busy machine everything takes long. */
export const WITHIN_MS = 60_000;
