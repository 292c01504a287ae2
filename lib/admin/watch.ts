// `status --watch`: a look each second, until a signal. On a terminal one screen that is drawn again in its place;
// elsewhere a line for each look.
import { printableLines } from '../process/printable.ts';
import { printJson, type Session } from './session.ts';
import { look, lookJson, lookLine, lookText } from './status.ts';
import { timeText } from './text.ts';

const INTERVAL_MS = 1_000;
const HOME = '\x1b[H';
const CLEAR_LINE = '\x1b[K';
const CLEAR_BELOW = '\x1b[J';
const OTHER_SCREEN = '\x1b[?1049h\x1b[?25l';
const BACK = '\x1b[?25h\x1b[?1049l';

/** `rows` of the terminal, asked for each time; undefined where there is none. */
export async function watchStatus(session: Session, rows: () => number | undefined): Promise<void> {
  const screen = !session.json && rows() !== undefined;
  if (screen) session.draw(OTHER_SCREEN);
  try {
    while (!session.stopped.aborted) {
      const now = await look(session);
      if (session.stopped.aborted) break;
      if (session.json) printJson(session, lookJson(now));
      else if (screen)
        session.draw(
          frame(`${timeText(now.atMs)}   Ctrl-C ends\n\n${printableLines(lookText(session, now))}`, rows() ?? 0),
        );
      else session.print(`${lookLine(now)}\n`);
      await session.clock.sleep(INTERVAL_MS, session.stopped);
    }
  } finally {
    if (screen) session.draw(BACK);
  }
}

/**
 * Drawn over the last one, line by line, so that nothing flickers; what does not fit is left out. A terminal of 0 rows
 * does not tell.
 */
function frame(text: string, rows: number): string {
  const lines = text
    .trimEnd()
    .split('\n')
    .slice(0, rows === 0 ? undefined : Math.max(1, rows - 1));
  return `${HOME}${lines.map((line) => `${line}${CLEAR_LINE}`).join('\n')}\n${CLEAR_BELOW}`;
}
