import { isRecord } from '../../records/index.ts';
import type { ChatMessage } from '../generation/generation-request.ts';
import type { LeftOut } from '../generation/left-out.ts';
import { argumentsText } from './call-arguments.ts';
import { fileText } from './file-parts.ts';
import { kindOfPart, mediaPart, type Part, textOfPart, toldAsText } from './history-parts.ts';

type Message = Readonly<Record<string, unknown>>;

/** Call of an earlier turn. */
export interface HistoryCall {
  /** Key that its result refers to: the given id, or the name of a function called in the legacy way. */
  readonly given: string | undefined;
  readonly id: string;
  readonly name: string;
  /** JSON of an object, or whatever the model wrote. */
  readonly arguments: string;
  /** Other fields that its server added and wants back, such as signatures. */
  readonly extra: Part;
}

/** Turn of the model, in whichever format it was recorded. */
export interface AssistantTurn {
  readonly kind: 'assistant';
  /** Message without its calls. */
  readonly message: ChatMessage;
  readonly calls: readonly HistoryCall[];
}

/** Result of a call. */
export interface ResultTurn {
  readonly kind: 'result';
  /** Key of the call, as in `HistoryCall.given`. */
  readonly given: string | undefined;
  readonly message: ChatMessage;
  /** Pictures, videos and sounds, which only a user's message can hold. */
  readonly media: readonly Part[];
}

/** Prefix of the key of a legacy call, which distinguishes it from an id. */
const LEGACY = 'function:';

/**
 * Reads a turn of the model in today's format of chats. Refuses nothing: content under other names (reasoning, older
 * formats of calls, refusals) moves to its proper place, and parts without meaning for a model are left out.
 * @param at index of the message, used in names of calls without an id
 */
export function readAssistant(message: Message, at: number, leftOut: LeftOut): AssistantTurn {
  if (isUsual(message)) return usualTurn(message, at, leftOut);
  const { content: said, refusal, audio, annotations: _notes, tool_calls, function_call, ...rest } = message;
  const {
    reasoning_content: _rc,
    reasoning: _r,
    thinking: _t,
    reasoning_details: _d,
    thinking_blocks: _b,
    ...kept
  } = rest;
  const read = readContent(said, leftOut);
  const reasoning = reasoningOf(message, read.thoughts);
  const calls = [...callsOf(tool_calls, at, leftOut), ...legacyCall(function_call, at), ...callsIn(read.calls, at)];
  let { content } = read;
  if (content === '' && typeof refusal === 'string') content = refusal;
  if (audio !== undefined && audio !== null) {
    const transcript = isRecord(audio) ? audio.transcript : undefined;
    if (content === '' && typeof transcript === 'string') content = transcript;
    else leftOut.note('history', 'audio');
  }
  return {
    kind: 'assistant',
    message: {
      ...kept,
      role: 'assistant',
      content: content === '' && calls.length > 0 ? null : content, // calls without content: null, as templates expect
      ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    } as ChatMessage,
    calls,
  };
}

interface UsualMessage extends Message {
  readonly content: string | null;
}

/** Fields of a turn in today's format, which is read on a fast path: long conversations have many of them. */
const USUAL_FIELDS: ReadonlySet<string> = new Set(['role', 'content', 'tool_calls']);

function isUsual(message: Message): message is UsualMessage {
  for (const field in message) if (!USUAL_FIELDS.has(field)) return false;
  const { content } = message;
  return typeof content === 'string' || (content === null && message.tool_calls != null);
}

function usualTurn({ content, tool_calls }: UsualMessage, at: number, leftOut: LeftOut): AssistantTurn {
  const calls = callsOf(tool_calls, at, leftOut);
  const said = calls.length > 0 ? content || null : (content ?? '');
  return { kind: 'assistant', message: { role: 'assistant', content: said }, calls };
}

interface ReadContent {
  readonly content: string | readonly Part[];
  /** Reasoning that was among the parts. */
  readonly thoughts: string;
  /** Calls that were among the parts. */
  readonly calls: readonly Part[];
}

