import { isRecord, type UnknownRecord } from '../../records/index.ts';

/**
 * Leaves the first tool call of each choice in the chat bodies of a worker that calls several tools although the client wants
 * one at a time. One for each request: the chunks of a stream name their calls by index, and the first that is named stays.
 */
export class OnlyFirstCall {
  /** Index of the call that stays, by choice. */
  readonly #kept = new Map<number, number>();

  /** The body without further calls; undefined when nothing is left of a chunk. What is no chat body stays as it is. */
  of(body: unknown): unknown {
    if (!isRecord(body) || !Array.isArray(body.choices)) return body;
    const given: readonly unknown[] = body.choices;
    const choices = given.map((choice, at) => (isRecord(choice) ? this.#choice(choice, at) : choice));
    if (choices.every((choice, at) => choice === given[at])) return body;
    const isEmpty = choices.every((choice) => choice === undefined) && body.usage == null;
    return isEmpty ? undefined : { ...body, choices: choices.filter((choice) => choice !== undefined) };
  }

  /** The same choice when it holds no further call; undefined when it holds nothing else. */
  #choice(choice: UnknownRecord, at: number): unknown {
    const key = isRecord(choice.delta) ? 'delta' : 'message';
    const said = choice[key];
    if (!isRecord(said) || !Array.isArray(said.tool_calls)) return choice;
    const index = typeof choice.index === 'number' ? choice.index : at;
    const calls = said.tool_calls.filter((call: unknown, place) => this.#stays(index, call, place));
    if (calls.length === said.tool_calls.length) return choice;
    const { tool_calls: _all, ...rest } = said;
    const saysMore = calls.length > 0 || Object.values(rest).some((value) => value !== null && value !== '');
    if (!saysMore && choice.finish_reason == null) return undefined;
    return { ...choice, [key]: calls.length === 0 ? rest : { ...rest, tool_calls: calls } };
  }

  #stays(choice: number, call: unknown, place: number): boolean {
    const index = isRecord(call) && typeof call.index === 'number' ? call.index : place;
    const kept = this.#kept.get(choice);
    if (kept === undefined) this.#kept.set(choice, index);
    return kept === undefined || kept === index;
  }
}
