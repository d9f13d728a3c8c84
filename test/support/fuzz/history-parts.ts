import { ServeError } from '../../../shared/errors/index.ts';
import { CustomCalls, wholeCall } from '../../../shared/frontends/http/openai/custom-calls.ts';
import {
  type ChatMessage,
  decodeChat,
  decodeMessages,
  decodeResponses,
  type GenerationRequest,
  parseChatBody,
  parseMessagesBody,
  parseResponsesBody,
} from '../../../shared/protocol/index.ts';
import { isRecord } from '../../../shared/records/index.ts';
import { contextWith } from '../../shared/protocol/decode-context.ts';
import type { HostileValues } from './hostile-values.ts';
import type { Part } from './parts.ts';

const IDS = ['a', 'a', 'a_1', 'a_2', 'b', '', 'call_1_0'];
const KINDS = [
  'text',
  'image_url',
  'input_image',
  'image',
  'tool_use',
  'thinking',
  'reasoning',
  'document',
  'file',
  'refusal',
];
const ITEMS = [
  'function_call',
  'custom_tool_call',
  'web_search_call',
  'mcp_call',
  'program',
  'reasoning',
  'compaction',
  'shell_call',
];
const RESULTS = ['function_call_output', 'custom_tool_call_output', 'shell_call_output', 'program_output'];
const BLOCKS = [
  'tool_use',
  'server_tool_use',
  'mcp_tool_use',
  'text',
  'thinking',
  'redacted_thinking',
  'web_search_tool_result',
  'x',
];

/**
 * Earlier turns that clients send back, from any author. Readers never refuse them, and pass them on in the form that
 * strict servers accept.
 */
export const HISTORY_PARTS: Readonly<Record<string, Part>> = {
  'histories of chats': (values) => {
    const messages = [...turns(values, chatTurn), { role: 'user', content: 'go on' }];
    check(() => decodeChat(parseChatBody({ value: { model: 'm', messages } }), contextWith()).request);
  },
  'histories of Responses': (values) => {
    const input = [...turns(values, item), { type: 'message', role: 'assistant' }, { role: 'user', content: 'go on' }];
    check(() => {
      const { body, items } = parseResponsesBody({ value: { model: 'm', input } });
      return decodeResponses(body, { earlier: [], own: items, isStored: false }, contextWith()).request;
    });
  },
  'histories of Messages': (values) => {
    const messages = [
      ...turns(values, messagesTurn),
      { role: 'assistant', content: values.json() },
      { role: 'user', content: 'go on' },
    ];
    const options = { stripsPreamble: false, hasReasoningParser: true };
    check(() =>
      decodeMessages(parseMessagesBody({ value: { model: 'm', max_tokens: 9, messages } }), contextWith(), options),
    );
  },
  'calls of custom tools': (values) => {
    const said = values.text().slice(0, 2000);
    const written = values.chance(0.6) ? JSON.stringify({ input: said }) : said;
    const text = values.chance(0.2) ? written.slice(0, values.random.below(written.length + 1)) : written;
    const names = new Set(['f']);
    const whole = wholeCall({ id: 'a', name: 'f', arguments: text }, names) as {
      readonly custom: { readonly input: string };
    };
    const calls = new CustomCalls(names);
    calls.begin(0, 0, 'f');
    let told = '';
    for (let from = 0; from < text.length; ) {
      const to = Math.min(text.length, from + 1 + values.random.below(values.chance(0.5) ? 3 : 40));
      told += calls.grow(0, 0, text.slice(from, to));
      from = to;
    }
    for (const { custom } of calls.end(0)) told += custom.input;
    if (told !== whole.custom.input)
      throw new Error(`in pieces ${JSON.stringify(told)}, whole ${JSON.stringify(whole)}`);
  },
};

function turns(values: HostileValues, turn: (values: HostileValues) => object): readonly object[] {
  return Array.from({ length: 1 + values.random.below(6) }, () => turn(values));
}

const maybe = (values: HostileValues, value: unknown): unknown => (values.chance(0.25) ? values.json() : value);

function part(values: HostileValues): object {
  const kind = values.one(KINDS);
  return {
    type: kind,
    [kind]: values.json(),
    text: maybe(values, 'a'),
    id: values.one(IDS),
    name: 'f',
    input: values.json(),
  };
}

