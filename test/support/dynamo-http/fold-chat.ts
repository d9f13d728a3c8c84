import type { Body, Chunk } from './fields.ts';

/** One choice of a chat stream, with its chunks joined. */
interface FoldedChoice {
  readonly index: number;
  content: string;
  reasoning: string;
  /** Content in the chunk that names the role. */
  roleContent: unknown;
  readonly calls: FoldedCall[];
  finish: unknown;
  /** Log probabilities of its tokens, in order. */
  readonly logprobs: unknown[];
  /** Number of chunks that name the role. */
  roles: number;
  /** Order of the parts: `role reasoning content call-0 call-1 finish`. Repetitions in a row count once. */
  order: string;
}

interface FoldedCall {
  readonly index: unknown;
  readonly id: unknown;
  readonly type: unknown;
  readonly name: unknown;
  arguments: string;
}

/** A whole chat stream without its chunk borders. */
interface FoldedChat {
  /** Values of the keys that all chunks share. A second value is a second entry. */
  readonly identities: string[];
  readonly choices: FoldedChoice[];
  /** Usage in chunks with choices, each value once. */
  readonly runningUsage: string[];
  readonly usage: unknown[];
  /** All frames that are not chunks, in order: side events and the end. */
  readonly others: unknown[];
}

/** Joins the frames of a chat stream. Streams that differ only in chunk borders give the same result. */
export function foldChat(frames: readonly unknown[]): FoldedChat {
  const folded: FoldedChat = { identities: [], choices: [], runningUsage: [], usage: [], others: [] };
  for (const frame of frames) {
    const { data } = frame as { data?: unknown };
    if (typeof data !== 'object' || data === null || !('choices' in data)) folded.others.push(frame);
    else foldChunk(folded, data as Chunk);
  }
  return folded;
}

function foldChunk(folded: FoldedChat, { choices = [], usage, ...identity }: Chunk): void {
  addOnce(folded.identities, JSON.stringify(Object.entries(identity).sort()));
  if (choices.length === 0) folded.usage.push(usage);
  else addOnce(folded.runningUsage, String(JSON.stringify(usage)));
  for (const choice of choices) foldChoice(choiceAt(folded, Number(choice.index)), choice);
}

function foldChoice(choice: FoldedChoice, { delta, finish_reason: finish, logprobs }: Body): void {
  const said = delta as Body;
  choice.logprobs.push(...((((logprobs ?? {}) as Body).content as unknown[]) ?? []));
  const isRole = said.role !== undefined;
  if (isRole) {
    choice.roleContent = said.content;
    choice.roles++;
    tell(choice, 'role');
  }
  const reasoning = said.reasoning_content ?? said.reasoning;
  if (typeof reasoning === 'string' && reasoning !== '') {
    choice.reasoning += reasoning;
    tell(choice, 'reasoning');
  }
  if (typeof said.content === 'string' && said.content !== '') {
    choice.content += said.content;
    tell(choice, 'content');
  }
  for (const call of (said.tool_calls ?? []) as Body[]) foldCall(choice, call);
  if (finish == null) return;
  choice.finish = choice.finish === null ? finish : [choice.finish, finish];
  tell(choice, 'finish');
}

function foldCall(choice: FoldedChoice, { index, id, type, function: called }: Body): void {
  const { name, arguments: text } = called as Body;
  const known = choice.calls.find((call) => call.index === index);
  if (known === undefined || id !== undefined || name !== undefined) {
    choice.calls.push({ index, id, type, name, arguments: String(text ?? '') });
  } else known.arguments += String(text ?? '');
  tell(choice, `call-${index}`);
}

function choiceAt(folded: FoldedChat, index: number): FoldedChoice {
  const known = folded.choices.find((choice) => choice.index === index);
  if (known !== undefined) return known;
  const choice = {
    index,
    content: '',
    reasoning: '',
    roleContent: undefined,
    calls: [],
    finish: null,
    logprobs: [],
    roles: 0,
    order: '',
  };
  folded.choices.push(choice);
  return choice;
}

function tell(choice: FoldedChoice, what: string): void {
  const told = choice.order.split(' ');
  if (told.at(-1) !== what) choice.order = choice.order === '' ? what : `${choice.order} ${what}`;
}

function addOnce(values: string[], value: string): void {
  if (!values.includes(value)) values.push(value);
}

/**
 * Orders the frames of a batch by prompt. Frames of one prompt keep their order, and frames of no prompt keep their
 * place.
 */
export function byPrompt<Frame>(frames: readonly Frame[]): Frame[] {
  const end = frames.findIndex((frame) => promptOf(frame) === undefined);
  const own = end < 0 ? [...frames] : frames.slice(0, end);
  return [...own.sort((a, b) => Number(promptOf(a)) - Number(promptOf(b))), ...frames.slice(own.length)];
}

function promptOf(frame: unknown): number | undefined {
  const { data } = frame as { data?: unknown };
  const id = typeof data === 'object' && data !== null ? String((data as Chunk).id) : '';
  const index = /-(?:[0-9a-f]{12}|UUID)-(\d+)$/.exec(id)?.[1];
  return index === undefined ? undefined : Number(index);
}
