// Plays every row of a folder of .jsonl files in the format of test/fixtures/planner against the planner, and says
// which rows fail. `npm run conformance:planner -- DIR` ends with `N passed, N failed`. Values that a library fitted
// are compared to 10 %, except in a series with only one jump or gap. Forecasts of prophet, which is not built, are
// left out.
import { readPlannerFolder } from './planner/conformance.ts';

const folder = process.argv[2];
if (folder === undefined) {
  console.error('usage: npm run conformance:planner -- DIR');
  process.exit(2);
}

let failed = 0;
const rows = readPlannerFolder(folder);
for (const { id, play } of rows) {
  const failures = tryPlay(play);
  for (const failure of failures) console.log(`${id} FAILED ${failure}`);
  if (failures.length > 0) failed++;
}
console.log(`${rows.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

function tryPlay(play: () => readonly string[]): readonly string[] {
  try {
    return play();
  } catch (thrown) {
    return [`threw ${String(thrown)}`]; // a row of another shape than its fields promise
  }
}
