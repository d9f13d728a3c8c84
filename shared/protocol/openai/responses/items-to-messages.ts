import { assertNever } from '../../../errors/index.ts';
import { isRecord } from '../../../records/index.ts';
import type { ChatMessage } from '../../generation/generation-request.ts';
import type { LeftOut } from '../../generation/left-out.ts';
import { argumentsText } from '../call-arguments.ts';
import { invalidValue } from '../field-checks.ts';
import { fileText } from '../file-parts.ts';
import { kindOfPart, textOfPart, toldAsText } from '../history-parts.ts';
import { chatToolName, TOOL_SEARCH } from './decode-tools.ts';
import { foreignCall } from './foreign-calls.ts';
import { type InputItem, isOfModel, kindOfItem, type MessageItem } from './items.ts';

const PREFIX = 'stator.v1.';

/** Instruction to the model when it must compact a conversation. */
const COMPACTION_INSTRUCTION =
  'Write a summary of this conversation for yourself: it will replace everything above, and you will continue from it. ' +
  'Keep what the user asked for and every constraint, decisions and their reasons, what was done and with which results ' +
  '(names of files, commands, values, errors), what is still open, and the next step. Call no tools. Answer with the ' +
  'summary alone.';

type Part = Readonly<Record<string, unknown>>;

/** Assistant message that is being assembled: everything that the model wrote in one turn belongs to one message. */
interface AssistantDraft {
  reasoning: string;
  /** Text; undefined until a message item has come. */
  content: string | undefined;
  readonly calls: Part[];
}

/**
 * Converts items to chat messages. Adjacent system messages become one, because many templates take only one, at the
 * beginning. Consecutive reasoning, text and calls of the assistant become one message, as the model wrote them in one
 * turn. Content from a model or another server is never refused.
 * @param ownFrom index of the first item in the body's own `input`, for the paths in errors
 * @throws ServeError `invalid_value` for new content
 */
export function itemsToMessages(
  instructions: string | null | undefined,
  items: readonly InputItem[],
  ownFrom: number,
  leftOut: LeftOut,
): readonly ChatMessage[] {
  const messages = new MessageList();
  if (instructions != null) messages.system(instructions);
  const newFrom = items.findLastIndex(isOfModel) + 1;
  for (const [at, item] of items.entries()) {
    addItem(messages, item, { param: `input[${at - ownFrom}]`, isNew: at >= newFrom, leftOut });
  }
  return messages.finish();
}

/** Place of an item, and the record of parts that are left out. */
interface Place {
  readonly param: string;
  readonly isNew: boolean;
  readonly leftOut: LeftOut;
}