const list = (values: HostileValues, of: (values: HostileValues) => object): readonly object[] =>
  Array.from({ length: values.random.below(4) }, () => of(values));

function chatCall(values: HostileValues): object {
  const called = { name: maybe(values, 'f'), arguments: maybe(values, values.one(['{}', '{"a', '', 'null', '"{}"'])) };
  const kind = values.one(['function', 'custom']);
  return {
    id: maybe(values, values.one(IDS)),
    type: maybe(values, kind),
    [kind]: maybe(values, { ...called, input: 'a' }),
  };
}

function chatTurn(values: HostileValues): object {
  const content = maybe(values, values.chance(0.5) ? values.text() : list(values, part));
  switch (values.random.below(4)) {
    case 0:
      return { role: 'tool', tool_call_id: maybe(values, values.one(IDS)), content };
    case 1:
      return { role: 'user', content: values.chance(0.5) ? values.text() : [{ type: 'text', text: values.text() }] };
    default:
      return {
        role: 'assistant',
        content,
        tool_calls: maybe(values, list(values, chatCall)),
        ...(values.chance(0.2) ? { [values.one(['reasoning', 'thinking', 'audio', 'refusal'])]: values.json() } : {}),
      };
  }
}

function item(values: HostileValues): object {
  const call = { call_id: maybe(values, values.one(IDS)), id: values.one(IDS) };
  if (values.chance(0.3)) return { type: values.one(RESULTS), ...call, output: maybe(values, list(values, part)) };
  if (values.chance(0.2))
    return { type: 'message', role: values.one(['user', 'assistant']), content: maybe(values, list(values, part)) };
  return {
    type: values.one(ITEMS),
    ...call,
    name: maybe(values, 'f'),
    ...Object.fromEntries(
      ['arguments', 'input', 'action', 'summary', 'content', 'code'].map((key) => [key, values.json()]),
    ),
  };
}

function messagesTurn(values: HostileValues): object {
  const block = (): object => ({
    type: values.one(BLOCKS),
    id: values.one(IDS),
    tool_use_id: maybe(values, values.one(IDS)),
    name: maybe(values, 'f'),
    ...Object.fromEntries(['input', 'content', 'text', 'thinking'].map((key) => [key, values.json()])),
  });
  if (values.chance(0.5)) return { role: 'assistant', content: maybe(values, list(values, block)) };
  const result = (): object => ({
    type: 'tool_result',
    tool_use_id: values.one(IDS),
    content: maybe(values, list(values, part)),
  });
  return { role: 'user', content: [{ type: 'text', text: 'a' }, ...list(values, result)] };
}

/** Checks that a reader accepts a history and passes it on in the published form. */
function check(decode: () => GenerationRequest): void {
  let request: GenerationRequest;
  try {
    request = decode();
  } catch (error) {
    if (error instanceof ServeError) throw new Error(`refused: ${error.message}`);
    throw error;
  }
  const messages = request.body?.messages as readonly ChatMessage[];
  let open = new Set<unknown>();
  for (const message of messages) {
    if (message.role === 'tool') {
      if (!open.delete(message.tool_call_id))
        throw new Error(`a result without a call: ${JSON.stringify(message).slice(0, 300)}`);
    } else if (open.size > 0) throw new Error(`calls without results: ${[...open].join()}`);
    if (message.role === 'assistant') open = new Set(callIds(message));
    checkContent(message);
  }
}

function callIds({ tool_calls: calls = [] }: ChatMessage): readonly unknown[] {
  const ids = calls.map(({ id, function: called }) => {
    const { arguments: text } = called as { readonly arguments: string };
    if (!isRecord(JSON.parse(text))) throw new Error(`arguments that are not an object: ${text}`);
    return id;
  });
  if (new Set(ids).size < ids.length) throw new Error(`ids given twice: ${ids.join()}`);
  if (ids.some((id) => typeof id !== 'string' || id === ''))
    throw new Error(`a call without an id: ${JSON.stringify(ids)}`);
  return ids;
}

function checkContent({ role, content }: ChatMessage): void {
  if (typeof content === 'string' || (role === 'assistant' && content === null)) return;
  const isList = Array.isArray(content) && content.every((each) => isRecord(each) && typeof each.type === 'string');
  if (!isList) throw new Error(`content of ${role}: ${JSON.stringify(content)?.slice(0, 300)}`);
}