function readContent(said: unknown, leftOut: LeftOut): ReadContent {
  const only = (content: string): ReadContent => ({ content, thoughts: '', calls: [] });
  if (typeof said === 'string') return only(said);
  if (said === undefined || said === null) return only('');
  if (!Array.isArray(said) && !isRecord(said)) return only(String(said));
  const parts = Array.isArray(said) ? said : [said];
  const texts: Part[] = [];
  const calls: Part[] = [];
  let thoughts = '';
  for (const part of parts) {
    const text = textOfPart(part);
    if (text !== undefined) texts.push(isTextPart(part) ? part : { type: 'text', text });
    else if (!isRecord(part)) leftOut.note('history', 'part');
    else if (part.type === 'thinking' || part.type === 'reasoning') thoughts += thoughtOf(part);
    else if (part.type === 'tool_use' || part.type === 'tool-call') calls.push(part);
    else leftOut.note('history', kindOfPart(part));
  }
  return { content: texts.length === 0 ? '' : texts, thoughts, calls };
}

function isTextPart(part: unknown): part is Part {
  return isRecord(part) && part.type === 'text';
}

function thoughtOf({ thinking, text, content, summary }: Part): string {
  for (const said of [thinking, text, content, summary]) {
    if (typeof said === 'string') return said;
    if (Array.isArray(said)) return said.map((part) => textOfPart(part) ?? '').join('');
  }
  return '';
}

/** Returns the model's reasoning, under any of the names that servers use; separate texts stay separate. */
function reasoningOf(message: Message, thoughts: string): string | readonly string[] | undefined {
  const { reasoning_content: first, reasoning, thinking, reasoning_details, thinking_blocks } = message;
  for (const said of [first, reasoning, thinking]) {
    if (typeof said === 'string' && said !== '') return said;
    if (!Array.isArray(said)) continue;
    const texts = said.filter((text): text is string => typeof text === 'string' && text !== '');
    if (texts.length > 0) return texts;
  }
  for (const blocks of [reasoning_details, thinking_blocks]) {
    if (!Array.isArray(blocks)) continue;
    const text = blocks.map((block) => (isRecord(block) ? thoughtOf(block) : '')).join('');
    if (text !== '') return text;
  }
  return thoughts === '' ? undefined : thoughts;
}

function callsOf(given: unknown, at: number, leftOut: LeftOut): readonly HistoryCall[] {
  if (given === undefined || given === null) return [];
  const calls: HistoryCall[] = [];
  for (const [index, call] of (Array.isArray(given) ? given : [given]).entries()) {
    if (isRecord(call)) calls.push(readCall(call, at, index));
    else leftOut.note('history', 'tool_calls');
  }
  return calls;
}

/** Reads a call in any of the formats that servers write: of a function, of a custom tool, or flat. */
function readCall(call: Part, at: number, index: number): HistoryCall {
  const { id: given } = call;
  const id = typeof given === 'number' ? String(given) : given;
  const custom = isRecord(call.custom) ? call.custom : undefined;
  const called = isRecord(call.function) ? call.function : (custom ?? call);
  const written =
    custom === undefined ? (called.arguments ?? called.input ?? called.args) : { input: custom.input ?? '' };
  return {
    given: typeof id === 'string' && id !== '' ? id : undefined,
    id: typeof id === 'string' && id !== '' ? id : `call_${at}_${index}`,
    name: nameOf(called.name),
    arguments: argumentsText(written),
    extra: called === call ? NOTHING : extraOf(call),
  };
}

const CALL_FIELDS: ReadonlySet<string> = new Set(['id', 'type', 'index', 'function', 'custom']);

function extraOf(call: Part): Part {
  const extra = Object.keys(call).filter((field) => !CALL_FIELDS.has(field));
  return extra.length === 0 ? NOTHING : Object.fromEntries(extra.map((field) => [field, call[field]]));
}

const NOTHING: Part = Object.freeze({});

