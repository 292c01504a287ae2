import { execFileSync } from 'node:child_process';

const ENSURE = new URL('../../bin/ensure-command', import.meta.url).pathname;

/** Returns the path of a command. If the command is missing, its Debian package is installed. */
export const tool = (command: string, debianPackage: string): string =>
  execFileSync(ENSURE, [command, debianPackage], { encoding: 'utf8' }).trim();
