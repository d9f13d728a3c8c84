import { ask, eventsOf, ROOT } from '../server.ts';

/** One message of a conversation, as the API takes it. */
export interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

/** Body of a chat request. */
export interface ChatBody {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly stream: true;
  readonly stream_options: { readonly include_usage: true };
  readonly max_tokens?: number;
  readonly temperature?: number;
  readonly tools?: readonly unknown[];
}

/** A call of a tool, as far as it has come. */
export interface ToolCall {
  readonly name: string;
  readonly arguments: string;
}

/** An answer, as far as it has come. Times in milliseconds. */
export interface Answer {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly ToolCall[];
  readonly finish: string | undefined;
  readonly usage: Usage | undefined;
  readonly ttftMs: number | undefined;
  readonly totalMs: number;
  /** Id of the response, by which the page of the request finds it. */
  readonly id: string | undefined;
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null;
}

interface Chunk {
  readonly id?: string;
  readonly error?: { readonly message: string };
  readonly usage?: Usage | null;
  readonly choices?: readonly { readonly delta?: Delta; readonly finish_reason?: string | null }[];
}

interface Delta {
  readonly content?: string | null;
  readonly reasoning_content?: string | null;
  readonly reasoning?: string | null;
  readonly tool_calls?: readonly {
    readonly index: number;
    readonly function?: { readonly name?: string; readonly arguments?: string };
  }[];
}

export const NO_ANSWER: Answer = {
  text: '',
  reasoning: '',
  calls: [],
  finish: undefined,
  usage: undefined,
  ttftMs: undefined,
  totalMs: 0,
  id: undefined,
};

/** Sends a chat, and yields its answer each time that more of it has come. Rejects with the text of a failure. */
export async function* chat(path: string, body: ChatBody, key: string, signal: AbortSignal): AsyncGenerator<Answer> {
  const startedMs = performance.now();
  const headers = { 'content-type': 'application/json', ...(key === '' ? {} : { authorization: `Bearer ${key}` }) };
  const response = await ask(path, { method: 'POST', headers, body: JSON.stringify(body), signal });
  let answer = NO_ANSWER;
  for await (const { data } of eventsOf(response)) {
    if (data === '[DONE]') return;
    const chunk: Chunk = JSON.parse(data);
    if (chunk.error !== undefined) throw new Error(chunk.error.message);
    answer = withChunk(answer, chunk, performance.now() - startedMs);
    yield answer;
  }
}

function withChunk(answer: Answer, { id, usage, choices }: Chunk, nowMs: number): Answer {
  const choice = choices?.[0];
  const { content, reasoning_content, reasoning, tool_calls: calls } = choice?.delta ?? {};
  const thought = reasoning_content ?? reasoning ?? '';
  const hasOutput = (content ?? '') !== '' || thought !== '' || calls !== undefined;
  return {
    text: answer.text + (content ?? ''),
    reasoning: answer.reasoning + thought,
    calls: calls === undefined ? answer.calls : withCalls(answer.calls, calls),
    finish: choice?.finish_reason ?? answer.finish,
    usage: usage ?? answer.usage,
    ttftMs: answer.ttftMs ?? (hasOutput ? nowMs : undefined),
    totalMs: nowMs,
    id: id ?? answer.id,
  };
}

function withCalls(known: readonly ToolCall[], parts: NonNullable<Delta['tool_calls']>): readonly ToolCall[] {
  const calls = [...known];
  for (const { index, function: part } of parts) {
    const before = calls[index] ?? { name: '', arguments: '' };
    calls[index] = {
      name: before.name + (part?.name ?? ''),
      arguments: before.arguments + (part?.arguments ?? ''),
    };
  }
  return calls;
}

/** Returns the request as a command of curl. The key is in a variable. */
export function asCurl(path: string, body: ChatBody): string {
  const json = JSON.stringify(body).replaceAll("'", "'\\''");
  return [
    `curl -N ${new URL(path.replace(/^\//, ''), ROOT)} \\`,
    `  -H 'content-type: application/json' -H "authorization: Bearer $STATOR_API_KEY" \\`,
    `  -d '${json}'`,
  ].join('\n');
}

/** Returns the request as a program in Python, with the official client. */
export function asPython(path: string, { stream: _, stream_options: __, ...body }: ChatBody): string {
  const base = new URL(path.replace(/^\//, '').replace(/\/?chat\/completions$/, ''), ROOT);
  const options = Object.entries(body).map(([name, value]) => `    ${name}=${pythonOf(value)},`);
  return [
    'import os',
    'from openai import OpenAI',
    '',
    `client = OpenAI(base_url=${JSON.stringify(String(base))}, api_key=os.environ.get("STATOR_API_KEY", "none"))`,
    'chunks = client.chat.completions.create(',
    ...options,
    '    stream=True,',
    ')',
    'for chunk in chunks:',
    '    if chunk.choices and chunk.choices[0].delta.content:',
    '        print(chunk.choices[0].delta.content, end="", flush=True)',
  ].join('\n');
}

/** Writes a value as a literal of Python. */
function pythonOf(value: unknown): string {
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(', ')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const members = Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}: ${pythonOf(member)}`);
  return `{${members.join(', ')}}`;
}