function callsIn(parts: readonly Part[], at: number): readonly HistoryCall[] {
  return parts.map((part, index) =>
    readCall(
      { id: part.id ?? part.toolCallId, name: part.name ?? part.toolName, input: part.input ?? part.args },
      at,
      index,
    ),
  );
}

function legacyCall(called: unknown, at: number): readonly HistoryCall[] {
  if (!isRecord(called)) return [];
  const name = nameOf(called.name);
  return [
    { given: LEGACY + name, id: `call_${at}_0`, name, arguments: argumentsText(called.arguments), extra: NOTHING },
  ];
}

function nameOf(name: unknown): string {
  return typeof name === 'string' && name !== '' ? name : 'unknown';
}

/** Reads the result of a tool: its text and, separately, its media, unless the model `isBlind`. */
export function readResult(message: Message, leftOut: LeftOut, isBlind = false): ResultTurn {
  if (isUsualResult(message)) return { kind: 'result', given: message.tool_call_id, message, media: NO_MEDIA };
  const { role, content, tool_call_id: id, ...rest } = message;
  const parts = Array.isArray(content) ? content : [content];
  const media: Part[] = [];
  const texts: string[] = [];
  for (const part of parts) {
    const medium = mediaPart(part);
    if (medium === undefined) texts.push(toldAsText(part, leftOut));
    else if (isBlind) texts.push(mediumLeftOut(medium, leftOut));
    else media.push(medium);
  }
  const isPlain = Array.isArray(content) && content.every(isTextPart);
  return {
    kind: 'result',
    given: role === 'function' ? LEGACY + nameOf(message.name) : typeof id === 'string' && id !== '' ? id : undefined,
    message: {
      ...rest,
      role: 'tool',
      content: isPlain ? (content as readonly Part[]) : texts.join('\n'),
      ...(typeof id === 'string' ? { tool_call_id: id } : {}),
    },
    media,
  };
}

const NO_MEDIA: readonly Part[] = [];

/** Returns whether a result is a text with the id of its call. */
function isUsualResult(message: Message): message is ChatMessage & { readonly tool_call_id: string } {
  const { role, content, tool_call_id: id } = message;
  return role === 'tool' && typeof content === 'string' && typeof id === 'string' && id !== '';
}

/** Returns a note in a result for a model that cannot see or hear the medium. */
function mediumLeftOut({ type }: Part, leftOut: LeftOut): string {
  const kind = String(type); // the part was read as a medium
  leftOut.note('history', kind);
  return `[${MEDIA_NAMES[kind] ?? 'a medium'} was left out: this model takes text only]`;
}

const MEDIA_NAMES: Readonly<Record<string, string>> = {
  image_url: 'a picture',
  video_url: 'a video',
  audio_url: 'a sound',
  input_audio: 'a sound',
};

/**
 * Reads a user's message from before the model's last turn: files become their text, and parts that chats do not have
 * become text.
 */
export function readUser(message: Message, leftOut: LeftOut): ChatMessage {
  const { content } = message;
  if (typeof content === 'string') return message as unknown as ChatMessage;
  const parts = Array.isArray(content) ? content : [content];
  if (Array.isArray(content) && parts.every(isChatPart)) return message as unknown as ChatMessage;
  const read = parts.flatMap((part): readonly Part[] => {
    if (isChatPart(part)) return [part];
    const medium = mediaPart(part);
    if (medium !== undefined) return [medium];
    const text = part === undefined || part === null ? '' : userText(part, leftOut);
    return text === '' ? [] : [{ type: 'text', text }];
  });
  return { ...message, role: 'user', content: read.length === 0 ? '' : read };
}

function userText(part: unknown, leftOut: LeftOut): string {
  if (isRecord(part) && part.type === 'file') {
    const read = fileText(part);
    if (read.kind === 'text') return read.text;
  }
  return toldAsText(part, leftOut);
}

/** Returns whether templates and workers take a part as it is. */
function isChatPart(part: unknown): part is Part {
  if (!isRecord(part)) return false;
  return part.type === 'text' ? typeof part.text === 'string' : mediaPart(part) === part;
}
