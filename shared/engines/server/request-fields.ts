import { workerError } from '../../errors/index.ts';
import type { EngineRequest, GuidedDecoding } from '../../protocol/generation/index.ts';
import { asRecord } from '../../records/index.ts';

/** One field of a request and what an engine calls it. */
export interface FieldRow {
  /** Name for messages, as clients know it. */
  readonly ours: string;
  /** Where it goes; undefined = the engine cannot do it and the request is refused; null = it changes nothing there. */
  readonly theirs: string | undefined | null;
  /** Undefined = not asked for. */
  read(request: EngineRequest): unknown;
}

/**
 * The fields of `request` under the engine's names, by its table.
 * @throws ServeError that names a field which the engine cannot honour
 */
export function mapFields(table: readonly FieldRow[], request: EngineRequest, engine: string): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const { ours, theirs, read } of table) {
    if (theirs === null) continue;
    const value = read(request);
    if (value === undefined || value === null) continue;
    if (theirs === undefined) {
      throw workerError('InvalidArgument', `${ours} is not supported by ${engine}`, { param: ours });
    }
    fields[theirs] = value;
  }
  return fields;
}

type Sampling = EngineRequest['sampling'];

/** A row for a sampling option that is passed on as it is. */
export function sampling(ours: keyof Sampling & string, theirs: string | undefined | null = ours): FieldRow {
  return { ours, theirs, read: (request) => request.sampling[ours] };
}

/** The kind of `guided` that is set; an empty list of choices counts as unset. */
export function guidedKind(
  guided: GuidedDecoding | undefined,
): 'json' | 'regex' | 'choice' | 'grammar' | 'structural_tag' | undefined {
  if (guided === undefined) return undefined;
  if (guided.json !== undefined) return 'json';
  if (guided.regex !== undefined) return 'regex';
  if (guided.choice !== undefined && guided.choice.length > 0) return 'choice';
  if (guided.grammar !== undefined) return 'grammar';
  return guided.structural_tag === undefined ? undefined : 'structural_tag';
}

/** A JSON value as text; a text is taken for JSON already. */
export function jsonText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The body of a request with its prompt ids, which are written without a list of numbers in between. */
export function bodyWithIds(name: string, ids: Uint32Array, fields: Readonly<Record<string, unknown>>): string {
  const rest = JSON.stringify(fields);
  return `{"${name}":[${ids.join(',')}]${rest === '{}' ? '' : `,${rest.slice(1, -1)}`}}`;
}

/** Parameters of a KV transfer that a prefill worker gave. */
export function transferParams(request: EngineRequest): unknown {
  return asRecord(request.prefillResult?.disaggregated_params)?.kv_transfer_params ?? undefined;
}
