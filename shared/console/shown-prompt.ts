import type { GenerationRequest } from '../protocol/index.ts';
import { isRecord, type UnknownRecord } from '../records/index.ts';
import type { ConsoleText } from './wire/requests.ts';

/** Characters of one prompt that are kept. */
export const PROMPT_MAX = 8192;
/** Longest role of a message; the usual ones have at most 9 characters. */
const ROLE_MAX = 64;
/** Messages that are kept, the latest ones. */
const MESSAGES_MAX = 100;
/** Token ids that are kept of a prompt that has no text. */
const TOKENS_MAX = 1000;
/** Shortest text that the runtime may keep as a part of another one, which would keep all of that one in memory. */
const SLICE_MIN = 13;

/** Room for characters. */
export interface TextRoom {
  left: number;
  isCut: boolean;
}

type Part = ConsoleText['prompt'][number];

/** Takes a text as far as there is room. Returns a copy that keeps no larger text in memory. */
export function takeFrom(room: TextRoom, text: string): string {
  const taken = text.length > room.left ? text.slice(0, room.left) : text;
  room.left -= taken.length;
  if (taken.length < text.length) room.isCut = true;
  return copyOf(taken);
}

/** Returns a copy of a text that keeps no other text in memory: no larger one, and no pieces that it grew from. */
export function copyOf(text: string): string {
  return text.length < SLICE_MIN ? text : Buffer.from(text).toString();
}

/** Returns the latest messages of a prompt as far as there is room, and the number of earlier ones. */
export function promptOf({ prompt, body }: Pick<GenerationRequest, 'prompt' | 'body'>): {
  readonly parts: readonly Part[];
  readonly leftOut: number;
} {
  switch (prompt.kind) {
    case 'chat':
      return latest(prompt.messages);
    case 'raw':
      return one('prompt', prompt.text);
    case 'tokens': {
      const ids = prompt.tokenIds.slice(0, TOKENS_MAX).join(' ');
      return one('token ids', prompt.tokenIds.length > TOKENS_MAX ? `${ids} …` : ids);
    }
    case 'body':
      return ofBody(body ?? {});
    default:
      return one(prompt.kind, '');
  }
}

function ofBody({ messages, prompt, input }: UnknownRecord): ReturnType<typeof promptOf> {
  if (Array.isArray(messages)) return latest(recordsIn(messages));
  const text = typeof prompt === 'string' ? prompt : input;
  return one('prompt', typeof text === 'string' ? text : '');
}

function one(role: string, text: string): ReturnType<typeof promptOf> {
  const room = { left: PROMPT_MAX, isCut: false };
  return { parts: [{ role, text: takeFrom(room, text), is_cut: room.isCut }], leftOut: 0 };
}

function latest(messages: readonly UnknownRecord[]): ReturnType<typeof promptOf> {
  const room = { left: PROMPT_MAX, isCut: false };
  const parts: Part[] = [];
  let at = messages.length - 1;
  for (; at >= 0 && room.left > 0 && parts.length < MESSAGES_MAX; at--) {
    room.isCut = false;
    const { role, content, tool_calls: calls } = messages[at]!; // in range by the line above
    let text = '';
    for (const piece of piecesOf(content, calls)) {
      text += takeFrom(room, piece);
      if (room.isCut) break;
    }
    const by = takeFrom({ left: ROLE_MAX, isCut: false }, wordOf(role));
    parts.unshift({ role: by, text: copyOf(text), is_cut: room.isCut });
  }
  return { parts, leftOut: at + 1 };
}

/** Yields the texts of a message, the kinds of its other parts, such as pictures, and its calls of tools. */
function* piecesOf(content: unknown, calls: unknown): Generator<string> {
  if (typeof content === 'string') yield content;
  for (const part of recordsIn(content)) yield typeof part.text === 'string' ? part.text : `[${wordOf(part.type)}]`;
  for (const { function: called } of recordsIn(calls)) {
    if (!isRecord(called)) continue;
    yield `[calls ${wordOf(called.name)}] `;
    if (typeof called.arguments === 'string') yield called.arguments;
  }
}

/** Returns a word of a body that is not checked: an object could not even be written as text. */
function wordOf(value: unknown): string {
  return typeof value === 'string' ? value : 'unknown';
}

function recordsIn(list: unknown): readonly UnknownRecord[] {
  return Array.isArray(list) ? list.filter(isRecord) : [];
}
