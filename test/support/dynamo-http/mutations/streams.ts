import type { Body } from '../fields.ts';
import { type EditableAnswer, type Mutation, ofAnswer, put } from './edit.ts';

type Frames = NonNullable<EditableAnswer['frames']>;
type Choice = { index?: number; delta?: Body; text?: string; finish_reason?: unknown; logprobs?: unknown };

/** Makes a mutation of event streams. */
function ofFrames(name: string, edit: (frames: Frames) => boolean): Mutation {
  return ofAnswer(name, ({ frames }) => frames !== undefined && edit(frames));
}

function choicesOf(frame: Frames[number] | undefined): Choice[] {
  const data = frame?.data as { choices?: Choice[] } | undefined;
  return Array.isArray(data?.choices) ? data.choices : [];
}

const isComment = ({ comment, event, data }: Frames[number]): boolean =>
  comment === '' && event === undefined && data === undefined;

const dataOf = (frame: Frames[number]): Body =>
  typeof frame.data === 'object' && frame.data !== null ? (frame.data as Body) : {};

/**
 * Whether the order of two frames matters: both have content, and are not of two prompts of a batch, whose order is
 * chance.
 */
function mayNotSwap(frame: Frames[number], next: Frames[number] | undefined): boolean {
  if (next === undefined || isComment(frame) || isComment(next)) return false;
  const { id } = dataOf(frame);
  const { id: nextId = id } = dataOf(next);
  return id === nextId && JSON.stringify(frame) !== JSON.stringify(next);
}

/** Removes the first frame for which `isMeant` holds. */
function dropFirst(frames: Frames, isMeant: (frame: Frames[number], at: number) => boolean): boolean {
  const at = frames.findIndex(isMeant);
  if (at >= 0) frames.splice(at, 1);
  return at >= 0;
}

/** Joins neighbouring frames that only add to the same text, as full buffering would. */
function mergeTexts(frames: Frames): boolean {
  let isChanged = false;
  for (let at = 1; at < frames.length; ) {
    const before = choicesOf(frames[at - 1]);
    const now = choicesOf(frames[at]);
    if (before.length === 1 && now.length === 1 && mergeInto(before[0] as Choice, now[0] as Choice)) {
      frames.splice(at, 1);
      isChanged = true;
    } else at++;
  }
  return isChanged;
}

function mergeInto(before: Choice, now: Choice): boolean {
  if (before.index !== now.index || before.finish_reason != null || now.finish_reason != null) return false;
  if (before.logprobs != null || now.logprobs != null) return false;
  if (typeof before.text === 'string' && typeof now.text === 'string') {
    before.text += now.text;
    return true;
  }
  const [key, ...others] = Object.keys(now.delta ?? {});
  const isSame = key !== undefined && others.length === 0 && Object.keys(before.delta ?? {}).join() === key;
  const text = now.delta?.[key ?? ''];
  if (!isSame || typeof text !== 'string') return false;
  (before.delta as Body)[key] = String(before.delta?.[key]) + text;
  return true;
}

