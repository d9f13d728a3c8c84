/**
 * Measures the cost of API keys in process CPU time: a check of a known key, the same with a budget, and the name in
 * the id of a stream. Then the cost that keys add to a whole unary chat over a scripted pipeline, and to an inference
 * of KServe.
 *
 *     npm run bench:part -- bench/access.ts [--json]
 */
import { issueKey, KeyGate, type KeyLimits, RequestNames } from '../shared/access/index.ts';
import { systemClock } from '../shared/clock/index.ts';
import { MemoryKeyStore } from '../test/support/memory-key-store.ts';
import { openChat, openInfer } from './bare-requests.ts';

const CHECKS_A_ROUND = 20_000;
const REQUESTS_A_ROUND = 250;
const PATH = '/v1/chat/completions';
const SHORT_ROUNDS = 200;
const ROUNDS = 25;
const CHECK_US_MAX = 5;

interface Row {
  readonly what: string;
  readonly us: number;
  readonly target: string;
}

function cpuUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** Median of what one of `count` costs, after warm rounds. */
async function medianUs(count: number, round: () => void | Promise<void>): Promise<number> {
  for (let warm = 0; warm < 3; warm++) await round();
  const costs: number[] = [];
  for (let at = 0; at < ROUNDS; at++) {
    const before = cpuUs();
    await round();
    costs.push((cpuUs() - before) / count);
  }
  return costs.sort((a, b) => a - b)[ROUNDS >> 1]!;
}

async function openGate(limits: KeyLimits) {
  const store = new MemoryKeyStore();
  const gate = new KeyGate({ store, clock: systemClock, freshMs: 300_000 });
  const { text } = await issueKey(store, systemClock, { name: 'bench', owner: 'bench', scopes: ['inference'], limits });
  const authorization = `Bearer ${text}`;
  const caller = { header: (name: string) => (name === 'authorization' ? authorization : undefined) };
  await gate.admit(caller, 'generate', PATH);
  return { gate, caller, authorization };
}

async function checkUs(limits: KeyLimits): Promise<number> {
  const { gate, caller } = await openGate(limits);
  return medianUs(CHECKS_A_ROUND, () => {
    for (let at = 0; at < CHECKS_A_ROUND; at++) void gate.admit(caller, 'generate', PATH);
  });
}

function nameUs(): Promise<number> {
  const names = new RequestNames('a secret of thirty-two characters or more');
  return medianUs(CHECKS_A_ROUND, () => {
    for (let at = 0; at < CHECKS_A_ROUND; at++) {
      names.suffixOf({ key: '1b4e28ba2fa14d3ba3f5ef19b5a7633b', workerId: '2a' }, 'bench');
    }
  });
}

/** CPU of one request. */
async function roundOf(ask: () => Promise<void>): Promise<number> {
  const before = cpuUs();
  for (let at = 0; at < REQUESTS_A_ROUND; at++) await ask();
  return (cpuUs() - before) / REQUESTS_A_ROUND;
}

/** CPU of a chat with keys less that of one without. */
async function addedToChatUs(): Promise<number> {
  const { gate, authorization } = await openGate({});
  const headers = { 'content-type': 'application/json', authorization };
  return differenceUs(openChat(headers, {}), openChat(headers, { gate }));
}

/**
 * Returns how much more the second costs, each by its fastest round, because other work of the machine only adds to a
 * round. They take turns in short rounds, of which some are not disturbed.
 */
async function differenceUs(without: () => Promise<void>, asked: () => Promise<void>): Promise<number> {
  const least = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY] as [number, number];
  for (let at = 0; at < SHORT_ROUNDS; at++) {
    least[0] = Math.min(least[0], await roundOf(without));
    least[1] = Math.min(least[1], await roundOf(asked));
  }
  return least[1] - least[0];
}

/** The same for a unary inference of KServe's service, HTTP/2 apart. */
async function addedToInferUs(): Promise<number> {
  const { gate, authorization } = await openGate({});
  const headers = { authorization };
  const [open, guarded] = [await openInfer(headers, {}), await openInfer(headers, { gate })];
  const us = await differenceUs(open.ask, guarded.ask);
  for (const models of [open, guarded]) await models.close();
  return us;
}

const limits = { requestsPerMinute: 1_000_000_000, tokensPerMinute: 1_000_000_000 };
const rows: Row[] = [
  { what: 'check of a known key', us: await checkUs({}), target: `<= ${CHECK_US_MAX}` },
  { what: 'the same with budgets', us: await checkUs(limits), target: `<= ${CHECK_US_MAX}` },
  { what: 'name of a stream', us: await nameUs(), target: '-' },
  { what: 'added to a unary chat', us: await addedToChatUs(), target: '<= 5' },
  { what: 'added to a unary inference of KServe', us: await addedToInferUs(), target: '<= 5' },
];
if (process.argv.includes('--json')) console.log(JSON.stringify(rows, undefined, 2));
else {
  console.log('| What | us | target |\n| --- | --- | --- |');
  for (const { what, us, target } of rows) console.log(`| ${what} | ${us.toFixed(2)} | ${target} |`);
}
