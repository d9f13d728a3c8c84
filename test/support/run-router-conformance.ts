// Plays every row of a folder of .jsonl files in the format of test/fixtures/router against hashing, index and
// selection, and says which rows fail. `npm run conformance:router -- DIR` ends with `N passed, N failed`. No
// difference from the record is allowed.
import { readRouterFolder } from './router/conformance.ts';

const folder = process.argv[2];
if (folder === undefined) {
  console.error('usage: npm run conformance:router -- DIR');
  process.exit(2);
}

let failed = 0;
const rows = readRouterFolder(folder);
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
