import type { ChatMessage } from '../generation/generation-request.ts';
import type { AssistantTurn, HistoryCall, ResultTurn } from './history-messages.ts';

/** Message of a conversation, as it was read. */
export type Turn = AssistantTurn | ResultTurn | { readonly kind: 'other'; readonly message: ChatMessage };

/** Call with its result. */
export interface OpenCall extends HistoryCall {
  result: ResultTurn | undefined;
}

/** Turn with the results of its calls, in their order. */
export type PlacedTurn =
  | { readonly kind: 'assistant'; readonly message: ChatMessage; readonly calls: readonly OpenCall[] }
  /** Result without a call. */
  | { readonly kind: 'orphan'; readonly result: ResultTurn }
  | { readonly kind: 'other'; readonly message: ChatMessage };

/** Assigns every result to its call, in time proportional to the length of the conversation. */
export function inOrder(turns: readonly Turn[]): readonly PlacedTurn[] {
  const placed: PlacedTurn[] = [];
  const open = new OpenCalls();
  for (const turn of turns) {
    if (turn.kind === 'other') {
      placed.push(turn);
      continue;
    }
    if (turn.kind === 'assistant') {
      const calls = openCalls(turn.calls);
      open.add(calls);
      placed.push({ kind: 'assistant', message: turn.message, calls });
      continue;
    }
    const call = open.of(turn.given);
    if (call === undefined) placed.push({ kind: 'orphan', result: turn });
    else call.result = turn;
  }
  return placed;
}

const NONE: readonly OpenCall[] = [];

/** Makes ids unique within a turn: servers that restart their count issue an id twice. */
function openCalls(calls: readonly HistoryCall[]): readonly OpenCall[] {
  if (calls.length === 0) return NONE;
  const taken = new Set(calls.map(({ id }) => id));
  if (taken.size === calls.length) return calls.map((call) => openCall(call, call.id));
  /** How often each id was used so far, skipped numbers included. */
  const counts = new Map<string, number>();
  return calls.map((call) => {
    let count = counts.get(call.id) ?? 0;
    let { id } = call;
    while (count > 0 && taken.has(id)) id = `${call.id}_${++count}`;
    counts.set(call.id, Math.max(count, 1));
    taken.add(id);
    return openCall(call, id);
  });
}

function openCall({ given, name, arguments: text, extra }: HistoryCall, id: string): OpenCall {
  return { given, id, name, arguments: text, extra, result: undefined };
}

/** Calls that wait for their results. */
class OpenCalls {
  /** Calls by the key in their results; the first call of the last turn is at the end. */
  readonly #named = new Map<string, OpenCall[]>();
  /** Calls of the last turn, the first of them at the end. */
  #latest: OpenCall[] = [];

  add(calls: readonly OpenCall[]): void {
    if (calls.length === 0) return;
    this.#latest = calls.toReversed();
    for (const call of this.#latest) {
      if (call.given === undefined) continue;
      const named = this.#named.get(call.given);
      if (named === undefined) this.#named.set(call.given, [call]);
      else named.push(call);
    }
  }

  /** Returns the first open call of the last turn that has a call with this key; without a key, of the last turn. */
  of(given: string | undefined): OpenCall | undefined {
    const calls = given === undefined ? this.#latest : (this.#named.get(given) ?? []);
    while (calls.at(-1)?.result !== undefined) calls.pop();
    return calls.at(-1);
  }
}
