import { type Body, type Chunk, scriptText } from './fields.ts';
import type { Answer, Frame, RecordedRow } from './records.ts';

/** Parsers that hold a call back until it is complete. */
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
  /** Whether these are the first arguments of a call, which wait for its name and go out with it. */
  readonly isFirst: boolean;
}

/**
 * Finds the chunks of a chat stream that join two outputs of the worker. The server holds back only a possible start of
 * a marker. So a chunk that continues past the end of an output must begin with such a start.
 */
export function borderFaults(row: RecordedRow, { frames = [] }: Answer): readonly string[] {
  const faults = frames.filter(saysNothing).map(() => 'a chunk says nothing');
  const said = scriptText(row);
  if (said === undefined) return faults;
  const outputs = (row.script?.steps ?? []).map(({ t = '' }) => t);
  const views = [whole(outputs), withoutMarkers(outputs)];
  for (const { kind, text, isFirst } of piecesOf(frames)) {
    const view = views.find(({ text: all, from }) => all.indexOf(text, from) >= 0);
    if (view === undefined) continue; // the server may write arguments in another form than the worker
    const at = view.text.indexOf(text, view.from);
    const end = at + text.length;
    view.from = end;
    if (kind === 'arguments' && (isFirst || HOLDS_CALLS.has(row.served?.tool_call_parser ?? ''))) continue;
    const border = view.ends.find((one) => one > at && one < end);
    if (border !== undefined && !mayBeHeld(view.text.slice(at, border))) {
      faults.push(`${kind} ${JSON.stringify(text)} joins two outputs at ${border - at}`);
    }
  }
  return faults;
}

/** Text of the worker, the ends of its outputs, and the position up to which the answer has matched it. */
interface View {
  readonly text: string;
  readonly ends: readonly number[];
  from: number;
}

function whole(outputs: readonly string[]): View {
  const ends = outputs.map((_, at) => outputs.slice(0, at + 1).join('').length);
  return { text: outputs.join(''), ends, from: 0 };
}

/** Removes markers, which clients do not see, even if an output ends within one. */
function withoutMarkers(outputs: readonly string[]): View {
  const { text, ends } = whole(outputs);
  const markers = [...text.matchAll(/<\/?think>|<\|[^|>]*\|>|\[\/?THINK\]/g)];
  const before = (end: number): number =>
    end - markers.reduce((sum, { 0: marker, index }) => sum + Math.max(0, Math.min(marker.length, end - index)), 0);
  const shown = markers.reduce((rest, { 0: marker }) => rest.replace(marker, ''), text);
  return { text: shown, ends: ends.map(before), from: 0 };
}

function saysNothing({ data }: Frame): boolean {
  const { choices, usage, nvext } = (typeof data === 'object' && data !== null ? data : {}) as Chunk;
  if (!Array.isArray(choices) || choices.length === 0 || usage != null || nvext !== undefined) return false;
  return choices.every(({ delta, finish_reason: reason, logprobs }) => {
    const isBare = Object.values((delta ?? {}) as Body).every((value) => value === '' || value === null);
    return isBare && reason == null && logprobs == null;
  });
}

/** Whether `text` is white space, or may be the start of a marker. */
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
