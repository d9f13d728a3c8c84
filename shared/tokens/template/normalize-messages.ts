import { ExactNumber, readJson } from '../../protocol/index.ts';
import { asRecord, isRecord, type UnknownRecord } from '../../records/index.ts';
import { WrittenArguments } from './values.ts';

/** Requirements of a template, as found out by rendering it. */
export interface TemplateShape {
  /** Whether a system message may stand only first. */
  readonly isSystemFirstOnly: boolean;
  /** Whether the template refuses two user turns in a row. */
  readonly mustAlternate: boolean;
  /** Whether the template reads content only as a list of parts. */
  readonly needsContentParts: boolean;
  /** Text of an image, for templates that take only text; undefined = parts stay parts. */
  readonly imageText: ((index: number) => string) | undefined;
  /**
   * Whether arguments stay as the model wrote them, because the template tests `arguments is string` itself or takes
   * only text.
   */
  readonly takesArgumentText: boolean;
  /** Names under which the template reads a model's reasoning; none = it is written before the content. */
  readonly reasoningNames: readonly ReasoningName[];
  /** Whether a turn that calls a tool may have content or reasoning, but not both. */
  readonly joinsThoughts: boolean;
  /** Whether ids of calls must have exactly nine letters and digits. */
  readonly hasShortIds: boolean;
}

/** Names of a model's reasoning in the families of templates. */
export type ReasoningName = 'reasoning_content' | 'thinking' | 'reasoning';

/** Returns the messages in the form that the template takes. The input is not changed. */
export function normalizeMessages(messages: readonly UnknownRecord[], shape: TemplateShape): readonly UnknownRecord[] {
  let turns = messages;
  if (shape.isSystemFirstOnly) turns = placeSystemFirst(turns);
  if (shape.mustAlternate) turns = mergeTurns(turns);
  return turns.map((message) => normalizeMessage(message, shape));
}

/**
 * Returns the tools as templates expect them: with a description and an object schema, even if the client left them
 * out.
 */
export function normalizeTools(tools: readonly UnknownRecord[]): readonly UnknownRecord[] {
  return tools.map((tool) => {
    const definition = asRecord(tool.function);
    if (definition === undefined) return tool;
    const description = definition.description ?? '';
    const parameters = asRecord(definition.parameters);
    if (parameters === undefined) return { ...tool, function: { ...definition, description } };
    const schema = {
      ...parameters,
      ...(parameters.type === undefined ? { type: 'object' } : {}),
      ...(parameters.properties === undefined ? { properties: {} } : {}),
    };
    return { ...tool, function: { ...definition, description, parameters: schema } };
  });
}

function placeSystemFirst(messages: readonly UnknownRecord[]): readonly UnknownRecord[] {
  const leading = messages.findIndex((message) => message.role !== 'system');
  const systems = messages.slice(0, leading < 0 ? messages.length : leading);
  const rest = messages
    .slice(systems.length)
    .map((message) => (message.role === 'system' ? { ...message, role: 'user' } : message));
  return systems.length === 0 ? rest : [systems.reduce(joinMessages), ...rest];
}

/** Merges consecutive turns of the user, and of the model, into one; turns with calls stay separate. */
export function mergeTurns(messages: readonly UnknownRecord[]): readonly UnknownRecord[] {
  const merged: UnknownRecord[] = [];
  for (const message of messages) {
    const last = merged.at(-1);
    if (last !== undefined && last.role === message.role && isTalk(last) && isTalk(message)) {
      merged[merged.length - 1] = joinMessages(last, message);
    } else merged.push(message);
  }
  return merged;
}

function isTalk({ role, tool_calls: calls }: UnknownRecord): boolean {
  return role === 'user' || (role === 'assistant' && calls === undefined);
}

function joinMessages(first: UnknownRecord, second: UnknownRecord): UnknownRecord {
  const areTexts = typeof first.content === 'string' && typeof second.content === 'string';
  if (areTexts) return { ...first, content: `${first.content}\n\n${second.content}` };
  return { ...first, content: [...toParts(first.content), ...toParts(second.content)] };
}

function toParts(content: unknown): readonly unknown[] {
  if (Array.isArray(content)) return content;
  return content === undefined || content === null ? [] : [{ type: 'text', text: content }];
}

function normalizeMessage(message: UnknownRecord, shape: TemplateShape): UnknownRecord {
  let content = normalizeContent(message.content, shape);
  const { reasoning_content: reasoning, ...rest } = message;
  const isHidden = reasoning !== undefined && shape.reasoningNames.length === 0;
  if (isHidden && message.role === 'assistant') content = prependReasoning(content, reasoning);
  let thoughts = isHidden ? {} : namedThoughts(reasoning, shape);
  const toolCalls = normalizeToolCalls(message, shape);
  if (shape.joinsThoughts && reasoning !== undefined && toolCalls?.tool_calls !== undefined && content !== '') {
    thoughts = namedThoughts([...segmentsOf(reasoning), contentText(content)], shape);
    content = '';
  }
  const resultId = shape.hasShortIds ? shortIdMember(message) : undefined;
  if (content === message.content && toolCalls === undefined && reasoning === undefined && resultId === undefined) {
    return message;
  }
  return { ...rest, ...thoughts, content, ...toolCalls, ...resultId };
}

