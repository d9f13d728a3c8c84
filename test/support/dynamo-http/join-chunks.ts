import type { Body, Chunk } from './fields.ts';

/** One choice of a chat stream, with its chunks joined. */
interface JoinedChoice {
  readonly index: number;
  content: string;
  reasoning: string;
  /** Content in the chunk that names the role. */
  roleContent: unknown;
  readonly calls: JoinedCall[];
  finish: unknown;
  /** Log probabilities of its tokens, in order. */
  readonly logprobs: unknown[];
  /** Number of chunks that name the role. */
  roles: number;
  /** Order of the parts: `role reasoning content call-0 call-1 finish`. Repetitions in a row count once. */
  order: string;
}

interface JoinedCall {
  readonly index: unknown;
  readonly id: unknown;
  readonly type: unknown;
  readonly name: unknown;
  arguments: string;
}

/** A whole chat stream without its chunk borders. */
interface JoinedChat {
  /** Values of the keys that all chunks share. A second value is a second entry. */
  readonly identities: string[];
  readonly choices: JoinedChoice[];
  /** Usage in chunks with choices, each value once. */
  readonly runningUsage: string[];
  readonly usage: unknown[];
  /** All frames that are not chunks, in order: side events and the end. */
  readonly others: unknown[];
}

/** Joins the frames of a chat stream. Streams that differ only in chunk borders give the same result. */
export function joinChunks(frames: readonly unknown[]): JoinedChat {
  const joined: JoinedChat = { identities: [], choices: [], runningUsage: [], usage: [], others: [] };
  for (const frame of frames) {
    const { data } = frame as { data?: unknown };
    if (typeof data !== 'object' || data === null || !('choices' in data)) joined.others.push(frame);
    else joinChunk(joined, data as Chunk);
  }
  return joined;
}

function joinChunk(joined: JoinedChat, { choices = [], usage, ...identity }: Chunk): void {
  addOnce(joined.identities, JSON.stringify(Object.entries(identity).sort()));
  if (choices.length === 0) joined.usage.push(usage);
  else addOnce(joined.runningUsage, String(JSON.stringify(usage)));
  for (const choice of choices) joinChoice(choiceAt(joined, Number(choice.index)), choice);
}

function joinChoice(choice: JoinedChoice, { delta, finish_reason: finish, logprobs }: Body): void {
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
  for (const call of (said.tool_calls ?? []) as Body[]) joinCall(choice, call);
  if (finish == null) return;
  choice.finish = choice.finish === null ? finish : [choice.finish, finish];
  tell(choice, 'finish');
}

function joinCall(choice: JoinedChoice, { index, id, type, function: called }: Body): void {
  const { name, arguments: text } = called as Body;
  const known = choice.calls.find((call) => call.index === index);
  if (known === undefined || id !== undefined || name !== undefined) {
    choice.calls.push({ index, id, type, name, arguments: String(text ?? '') });
  } else known.arguments += String(text ?? '');
  tell(choice, `call-${index}`);
}

function choiceAt(joined: JoinedChat, index: number): JoinedChoice {
  const known = joined.choices.find((choice) => choice.index === index);
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
  joined.choices.push(choice);
  return choice;
}

function tell(choice: JoinedChoice, what: string): void {
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
