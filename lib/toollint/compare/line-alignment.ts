// Which of several equal findings are the old ones, when all that tells them apart is the line. Code that was moved
// moves together, so the choice that changes the shift between old and new lines least is taken: of 10, 15, 21 against
// 10, 20 the added one is 15.

const SMALL = 64;

/**
 * Chooses `before.length` of the `after` lines, both ascending and `before` the shorter. The answer marks the chosen.
 * Beyond 64 lines the first ones are chosen, which keeps a group of 100,000 equal findings linear.
 */
export function alignLines(before: readonly number[], after: readonly number[]): boolean[] {
  if (before.length >= after.length || before.length === 0 || after.length > SMALL) {
    return after.map((_, index) => index < before.length);
  }
  const chosen = after.map(() => false);
  for (const index of cheapestChoice(before, after)) chosen[index] = true;
  return chosen;
}

/** Dynamic programme over (old finding, new finding); cost is the sum of changes of shift. Ties go to later lines. */
function cheapestChoice(before: readonly number[], after: readonly number[]): number[] {
  const shift = (row: number, column: number) => (after[column] as number) - (before[row] as number);
  let costs = after.map((_, column) => Math.abs(shift(0, column)));
  const origins: number[][] = [];
  for (let row = 1; row < before.length; row += 1) {
    const previous = costs;
    const origin: number[] = [];
    costs = after.map((_, column) => {
      let best = Infinity;
      for (let from = 0; from < column; from += 1) {
        const cost = (previous[from] as number) + Math.abs(shift(row, column) - shift(row - 1, from));
        if (cost > best) continue;
        best = cost;
        origin[column] = from;
      }
      return best;
    });
    origins.push(origin);
  }
  let column = costs.lastIndexOf(Math.min(...costs));
  const path = [column];
  for (const origin of origins.reverse()) {
    column = origin[column] as number;
    path.push(column);
  }
  return path;
}
