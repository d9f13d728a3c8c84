import { workerError } from '../../errors/index.ts';

/** Tool calls of one choice: more than any answer has, and few enough for a list with as many places. */
const CALLS_MAX = 1024;

/**
 * Looks at the places that a body in OpenAI's shape names: what puts bodies together makes room up to each of them.
 * @throws ServeError `bad_worker_response` for a choice beyond those asked for, or a call beyond any
 */
export function requireChoicesBelow(count: number, body: unknown): void {
  const choices = (body as { readonly choices?: unknown } | null | undefined)?.choices;
  if (!Array.isArray(choices)) return;
  if (choices.length > count) throw workerError('BackendProtocol', `${choices.length} choices of ${count} asked for`);
  for (const choice of choices) {
    requirePlace(choice?.index, count, 'choice');
    for (const said of [choice?.delta, choice?.message]) {
      if (!Array.isArray(said?.tool_calls)) continue;
      if (said.tool_calls.length > CALLS_MAX) throw workerError('BackendProtocol', `more than ${CALLS_MAX} tool calls`);
      for (const call of said.tool_calls) requirePlace(call?.index, CALLS_MAX, 'tool call');
    }
  }
}

function requirePlace(index: unknown, count: number, what: string): void {
  if (index === undefined || index === null) return;
  if (Number.isInteger(index) && (index as number) >= 0 && (index as number) < count) return;
  throw workerError('BackendProtocol', `the index of a ${what} is none below ${count}`);
}
