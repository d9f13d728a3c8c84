import type { ErrorCode } from '../errors/index.ts';

/** A decision and its parts, as operators read it: on HTTP, on the request plane and, in another encoding, by gRPC. */
export interface ExplanationRecord {
  readonly request_id: string;
  readonly cost_model: 'dynamo' | 'stator';
  readonly prompt_tokens: number;
  readonly blocks: number;
  readonly temperature: number;
  readonly waited_ms: number;
  /** Present if the router decided twice, because others decided in the same instant. */
  readonly second_look?: SecondLookRecord | undefined;
  /** The chosen worker; null if no worker could take the request, and then `failure` says why. */
  readonly chosen: { readonly worker_id: string; readonly dp_rank: number; readonly reason: string } | null;
  readonly failure: string | null;
  /** Error that the client would get in that case. */
  readonly rejection?: { readonly code: ErrorCode; readonly message: string; readonly param?: string | undefined };
  /** Candidates, cheapest first. */
  readonly candidates: readonly CandidateRecord[];
  /** Explanation of the choice of the prefill worker, if prompts are computed apart from answers. */
  readonly prefill?: ExplanationRecord;
  /** Worker set that the explanation is about, if the model has several. */
  readonly worker_set?: WorkerSetRecord;
  /** Explanations for the other worker sets that may take the request. */
  readonly other_sets?: readonly ExplanationRecord[];
}

/** How a second look came to its decision. */
export interface SecondLookRecord {
  /** Milliseconds for which the router held the request until it knew what the others had decided. */
  readonly held_ms: number;
  /** Requests of other routers that it decided before this one. */
  readonly before: number;
  /** Worker that the router had chosen at first. */
  readonly first: { readonly worker_id: string; readonly dp_rank: number };
}

/** One of several worker sets of a model, as clients see it. */
export interface WorkerSetRecord {
  /** Checksum of the card of its workers. */
  readonly card: string;
  readonly namespace: string;
  readonly workers: number;
  /** Workers of all sets. Requests go to the sets in proportion to their workers. */
  readonly all_workers: number;
}

/**
 * One candidate. Its cost and terms are in milliseconds under cost model `stator`, and in blocks under `dynamo`. Other
 * numbers are in blocks unless their name says otherwise.
 */
export interface CandidateRecord {
  /** Instance id, hex. */
  readonly worker_id: string;
  readonly dp_rank: number;
  readonly cost: number;
  /** Blocks of the prompt that it has cached, by tier. Each tier continues where the one before ends. */
  readonly overlap: {
    readonly device: number;
    readonly host_pinned: number;
    readonly disk: number;
    readonly shared: number;
  };
  readonly load: {
    readonly prefill_tokens: number;
    readonly decode_blocks: number;
    /** Blocks that the request would add to `decode_blocks`. */
    readonly added_blocks: number;
    readonly requests: number;
  };
  /** Parts of the cost, which add up to it before `factor`. */
  readonly terms: Readonly<Record<string, number>>;
  /** Factor by which preferred taints multiply the cost. */
  readonly factor: number;
}

/**
 * Renders the explanation as a table for people, or as two tables if the prompt is computed apart from the answer. The
 * tables of other worker sets follow.
 */
export function renderExplanation(explanation: ExplanationRecord): string {
  const { prefill, worker_set: set, other_sets: others = [] } = explanation;
  const head =
    set === undefined
      ? ''
      : `set      card ${set.card} in ${set.namespace}, ${set.workers} of ${set.all_workers} workers\n`;
  const decision =
    prefill === undefined
      ? renderDecision(explanation, 'request')
      : `${renderDecision(prefill, 'prefill')}\n${renderDecision(explanation, 'decode')}`;
  return [`${head}${decision}`, ...others.map(renderExplanation)].join('\n');
}