function segmentsOf(reasoning: unknown): readonly string[] {
  return (Array.isArray(reasoning) ? reasoning : [reasoning]).filter(
    (text): text is string => typeof text === 'string',
  );
}

function contentText(content: unknown): string {
  return typeof content === 'string' ? content : toParts(content).map(textOf).join('\n');
}

/**
 * Returns the reasoning under each name that the template reads. Separate texts stay separate only under
 * `reasoning_content`.
 */
function namedThoughts(reasoning: unknown, { reasoningNames }: TemplateShape): UnknownRecord {
  if (reasoning === undefined) return {};
  const text = Array.isArray(reasoning) ? segmentsOf(reasoning).join('\n') : reasoning;
  return Object.fromEntries(
    reasoningNames.map((name) => [name, name === 'reasoning_content' ? reasoning : text] as const),
  );
}

/** Returns the id of the call that a message is the result of, in the form that the template takes. */
function shortIdMember({ tool_call_id: id }: UnknownRecord): UnknownRecord | undefined {
  return typeof id === 'string' ? { tool_call_id: shortId(id) } : undefined;
}

const SHORT_ID = /^[A-Za-z0-9]{9}$/;
const SHORT_ID_CHARS = 9;

/** Returns nine letters and digits that stand for an id. */
function shortId(id: string): string {
  if (SHORT_ID.test(id)) return id;
  let [low, high] = [0x811c9dc5, 0x01000193];
  for (let at = 0; at < id.length; at++) {
    low = Math.imul(low ^ id.charCodeAt(at), 0x01000193);
    high = Math.imul(high + id.charCodeAt(at), 0x85ebca6b) ^ (high >>> 13);
  }
  const digits = (low >>> 0).toString(36).padStart(7, '0') + (high >>> 0).toString(36).padStart(7, '0');
  return digits.slice(0, 5) + digits.slice(7, 7 + SHORT_ID_CHARS - 5);
}

const MEDIA: Readonly<Record<string, string>> = { image_url: 'image', video_url: 'video', audio_url: 'audio' };

function normalizeContent(content: unknown, shape: TemplateShape): unknown {
  // Clients send null beside tool calls; templates concatenate content and would fail.
  if (content === undefined || content === null) return shape.needsContentParts ? [] : '';
  if (typeof content === 'string') return shape.needsContentParts ? [{ type: 'text', text: content }] : content;
  if (!Array.isArray(content) || content.length === 0) return content;
  const parts = content.map((part) => {
    const type = asRecord(part)?.type;
    const media = typeof type === 'string' && Object.hasOwn(MEDIA, type) ? MEDIA[type] : undefined;
    return media === undefined ? part : { type: media };
  });
  if (shape.needsContentParts) return parts;
  if (parts.every((part) => asRecord(part)?.type === 'text')) return parts.map(textOf).join('\n');
  const { imageText } = shape;
  if (imageText === undefined) return parts;
  let images = 0;
  return parts.map((part) => (asRecord(part)?.type === 'image' ? imageText(++images) : textOf(part))).join('\n');
}

function textOf(part: unknown): string {
  const text = asRecord(part)?.text;
  return typeof text === 'string' ? text : '';
}

function prependReasoning(content: unknown, reasoning: unknown): unknown {
  const text = segmentsOf(reasoning)
    .map((segment) => `<think>${segment}</think>`)
    .join('');
  if (Array.isArray(content)) return text === '' ? content : [{ type: 'text', text }, ...content];
  return typeof content === 'string' ? text + content : content;
}

/** Returns the members of `message` that change, or undefined. */
function normalizeToolCalls(message: UnknownRecord, shape: TemplateShape): UnknownRecord | undefined {
  const { tool_calls: calls, function_call: legacy } = message;
  const changesCalls = !shape.takesArgumentText || shape.hasShortIds;
  const legacyCall = asRecord(legacy);
  if (!(Array.isArray(calls) && changesCalls) && legacyCall === undefined) return undefined;
  return {
    ...(Array.isArray(calls) && changesCalls ? { tool_calls: calls.map((call) => normalizeCall(call, shape)) } : {}),
    ...(legacyCall === undefined ? {} : { function_call: withParsedArguments(legacyCall) }),
  };
}

function normalizeCall(call: unknown, shape: TemplateShape): unknown {
  const record = asRecord(call);
  const called = asRecord(record?.function);
  if (record === undefined || called === undefined) return call;
  const named = shape.hasShortIds && typeof record.id === 'string' ? { ...record, id: shortId(record.id) } : record;
  return { ...named, function: shape.takesArgumentText ? called : withParsedArguments(called) };
}

function withParsedArguments(called: UnknownRecord): UnknownRecord {
  if (typeof called.arguments !== 'string') return called;
  const text = called.arguments;
  try {
    const value = readJson(text);
    if (isRecord(value) && !(value instanceof ExactNumber)) return { ...called, arguments: value };
  } catch {
    // kept below as text, like any other text that is not an object
  }
  return { ...called, arguments: new WrittenArguments(text) };
}
