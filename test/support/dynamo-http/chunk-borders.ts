import { type Body, type Chunk, scriptText } from './fields.ts';
import type { Answer, RecordedRow } from './records.ts';

/** Parsers that hold a call back until it is whole. */
const HOLDS_CALLS: ReadonlySet<string> = new Set([
  'qwen25',
  'deepseek_v3',
  'deepseek_v3_1',
  'minimax_m2',
  'glm47',
  'gemma4',
  'harmony',
  'pythonic',
]);

interface Piece {
  readonly kind: 'content' | 'reasoning' | 'arguments';
  readonly text: string;
  /** The first arguments of a call come with its name, and wait for it. */
  readonly isFirst: boolean;
}

/**
 * Where a chat stream joins what the worker said in two outputs. Only what may be the start of a marker is held back, so a
 * chunk that goes on beyond an output must begin with something that could have been one.
 */
export function borderFaults(row: RecordedRow, { frames = [] }: Answer): readonly string[] {
  const said = scriptText(row);
  const steps = row.script?.steps ?? [];
  if (said === undefined || steps.length < 2) return [];
  const ends: number[] = [];
  for (const { t = '' } of steps) ends.push((ends.at(-1) ?? 0) + t.length);
  const faults: string[] = [];
  let from = 0;
  for (const { kind, text, isFirst } of piecesOf(frames)) {
    const at = said.indexOf(text, from);
    if (at < 0) continue; // arguments may be written otherwise than they were said
    from = at + text.length;
    if (kind === 'arguments' && (isFirst || HOLDS_CALLS.has(row.served?.tool_call_parser ?? ''))) continue;
    const border = ends.find((end) => end > at && end < from);
    if (border !== undefined && !mayBeHeld(said.slice(at, border))) {
      faults.push(`${kind} ${JSON.stringify(text)} joins two outputs at ${border - at}`);
    }
  }
  return faults;
}

/** White space and the start of something that markers begin with. */
function mayBeHeld(text: string): boolean {
  return /^\s*(?:[<[{("'`|\\]\S{0,40}\s*)?$/.test(text) && text.length <= 48;
}

function piecesOf(frames: Answer['frames'] & object): readonly Piece[] {
  return frames.flatMap(({ data }) => {
    const choices = typeof data === 'object' && data !== null ? ((data as Chunk).choices ?? []) : [];
    return choices.flatMap(({ delta }) => piecesOfDelta((delta ?? {}) as Body));
  });
}

function piecesOfDelta(delta: Body): readonly Piece[] {
  const calls = (delta.tool_calls ?? []) as Body[];
  const pieces: Piece[] = [
    { kind: 'reasoning', text: String(delta.reasoning_content ?? delta.reasoning ?? ''), isFirst: false },
    { kind: 'content', text: String(delta.content ?? ''), isFirst: false },
    ...calls.map(({ function: called, id }) => ({
      kind: 'arguments' as const,
      text: String((called as Body | undefined)?.arguments ?? ''),
      isFirst: id !== undefined,
    })),
  ];
  return pieces.filter(({ text }) => text !== '');
}
