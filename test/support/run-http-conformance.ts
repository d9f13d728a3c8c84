// Plays every row of a folder of .jsonl files in the format of test/fixtures/dynamo-http against the whole front, with
// scripted workers behind, and says which rows fail and which differ from the record by what authority.
// `npm run conformance:http -- DIR`; ends with `N passed, N failed`.
import { Conformance } from './dynamo-http/conformance.ts';
import { reasonLeftOut } from './dynamo-http/left-out.ts';

const folder = process.argv[2];
if (folder === undefined) {
  console.error('usage: npm run conformance:http -- DIR');
  process.exit(2);
}

const conformance = new Conformance(folder);
const played = conformance.rows.filter((row) => {
  const reason = reasonLeftOut(row);
  if (reason !== undefined) console.log(`${row.id} left out: ${reason}`);
  return reason === undefined;
});
let failed = 0;
for (const row of played) {
  const applied: string[] = [];
  const differences = await conformance.play(row, applied);
  for (const each of applied) console.log(`${row.id} differs by ${each}`);
  for (const difference of differences) console.log(`${row.id} FAILED ${difference}`);
  if (differences.length > 0) failed++;
}
await conformance.close();
console.log(`${played.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
