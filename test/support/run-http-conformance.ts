// Plays every row of a folder of .jsonl files in the format of test/fixtures/dynamo-http against the whole front, with
// scripted workers behind it. Says which rows fail, and which differ from the record and why.
//
// `npm run conformance:http -- DIR` ends with `N passed, N failed`.
//
// `npm run conformance:http -- --mutate [DIR]` then damages the answers in many ways, and fails if a fault goes
// unnoticed.
import { Conformance } from './dynamo-http/conformance.ts';
import type { Exchange } from './dynamo-http/exchange.ts';
import { judge } from './dynamo-http/judge.ts';
import { MUTATIONS, outcomeOf } from './dynamo-http/mutations/index.ts';
import { FIXTURES, type RecordedRow } from './dynamo-http/records.ts';

const mutates = process.argv.includes('--mutate');
const folder = process.argv.slice(2).find((argument) => argument !== '--mutate') ?? (mutates ? FIXTURES : undefined);
if (folder === undefined) {
  console.error('usage: npm run conformance:http -- [--mutate] DIR');
  process.exit(2);
}

const conformance = new Conformance(folder);
const passed: Exchange[] = [];
let failed = 0;
for (const row of conformance.rows) {
  const applied: string[] = [];
  const { exchange, faults } = await play(row, applied);
  if (!mutates) for (const why of applied) console.log(`${row.id} differs: ${why}`);
  for (const fault of faults) console.log(`${row.id} FAILED ${fault}`);
  if (faults.length > 0) failed++;
  else if (exchange !== undefined) passed.push(exchange);
}
await conformance.close();
console.log(`${passed.length} passed, ${failed} failed`);
const unnoticed = mutates ? mutate() : 0;
process.exitCode = failed === 0 && unnoticed === 0 ? 0 : 1;

/** Plays and judges one row. An error is a fault of that row, and the others still run. */
async function play(
  row: RecordedRow,
  applied: string[],
): Promise<{ readonly exchange?: Exchange; readonly faults: readonly string[] }> {
  try {
    const exchange = await conformance.exchange(row);
    return { exchange, faults: judge(exchange, applied) };
  } catch (error) {
    return { faults: [String(error)] };
  }
}

/** Prints the outcome of every mutation. Returns how many damaged answers the judge accepted. */
function mutate(): number {
  const line = (name: string, changed: unknown, noticed: unknown): string =>
    `${name.padEnd(48)}${String(changed).padStart(9)}${String(noticed).padStart(9)}`;
  console.log(line('mutation', 'changed', 'noticed'));
  let sum = 0;
  for (const mutation of MUTATIONS) {
    const { changed, unnoticed: missed } = outcomeOf(mutation, passed);
    const examples = missed.length === 0 ? '' : `  unnoticed: ${missed.slice(0, 8).join(', ')}`;
    console.log(line(mutation.name, changed, changed - missed.length) + examples);
    sum += missed.length;
  }
  console.log(`${MUTATIONS.length} mutations, ${sum} spoiled answers unnoticed`);
  return sum;
}
