import { asRecord, type UnknownRecord } from '../../records/index.ts';

/** What a template was found to need. */
export interface TemplateShape {
  /** A system message may stand only first. */
  readonly isSystemFirstOnly: boolean;
  /** Two user turns in a row are refused. */
  readonly mustAlternate: boolean;
  /** Content is read as a list of parts only. */
  readonly needsContentParts: boolean;
  /** How an image is written into text, for templates that take text only; undefined = parts stay parts. */
  readonly imageText: ((index: number) => string) | undefined;
  /** The template tests `arguments is string` itself, so arguments stay as the model wrote them. */
  readonly takesArgumentText: boolean;
  /** The template writes `reasoning_content` itself. */
  readonly takesReasoning: boolean;
}

/** Brings messages to what the template takes. The input is left as it is. */
export function normalizeMessages(messages: readonly UnknownRecord[], shape: TemplateShape): readonly UnknownRecord[] {
  let turns = messages;
  if (shape.isSystemFirstOnly) turns = placeSystemFirst(turns);
  if (shape.mustAlternate) turns = mergeUserTurns(turns);
  return turns.map((message) => normalizeMessage(message, shape));
}

/** Tools as templates expect them: a description and an object schema, even where the client left them out. */
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

function mergeUserTurns(messages: readonly UnknownRecord[]): readonly UnknownRecord[] {
  const merged: UnknownRecord[] = [];
  for (const message of messages) {
    const last = merged.at(-1);
    if (last?.role === 'user' && message.role === 'user') merged[merged.length - 1] = joinMessages(last, message);
    else merged.push(message);
  }
  return merged;
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
  const hidesReasoning = !shape.takesReasoning && reasoning !== undefined;
  if (hidesReasoning && message.role === 'assistant') content = prependReasoning(content, reasoning);
  const toolCalls = normalizeToolCalls(message, shape);
  if (content === message.content && toolCalls === undefined && !hidesReasoning) return message;
  return { ...(hidesReasoning ? rest : message), content, ...toolCalls };
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
  const segments = (Array.isArray(reasoning) ? reasoning : [reasoning]).filter(
    (segment) => typeof segment === 'string',
  );
  const text = segments.map((segment) => `<think>${segment}</think>`).join('');
  if (Array.isArray(content)) return text === '' ? content : [{ type: 'text', text }, ...content];
  return typeof content === 'string' ? text + content : content;
}

/** The members of `message` that change, or undefined. */
function normalizeToolCalls(message: UnknownRecord, shape: TemplateShape): UnknownRecord | undefined {
  const { tool_calls: calls, function_call: legacy } = message;
  const hasCalls = Array.isArray(calls) && !shape.takesArgumentText;
  const legacyCall = asRecord(legacy);
  if (!hasCalls && legacyCall === undefined) return undefined;
  return {
    ...(hasCalls ? { tool_calls: calls.map(parseCallArguments) } : {}),
    ...(legacyCall === undefined ? {} : { function_call: withParsedArguments(legacyCall) }),
  };
}

function parseCallArguments(call: unknown): unknown {
  const record = asRecord(call);
  const called = asRecord(record?.function);
  return record === undefined || called === undefined ? call : { ...record, function: withParsedArguments(called) };
}

function withParsedArguments(called: UnknownRecord): UnknownRecord {
  if (typeof called.arguments !== 'string') return called;
  try {
    return { ...called, arguments: JSON.parse(called.arguments) as unknown };
  } catch {
    return called; // not JSON: the template gets the text as the model wrote it
  }
}
