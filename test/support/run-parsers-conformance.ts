// Plays every row of a folder of .jsonl files in the format of test/fixtures/parsers. Says which rows fail, and which
// differ from the record by decision. `npm run conformance:parsers -- DIR` ends with `N passed, N failed`.
import { playParserRow, readParserFolder } from './parsers-conformance.ts';

const folder = process.argv[2];
if (folder === undefined) {
  console.error('usage: npm run conformance:parsers -- DIR');
  process.exit(2);
}

let failed = 0;
const rows = readParserFolder(folder);
for (const row of rows) {
  const { failures, applied } = playParserRow(row);
  for (const each of applied) console.log(`${row.id} differs by ${each}`);
  for (const failure of failures) console.log(`${row.id} FAILED ${failure}`);
  if (failures.length > 0) failed++;
}
console.log(`${rows.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