/** Faults in the structure of a stream. */
export const STREAMS: readonly Mutation[] = [
  ofFrames('terminator missing', (frames) => dropFirst(frames, ({ data }) => data === '[DONE]')),
  ofFrames('terminator twice', (frames) => frames.at(-1)?.data === '[DONE]' && frames.push({ data: '[DONE]' }) > 0),
  ofFrames(
    'terminator in a stream without one',
    (frames) => frames.at(-1)?.data !== '[DONE]' && frames.push({ data: '[DONE]' }) > 0,
  ),
  ofFrames('frames behind the terminator', (frames) => {
    const first = frames[0];
    return frames.at(-1)?.data === '[DONE]' && first !== undefined && frames.push(first) > 0;
  }),
  ofFrames('two neighbours swapped', (frames) => {
    const at = frames.findIndex((frame, index) => mayNotSwap(frame, frames[index + 1]));
    if (at >= 0) frames.splice(at, 2, frames[at + 1]!, frames[at]!); // both exist
    return at >= 0;
  }),
  ofFrames('frames reversed', (frames) => frames.length > 2 && frames.reverse().length > 0),
  ofFrames('a frame of text dropped', (frames) =>
    dropFirst(frames, (frame) => {
      const [choice] = choicesOf(frame);
      const delta = (choice?.delta ?? dataOf(frame).delta) as Body | string | undefined;
      const said = typeof delta === 'string' ? delta : (choice?.text ?? delta?.content ?? delta?.text ?? '');
      return said !== '';
    }),
  ),
  ofFrames('the finish dropped', (frames) =>
    dropFirst(frames, (frame) => choicesOf(frame).some(({ finish_reason: reason }) => reason != null)),
  ),
  ofFrames('usage chunk dropped', (frames) =>
    dropFirst(
      frames,
      (frame) => dataOf(frame).usage != null && choicesOf(frame).length === 0 && dataOf(frame).type === undefined,
    ),
  ),
  ofFrames('a frame sent twice', (frames) => {
    const at = frames.findIndex((frame) => choicesOf(frame).length > 0 || dataOf(frame).type !== undefined);
    if (at >= 0) frames.splice(at, 0, structuredClone(frames[at]!)); // it exists
    return at >= 0;
  }),
  ofFrames('empty delta inserted', (frames) => {
    const at = frames.findLastIndex((frame) => choicesOf(frame).length > 0);
    const [choice] = choicesOf(frames[at]);
    if (choice === undefined) return false;
    const empty = choice.delta === undefined ? { ...choice, text: '' } : { ...choice, delta: {} };
    frames.splice(at, 0, {
      data: { ...dataOf(frames[at]!), choices: [{ ...empty, finish_reason: null, logprobs: null }] },
    });
    return true;
  }),
  ofFrames('keep-alive comments removed', (frames) => {
    const kept = frames.filter((frame) => !isComment(frame));
    return kept.length < frames.length && frames.splice(0, frames.length, ...kept).length > 0;
  }),
  ofFrames('comments without a silence', (frames) =>
    frames.some(isComment) ? false : frames.unshift({ comment: '' }, { comment: '' }) > 0,
  ),
  ofFrames('text chunks merged as if buffered', mergeTexts),
  ofFrames('role repeated', (frames) => {
    const choices = frames.flatMap(choicesOf).filter(({ delta }) => delta !== undefined);
    const [, second] = choices;
    return second?.delta !== undefined && second.delta.role === undefined && put(second.delta, 'role', 'assistant');
  }),
  ofFrames('role missing', (frames) => {
    const delta = frames.flatMap(choicesOf).find((choice) => choice.delta?.role !== undefined)?.delta;
    return delta !== undefined && delete delta.role;
  }),
  ofFrames('content of the role is null', (frames) => {
    const delta = frames.flatMap(choicesOf).find((choice) => choice.delta?.role !== undefined)?.delta;
    const calls = frames.flatMap(choicesOf).some((choice) => choice.delta?.tool_calls !== undefined);
    return delta?.content === '' && !calls && put(delta, 'content', null);
  }),
  ofFrames('log probabilities of a stream missing', (frames) => {
    const choices = frames.flatMap(choicesOf).filter(({ logprobs }) => logprobs != null);
    for (const choice of choices) choice.logprobs = null;
    return choices.length > 0;
  }),
  ofFrames('sequence numbers stand still', (frames) => {
    const events = frames.map(dataOf).filter((data) => Number(data.sequence_number) > 0);
    for (const event of events) event.sequence_number = 0;
    return events.length > 0;
  }),
  ofFrames('data and event disagree', (frames) => {
    const frame = frames.find(({ event, data }) => event !== undefined && data !== undefined);
    if (frame === undefined) return false;
    frame.event = 'zzz';
    return true;
  }),
  ofFrames('ping missing', (frames) => dropFirst(frames, ({ event }) => event === 'ping')),
  ofFrames('tool arguments cut', (frames) => {
    for (const { delta } of frames.flatMap(choicesOf)) {
      const call = ((delta?.tool_calls ?? []) as { function?: Body }[]).find(
        ({ function: called }) => called?.arguments,
      );
      if (call?.function !== undefined)
        return put(call.function, 'arguments', String(call.function.arguments).slice(1));
    }
    return false;
  }),
];
