import { type Environment, resolveConfig } from '../config/index.ts';
import {
  type DecisionRecord,
  outcomeLines,
  type PlannerStore,
  STATUS_WORDS,
  type TickRecord,
} from '../planner/index.ts';
import { UsageError } from './config.ts';
import { chooseGroup } from './planner/choose-group.ts';
import { openPlannerStore } from './planner/planner-store.ts';

/** Lines of `stator planner explain --help`. */
export const EXPLAIN_PLANNER_HELP = `Usage: stator planner explain [DECISION] [--last N] [--json] [flags of stator planner]

Explains why a planner made each decision of the last week, and what became of it. It knows the decisions of
stator planner and of stator local --planner.

  DECISION       number of one decision (default: the last ones)
  --last N       how many of the last ones (default 10, at most 1000)
  --json         prints JSON

The flags of stator planner name the place of the decisions: --planner-dir or STATOR_PLANNER_TABLE. --namespace and
--planner-model choose among several models.
`;

const LAST_MAX = 1000;
const ANSWER_MS_MAX = 15_000;
const WEEK_MS = 7 * 86_400_000;

/**
 * Runs `stator planner explain`; resolves with what it prints.
 * @throws UsageError for a mistake in its arguments or a decision that is not there
 */
export async function explainPlanner(argv: readonly string[], env: Environment, wallMs: number): Promise<string> {
  const { id, last, isJson, flags } = readArguments(argv);
  const { settings } = resolveConfig('planner', flags, env);
  const store = await openPlannerStore(settings, env);
  const signal = AbortSignal.timeout(ANSWER_MS_MAX);
  try {
    const group = await chooseGroup(store, settings, signal);
    const sinceMs = wallMs - WEEK_MS;
    const decisions =
      id === undefined
        ? await store.decisions(group, { sinceMs, countMax: last }, signal)
        : [await decisionOf(store, group, id, signal)];
    const [tick] = await store.ticks(group, { sinceMs, countMax: 1 }, signal);
    if (isJson) return `${JSON.stringify({ model: group, decisions, last_look: tick }, undefined, 2)}\n`;
    if (decisions.length === 0)
      return `${group}: no decision in the last week\n${id === undefined ? tickText(tick) : ''}`;
    const texts = decisions.map((decision) => decisionText(decision));
    return `${group}\n\n${texts.join('\n')}${id === undefined ? `\n${tickText(tick)}` : ''}`;
  } finally {
    await store.close();
  }
}

async function decisionOf(
  store: PlannerStore,
  group: string,
  id: number,
  signal: AbortSignal,
): Promise<DecisionRecord> {
  const decision = await store.decision(group, id, signal);
  if (decision === undefined) throw new UsageError(`${group} has no decision ${id} in the last week`);
  return decision;
}

function decisionText(decision: DecisionRecord): string {
  const { decisionId, decidedAtMs, reason, status, problem, figures } = decision;
  const figureText = Object.entries(figures).map(([name, value]) => `${name} ${value}`);
  return [
    `#${decisionId}  ${new Date(decidedAtMs).toISOString()}  ${STATUS_WORDS[status]}${problem === undefined ? '' : `: ${problem}`}`,
    `    ${reason}`,
    `    ${figureText.join(', ')}`,
    ...outcomeLines(decision).map((line) => `    ${line}`),
    '',
  ].join('\n');
}

function tickText(tick: TickRecord | undefined): string {
  if (tick === undefined) return '';
  return `Last tick ${new Date(tick.atMs).toISOString()}: ${tick.reason}\n`;
}

function readArguments(argv: readonly string[]) {
  const flags: string[] = [];
  let id: number | undefined;
  let last = 10;
  let isJson = false;
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at]!;
    if (argument === '--json') isJson = true;
    else if (argument === '--last' || argument.startsWith('--last=')) {
      last = wholeOf('--last', argument.includes('=') ? argument.slice('--last='.length) : argv[++at], 1, LAST_MAX);
    } else if (/^#?\d+$/.test(argument) && !argv[at - 1]?.startsWith('--'))
      id = wholeOf('DECISION', argument.replace('#', ''), 0, 1e12);
    else flags.push(argument);
  }
  return { id, last, isJson, flags };
}

function wholeOf(name: string, text: string | undefined, low: number, high: number): number {
  const value = Number(text ?? Number.NaN);
  if (Number.isSafeInteger(value) && value >= low && value <= high) return value;
  throw new UsageError(`${name} ${JSON.stringify(text ?? '')}: allowed: a whole number from ${low} to ${high}`);
}
