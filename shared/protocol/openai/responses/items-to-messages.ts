import { assertNever } from '../../../errors/index.ts';
import type { ChatMessage } from '../../generation/generation-request.ts';
import { invalidValue } from '../field-checks.ts';
import { chatToolName, TOOL_SEARCH } from './decode-tools.ts';
import type { ContentPart, InputItem, MessageItem } from './items.ts';

const PREFIX = 'stator.v1.';

/** What the model is told when a conversation is to be compacted. */
const COMPACTION_INSTRUCTION =
  'Write a summary of this conversation for yourself: it will replace everything above, and you will continue from it. ' +
  'Keep what the user asked for and every constraint, decisions and their reasons, what was done and with which results ' +
  '(names of files, commands, values, errors), what is still open, and the next step. Call no tools. Answer with the ' +
  'summary alone.';

type ToolOutput = Extract<InputItem, { readonly type: 'function_call_output' }>['output'];
type ReasoningItem = Extract<InputItem, { readonly type: 'reasoning' }>;
type Part = Readonly<Record<string, unknown>>;

/** An assistant message as it is put together: what one turn of the model wrote belongs to one message. */
interface AssistantDraft {
  reasoning: string;
  /** Undefined until a message item has come. */
  content: string | undefined;
  readonly calls: Part[];
}

/**
 * Items as chat messages. Adjacent system messages become one, because many templates take only one
 * and only in front; reasoning, text and calls of the assistant that follow each other become one message, as the model wrote
 * them in one turn.
 * @param ownFrom index of the first item that stands in the body's own `input`, for the paths in errors
 * @throws ServeError `invalid_value`
 */
export function itemsToMessages(
  instructions: string | null | undefined,
  items: readonly InputItem[],
  ownFrom: number,
): readonly ChatMessage[] {
  const messages = new MessageList();
  if (instructions != null) messages.system(instructions);
  for (const [at, item] of items.entries()) addItem(messages, item, `input[${at - ownFrom}]`);
  return messages.finish();
}

function addItem(messages: MessageList, item: InputItem, param: string): void {
  switch (item.type) {
    case 'message':
      addMessage(messages, item, param);
      return;
    case 'reasoning':
      messages.reasoning(reasoningText(item));
      return;
    case 'function_call':
      messages.call(item.call_id, chatToolName(item.namespace, item.name), item.arguments);
      return;
    case 'custom_tool_call':
      messages.call(item.call_id, chatToolName(item.namespace, item.name), JSON.stringify({ input: item.input }));
      return;
    case 'function_call_output':
    case 'custom_tool_call_output':
      messages.add({ role: 'tool', content: toolContent(item.output, param), tool_call_id: item.call_id });
      return;
    case 'tool_search_call':
      messages.call(item.call_id ?? '', TOOL_SEARCH, JSON.stringify(item.arguments ?? {}));
      return;
    case 'tool_search_output':
      messages.add({ role: 'tool', content: JSON.stringify(item.tools), tool_call_id: item.call_id ?? '' });
      return;
    case 'compaction':
      messages.add({
        role: 'user',
        content: summaryMessage(openSummary(item.encrypted_content, `${param}.encrypted_content`)),
      });
      return;
    case 'compaction_trigger':
      messages.add({ role: 'user', content: COMPACTION_INSTRUCTION });
      return;
    case 'item_reference': // what it stands for was put in its place before; nothing is known of this one
    case 'additional_tools': // among the tools of the request
    case 'configuration_update':
      return;
    default:
      assertNever(item);
  }
}

function addMessage(messages: MessageList, { role, content }: MessageItem, param: string): void {
  switch (role) {
    case 'system':
    case 'developer':
      messages.system(typeof content === 'string' ? content : joinText(content, '\n'));
      return;
    case 'assistant':
      messages.assistant(typeof content === 'string' ? content : joinText(content, ''));
      return;
    case 'user':
      messages.add({ role, content: typeof content === 'string' ? content : userContent(content, param) });
      return;
    default:
      assertNever(role);
  }
}

function reasoningText({ content, summary }: ReasoningItem): string {
  const parts = content != null && content.length > 0 ? content : (summary ?? []);
  return parts.map((part) => part.text).join('');
}

function joinText(parts: readonly ContentPart[], separator: string): string {
  return parts.flatMap(textOf).join(separator);
}

function textOf(part: ContentPart): string[] {
  if (part.type === 'input_text' || part.type === 'output_text') return [part.text];
  return part.type === 'refusal' ? [part.refusal] : [];
}

function toolContent(output: ToolOutput, param: string): string | Part[] {
  if (typeof output === 'string') return output;
  const isText = output.every((part) => part.type === 'input_text');
  return isText ? joinText(output, '') : output.map((part, at) => chatPart(part, `${param}.output[${at}]`));
}

function userContent(parts: readonly ContentPart[], param: string): string | Part[] {
  const [first] = parts;
  if (parts.length === 1 && first?.type === 'input_text') return first.text;
  return parts.map((part, at) => chatPart(part, `${param}.content[${at}]`));
}

function chatPart(part: ContentPart, param: string): Part {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
      return { type: 'text', text: part.text };
    case 'refusal':
      return { type: 'text', text: part.refusal };
    case 'input_image': {
      const url = requireUrl(part.image_url, `${param}.image_url`, 'image');
      return { type: 'image_url', image_url: { url, ...(part.detail == null ? {} : { detail: part.detail }) } };
    }
    case 'input_video':
      return { type: 'video_url', video_url: { url: requireUrl(part.video_url, `${param}.video_url`, 'video') } };
    case 'input_file':
      throw invalidValue('Failed to convert responses request: File input content is not yet supported', param);
    default:
      return assertNever(part);
  }
}

function requireUrl(url: string | null | undefined, param: string, what: string): string {
  if (url != null && URL.canParse(url)) return url;
  throw invalidValue(`Failed to convert responses request: invalid ${what} URL`, param);
}

/** Messages in order, with the assistant's open turn kept apart until something else comes. */
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

  /** The open turn if what comes next may still belong to it, else a new one. */
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
      content: draft.content ?? (draft.calls.length > 0 ? null : ''), // calls alone: null, as templates expect it
      ...(draft.reasoning === '' ? {} : { reasoning_content: draft.reasoning }),
      ...(draft.calls.length === 0 ? {} : { tool_calls: draft.calls }),
    });
  }
}

/**
 * A summary as the `encrypted_content` of a compaction item. The client keeps it and gives it back; it holds nothing but
 * what the model said to that very client, so that it is written down plainly and no key has to be shared between edges.
 */
export function sealSummary(summary: string): string {
  return PREFIX + Buffer.from(summary).toString('base64url');
}

/** The summary in a compaction item. @throws ServeError `invalid_value` for one that was not made here */
export function openSummary(content: string, param: string): string {
  if (content.startsWith(PREFIX)) return Buffer.from(content.slice(PREFIX.length), 'base64url').toString();
  throw invalidValue(`${param}: the compaction was not made by this server and cannot be read`, param);
}

/** How a summary stands in the prompt of what follows. */
function summaryMessage(summary: string): string {
  return `Summary of the conversation so far:\n\n${summary}`;
}