function addItem(messages: MessageList, item: InputItem, place: Place): void {
  const { leftOut } = place;
  switch (item.type) {
    case 'message':
      addMessage(messages, item, place);
      return;
    case 'reasoning':
      addReasoning(messages, item, leftOut);
      return;
    case 'function_call':
      messages.call(
        idOf(item),
        chatToolName(textIn(item.namespace), textIn(item.name) ?? 'unknown'),
        argumentsText(item.arguments),
      );
      return;
    case 'custom_tool_call': {
      const input = typeof item.input === 'string' ? item.input : toldAsText(item.input, leftOut);
      messages.call(
        idOf(item),
        chatToolName(textIn(item.namespace), textIn(item.name) ?? 'unknown'),
        JSON.stringify({ input }),
      );
      return;
    }
    case 'function_call_output':
    case 'custom_tool_call_output':
      messages.result(idOf(item, 'call_id'), toolContent(item.output));
      return;
    case 'tool_search_call':
      messages.call(textIn(item.call_id) ?? '', TOOL_SEARCH, argumentsText(item.arguments));
      return;
    case 'tool_search_output':
      messages.result(textIn(item.call_id), JSON.stringify(item.tools));
      return;
    case 'compaction':
      addSummary(messages, item.encrypted_content, leftOut);
      return;
    case 'compaction_trigger':
      messages.add({ role: 'user', content: COMPACTION_INSTRUCTION });
      return;
    case 'item_reference': // its target would have replaced it before; this one is unknown
      leftOut.note('history', item.type);
      return;
    case 'foreign':
      addForeign(messages, item.item, leftOut);
      return;
    case 'additional_tools': // already among the tools of the request
    case 'configuration_update':
      return;
    default:
      assertNever(item);
  }
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Returns the id by which a call and its output find each other; an empty one is replaced later. */
function idOf({ call_id, id }: Part, only?: 'call_id'): string {
  return textIn(call_id) ?? (only === undefined ? textIn(id) : undefined) ?? '';
}

function addMessage(messages: MessageList, { role, content }: MessageItem, place: Place): void {
  switch (role) {
    case 'system':
    case 'developer':
      messages.system(textOfParts(content, '\n'));
      return;
    case 'assistant':
      addSaid(messages, content, place.leftOut);
      return;
    case 'user':
      messages.add({ role, content: typeof content === 'string' ? content : userContent(content, place) });
      return;
    default:
      assertNever(role);
  }
}

function textOfParts(content: unknown, separator: string): string {
  return partsOf(content)
    .flatMap((part) => textOfPart(part) ?? [])
    .join(separator);
}

function partsOf(content: unknown): readonly unknown[] {
  if (content === undefined || content === null) return [];
  return Array.isArray(content) ? content : [content];
}

/** Adds the model's text; parts of other kinds have no place in its turn. */
function addSaid(messages: MessageList, content: unknown, leftOut: LeftOut): void {
  for (const part of partsOf(content)) if (textOfPart(part) === undefined) leftOut.note('history', kindOfPart(part));
  messages.assistant(textOfParts(content, ''));
}

function addReasoning(messages: MessageList, { content, summary, encrypted_content }: Part, leftOut: LeftOut): void {
  const text = textOfParts(content, '') || textOfParts(summary, '');
  messages.reasoning(text);
  if (text === '' && typeof encrypted_content === 'string') leftOut.note('history', 'reasoning');
}

function addSummary(messages: MessageList, content: unknown, leftOut: LeftOut): void {
  const summary = typeof content === 'string' ? openSummary(content) : undefined;
  if (summary === undefined)
    leftOut.note('history', 'compaction'); // from another server, which only that server can read
  else messages.add({ role: 'user', content: summaryMessage(summary) });
}

/**
 * Adds calls of tools as their servers wrote them, with their results; other items that only their server understands
 * are left out.
 */
function addForeign(messages: MessageList, item: Part, leftOut: LeftOut): void {
  const kind = kindOfItem(item);
  const call = foreignCall(kind, item);
  if (call !== undefined) {
    messages.call(idOf(item), call.name, argumentsText(call.arguments));
    if (call.result !== undefined) messages.result(idOf(item), toldResult(call.result, leftOut));
  } else if (/_output$/.test(kind)) messages.result(idOf(item), toolContent(item.output ?? item.result ?? item.status));
  else leftOut.note('history', kind);
}

function toldResult(result: unknown, leftOut: LeftOut): string {
  if (!Array.isArray(result)) return toldAsText(result, leftOut);
  return result.map((part) => toldAsText(part, leftOut)).join('\n');
}

/** Returns a tool's result, as a chat's text if it is text; anything else is read where all conversations are. */
function toolContent(output: unknown): ChatMessage['content'] {
  if (typeof output === 'string') return output;
  const parts = partsOf(output);
  if (parts.every((part) => isRecord(part) && part.type === 'input_text')) return textOfParts(parts, '');
  return parts as readonly Part[];
}

function userContent(content: unknown, place: Place): string | Part[] {
  const parts = partsOf(content);
  const [first] = parts;
  const only = parts.length === 1 && isRecord(first) && first.type === 'input_text' ? textOfPart(first) : undefined;
  if (only !== undefined) return only;
  return parts.flatMap((part, at) => chatPart(part, { ...place, param: `${place.param}.content[${at}]` }));
}

/**
 * Converts a part of a user's message to parts of a chat. @throws ServeError `invalid_value` for a new part that cannot
 * be converted
 */
function chatPart(part: unknown, { param, isNew, leftOut }: Place): readonly Part[] {
  const text = textOfPart(part);
  if (text !== undefined) return [{ type: 'text', text }];
  if (!isRecord(part)) return [];
  const refuse = (message: string, field: string): readonly Part[] => {
    if (isNew) throw invalidValue(message, field);
    leftOut.note('history', kindOfPart(part));
    return [];
  };
  switch (part.type) {
    case 'input_image': {
      const { image_url: url, detail } = part;
      if (!isUrl(url)) return refuse(badUrl('image', part), `${param}.image_url`);
      return [{ type: 'image_url', image_url: { url, ...(detail == null ? {} : { detail }) } }];
    }
    case 'input_video': {
      const { video_url: url } = part;
      return isUrl(url)
        ? [{ type: 'video_url', video_url: { url } }]
        : refuse(badUrl('video', part), `${param}.video_url`);
    }
    case 'input_file': {
      const read = fileText(part);
      if (read.kind === 'text') return [{ type: 'text', text: read.text }];
      return refuse(`Failed to convert responses request: ${read.field}: ${read.reason}`, `${param}.${read.field}`);
    }
    default:
      return refuse(`${param}.type: unknown part type`, `${param}.type`);
  }
}

function isUrl(url: unknown): url is string {
  return typeof url === 'string' && URL.canParse(url);
}

function badUrl(what: string, { file_id: id }: Part): string {
  const hint = typeof id === 'string' ? ': files are not kept here, send a URL or a data: URL' : '';
  return `Failed to convert responses request: invalid ${what} URL${hint}`;
}

/** Messages in order; the assistant's open turn is held back until something else comes. */
class MessageList {
  readonly #messages: ChatMessage[] = [];
  #draft: AssistantDraft | undefined;

  system(text: string): void {
    this.#closeTurn();
    const last = this.#messages.at(-1);
    if (last?.role !== 'system') this.#messages.push({ role: 'system', content: text });
    else this.#messages[this.#messages.length - 1] = { role: 'system', content: `${String(last.content)}\n\n${text}` };
  }

  add(message: ChatMessage): void {
    this.#closeTurn();
    this.#messages.push(message);
  }

  /** @param id that of its call; empty if unknown */
  result(id: string | undefined, content: ChatMessage['content']): void {
    this.add({ role: 'tool', content: content ?? '', ...(id === undefined || id === '' ? {} : { tool_call_id: id }) });
  }

  reasoning(text: string): void {
    const draft = this.#turn((open) => open.content === undefined && open.calls.length === 0);
    draft.reasoning += text;
  }

  assistant(text: string): void {
    const draft = this.#turn((open) => open.content === undefined && open.calls.length === 0);
    draft.content = text;
  }

  call(id: string, name: string, argumentsText: string): void {
    const draft = this.#turn(() => true);
    draft.calls.push({ id, type: 'function', function: { name, arguments: argumentsText } });
  }

  finish(): readonly ChatMessage[] {
    this.#closeTurn();
    return this.#messages;
  }

  /** Returns the open turn if the next item may still belong to it, otherwise a new one. */
  #turn(continues: (open: AssistantDraft) => boolean): AssistantDraft {
    if (this.#draft !== undefined && !continues(this.#draft)) this.#closeTurn();
    this.#draft ??= { reasoning: '', content: undefined, calls: [] };
    return this.#draft;
  }

  #closeTurn(): void {
    const draft = this.#draft;
    if (draft === undefined) return;
    this.#draft = undefined;
    this.#messages.push({
      role: 'assistant',
      // calls without content: null, as templates expect
      content: draft.content ?? (draft.calls.length > 0 ? null : ''),
      ...(draft.reasoning === '' ? {} : { reasoning_content: draft.reasoning }),
      ...(draft.calls.length === 0 ? {} : { tool_calls: draft.calls }),
    });
  }
}

/**
 * Encodes a summary as the `encrypted_content` of a compaction item. The client keeps it and returns it. It contains
 * only what the model told this client, so it is not encrypted and edges need not share a key.
 */
export function sealSummary(summary: string): string {
  return PREFIX + Buffer.from(summary).toString('base64url');
}

/** Returns the summary in a compaction item; undefined for one of another server. */
export function openSummary(content: string): string | undefined {
  return content.startsWith(PREFIX) ? Buffer.from(content.slice(PREFIX.length), 'base64url').toString() : undefined;
}

/** Returns the summary as it stands in later prompts. */
function summaryMessage(summary: string): string {
  return `Summary of the conversation so far:\n\n${summary}`;
}