function renderDecision(explanation: ExplanationRecord, title: 'request' | 'prefill' | 'decode'): string {
  const { chosen, candidates } = explanation;
  const terms = [...new Set(candidates.flatMap((candidate) => Object.keys(candidate.terms)))];
  const hasFactors = candidates.some(({ factor }) => factor !== 1);
  const head = ['', 'worker', 'rank', 'cost', ...terms, ...(hasFactors ? ['factor'] : []), ...FIXED_HEADS];
  const rows = candidates.map((candidate) => {
    const isChosen = candidate.worker_id === chosen?.worker_id && candidate.dp_rank === chosen.dp_rank;
    return [
      isChosen ? '*' : '',
      candidate.worker_id,
      String(candidate.dp_rank),
      shown(candidate.cost),
      ...terms.map((term) => shown(candidate.terms[term] ?? 0)),
      ...(hasFactors ? [shown(candidate.factor)] : []),
      ...fixedCells(candidate),
    ];
  });
  return `${headlines(explanation, title).join('\n')}\n\n${alignColumns(withoutIdleColumns([head, ...rows], terms))}`;
}

/** Leaves out tiers that hold nothing and parts that add nothing to any cost, because few deployments have them all. */
function withoutIdleColumns(
  rows: readonly (readonly string[])[],
  terms: readonly string[],
): readonly (readonly string[])[] {
  const [head = [], ...cells] = rows;
  const mayGo = new Set([...terms, ...LOWER_TIERS]);
  const kept = head.map((name, at) => !mayGo.has(name) || cells.some((row) => row[at] !== '0'));
  return rows.map((row) => row.filter((_, at) => kept[at]));
}

const LOWER_TIERS = ['host', 'disk', 'shared'];
const FIXED_HEADS = ['device', 'host', 'disk', 'shared', 'tokens', 'blocks', 'adds', 'active'];

function fixedCells({ overlap, load }: CandidateRecord): readonly string[] {
  const { device, host_pinned: host, disk, shared } = overlap;
  const { prefill_tokens: prefill, decode_blocks: decode, added_blocks: adds, requests } = load;
  return [device, host, disk, shared, prefill, decode, adds, requests].map(shown);
}

function headlines(explanation: ExplanationRecord, title: string): readonly string[] {
  const { chosen, failure, temperature, waited_ms: waitedMs, second_look: look } = explanation;
  const facts = [
    `${explanation.prompt_tokens} prompt tokens in ${explanation.blocks} blocks`,
    `cost model ${explanation.cost_model}`,
    ...(temperature > 0 ? [`temperature ${temperature}`] : []),
    ...(waitedMs > 0 ? [`waited ${shown(waitedMs)} ms`] : []),
    ...(look === undefined ? [] : [describeLook(look)]),
  ];
  const outcome =
    chosen === null
      ? `no worker: ${failure}`
      : `worker ${chosen.worker_id} rank ${chosen.dp_rank}, ${REASONS[chosen.reason] ?? chosen.reason}`;
  return [
    `${title.padEnd(9)}${explanation.request_id}: ${facts.join(', ')}`,
    `chosen   ${outcome}`,
    'columns  cost and its parts; cached blocks by tier; tokens to prefill, blocks in use,',
    '         blocks it adds, active requests',
  ];
}

function describeLook({ held_ms: heldMs, before, first }: SecondLookRecord): string {
  const others = `${before} of other routers before it`;
  return `decided again after ${shown(heldMs)} ms with ${others} (first worker ${first.worker_id} rank ${first.dp_rank})`;
}

const REASONS: Readonly<Record<string, string>> = {
  only: 'the only one that may take it',
  'lowest-cost': 'the lowest cost',
  tie: 'one of several with the lowest cost',
  drawn: 'drawn by its cost',
  pinned: 'the request names it',
  session: 'its session went there before',
};

/** Formats whole numbers as they are, and others with two decimals. */
function shown(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

function alignColumns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, at) => Math.max(...rows.map((row) => row[at]!.length)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, at) => (at < 2 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!)))
      .join('  ')
      .trimEnd();
  return `${rows.map(line).join('\n')}\n`;
}
