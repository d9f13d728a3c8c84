import { assertNever } from '../../../../errors/index.ts';
import type { NamedLogprob, TokenLogprob } from '../../../../protocol/generation/index.ts';
import { LazyList, sealSummary } from '../../../../protocol/openai/index.ts';
import type { OutputItem } from './output-items.ts';

/** An item as clients read it, complete or not. */
export function itemBody(item: OutputItem, showsSummary: boolean): Readonly<Record<string, unknown>> {
  const { kind, id, callId, text, status } = item;
  switch (kind) {
    case 'message':
      return { type: kind, content: [textPart(item)], id, role: 'assistant', status };
    case 'reasoning':
      return {
        type: kind,
        id,
        summary: showsSummary ? [{ type: 'summary_text', text }] : [],
        content: [{ type: 'reasoning_text', text }],
        status,
      };
    case 'function_call':
      return { type: kind, arguments: text, call_id: callId, ...calledName(item), id, status };
    case 'custom_tool_call':
      return { type: kind, call_id: callId, input: text, ...calledName(item), id, status };
    case 'tool_search_call':
      return { type: kind, arguments: searchArguments(text), call_id: callId, execution: 'client', id, status };
    case 'compaction':
      return { type: kind, id, encrypted_content: sealSummary(text) };
    default:
      return assertNever(kind);
  }
}

function calledName({ name, namespace }: OutputItem): Readonly<Record<string, unknown>> {
  return namespace === undefined ? { name } : { name, namespace };
}

/** An object on this wire; a text that the answer broke off inside of stands as it is. */
function searchArguments(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    return text; // nothing the model wrote is lost
  }
}

/** An item that has just been opened. */
export function openedBody(item: OutputItem): Readonly<Record<string, unknown>> {
  const body = itemBody(item, false);
  return 'content' in body ? { ...body, content: [] } : body;
}

/** The one part of a message. */
export function textPart({ text, logprobs }: OutputItem): Readonly<Record<string, unknown>> {
  return { type: 'output_text', annotations: [], logprobs: new LazyList(logprobs, wholeLogprob), text };
}

/** A token's log probability in a delta: without its bytes. */
export function deltaLogprob({ token, logprob, top }: TokenLogprob): object {
  return { token, logprob, top_logprobs: top.map((other) => ({ token: other.token, logprob: other.logprob })) };
}

/** A token's log probability in a whole text. */
export function wholeLogprob(token: TokenLogprob): object {
  return { ...withBytes(token), top_logprobs: token.top.map(withBytes) };
}

function withBytes({ token, bytes, logprob }: NamedLogprob): object {
  return { token, bytes: bytes ?? [], logprob };
}
